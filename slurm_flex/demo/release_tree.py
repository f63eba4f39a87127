"""Root trees that hold another Slurm release, made once and kept.

Debian carries Slurm 22.05 (bookworm), 24.11 (trixie) and 26.05 (sid); ``mmdebstrap`` unpacks one
of them into a folder in about 15 s and 220 MB, from the mirror that apt on this machine uses.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from slurm_flex.errors import FlexError

SUITES: Final = {"22.05": "bookworm", "24.11": "trixie", "26.05": "sid"}
# Where Slurm is installed; a virtualenv or a user's own PATH says nothing about that.
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PACKAGES: Final = ("slurmctld", "slurmd", "slurm-client", "munge", "python3", "procps")
MAKING_A_TREE: Final = 600.0  # seconds; it takes 15 s from a near mirror
_COMPLETE: Final = "slurm-version"  # written last, beside the tree: what ``slurmctld -V`` says


class NoTree(FlexError):
    """The root tree of a release can't be made on this machine."""


def host_release() -> str | None:
    """``22.05`` for the 22.05.x that is installed on this machine; None when none is."""
    found = shutil.which("slurmctld", path=SYSTEM_PATH)
    if found is None:
        return None
    answer = subprocess.run([found, "-V"], capture_output=True, text=True, timeout=20, check=False)
    return _release(answer.stdout)


def trees_folder() -> Path:
    """``SLURM_FLEX_TREES``, else ``.trees`` at the top of the repository."""
    given = os.environ.get("SLURM_FLEX_TREES")
    return Path(given) if given else Path(__file__).resolve().parents[2] / ".trees"


def release_tree(release: str) -> Path:
    """The root tree that holds ``release`` (``24.11``), made if it isn't there yet.

    Whoever comes second waits for the first. Raises NoTree.
    """
    if release not in SUITES:
        raise NoTree(
            f"no Debian suite is known to carry Slurm {release}",
            fix=f"choose one of {', '.join(SUITES)}",
        )
    folder = trees_folder()
    tree = folder / release
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f"{release}.lock"):
        if not (folder / f"{release}.{_COMPLETE}").exists():
            _make(release, tree)
    return tree


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(release: str, tree: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)  # half a tree of someone who was interrupted
    program = shutil.which("mmdebstrap")
    if program is None:
        raise NoTree("mmdebstrap is not installed", fix="apt-get install mmdebstrap")
    building = Path(tempfile.mkdtemp(prefix=f"{release}-", dir=tree.parent))
    try:
        root = building / "root"
        _run(
            [
                program,
                "--quiet",
                "--variant=minbase",
                f"--include={','.join(PACKAGES)}",
                '--aptopt=APT::Install-Recommends "false"',
                '--aptopt=Acquire::Check-Valid-Until "false"',
                SUITES[release],
                str(root),
                debian_mirror(),
            ]
        )
        version = _run(["chroot", str(root), "slurmctld", "-V"])
        if _release(version) != release:
            raise NoTree(
                f"Debian {SUITES[release]} carries {version.strip()}, not Slurm {release}",
                fix="the suite has moved on; change SUITES",
            )
        root.chmod(0o755)
        root.rename(tree)
        (tree.parent / f"{release}.{_COMPLETE}").write_text(version)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def debian_mirror() -> str:
    """The mirror from which apt on this machine gets Debian's main component. Raises NoTree."""
    listed = _run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(SITE)",
            "Created-By: Packages",
            "Origin: Debian",
            "Component: main",
        ]
    )
    for site in listed.split():
        if not site.rstrip("/").endswith("-security"):
            return site
    raise NoTree(
        "apt on this machine has no Debian mirror in its lists",
        where="/etc/apt",
        fix="add one, then apt-get update",
    )


def _release(version: str) -> str | None:
    """``24.11`` from ``slurm-wlm 24.11.5``."""
    words = version.split()
    return ".".join(words[-1].split(".")[:2]) if words else None


def _run(argv: list[str]) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=MAKING_A_TREE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoTree(str(error), where=argv[0]) from error
    if done.returncode != 0:
        raise NoTree(f"ended with {done.returncode}: {done.stderr.strip()[-2000:]}", where=argv[0])
    return done.stdout
