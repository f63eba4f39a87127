"""Ask Slurm's own parser about a configuration, without a daemon.

`SLURM_CONF=file scontrol show hostnames x` parses the whole file in 3-10 ms; its error names file,
line and key. A missing Include makes it wait for a minute, which is an answer too.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from slurm_flex.cluster.slurm_keys import Release, parse_release
from slurm_flex.errors import FlexError

_SMALLEST: Final = "ClusterName=x\nSlurmctldHost=localhost\n"
_PATIENCE: Final = 10.0
_NOISE: Final = re.compile(r"^scontrol: (?:error|fatal): ")
_CAUSE: Final = re.compile(r"cannot stat file (\S+):.*")


def installed_release(scontrol: Sequence[str] = ("scontrol",), root: Path = Path("/")) -> Release:
    """The release of the installed scontrol. Raises FlexError if there is none.

    scontrol says its version only where it finds a slurm.conf, so it is given a small one.
    """
    with _laid_out({"slurm.conf": _SMALLEST}, root) as folder:
        answer = _run([*scontrol, "-V"], {"SLURM_CONF": f"{folder}/slurm.conf"})
    if not answer.stdout.strip():
        said = answer.stderr.strip().splitlines()
        raise FlexError(f"{scontrol[-1]} -V doesn't say its release: {said[-1] if said else ''}")
    return parse_release(answer.stdout)


def ask_parser(slurm_conf: Path, scontrol: Sequence[str] = ("scontrol",)) -> list[str]:
    """What Slurm's parser says against a file: its messages, or nothing.

    scontrol: the program, with what must stand before it (chroot and a tree's path, say); the
    file's path is then as seen from there. Raises FlexError if it can't be run.
    """
    answer = _run([*scontrol, "show", "hostnames", "x"], {"SLURM_CONF": str(slurm_conf)})
    if answer.returncode == 0 and not answer.stderr.strip():
        return []
    lines = dict.fromkeys(_NOISE.sub("", line) for line in answer.stderr.splitlines())
    return [_CAUSE.sub(r"cannot read \1", line) for line in lines if line.strip()]


def ask_parser_about(
    files: Mapping[str, str],
    main: str = "slurm.conf",
    scontrol: Sequence[str] = ("scontrol",),
    root: Path = Path("/"),
) -> list[str]:
    """The same for files that aren't written yet: they are laid in a folder of their own.

    root: where the program will look for absolute paths (a chroot).
    """
    with _laid_out(files, root) as folder:
        said = ask_parser(folder / main, scontrol)
        return [line.replace(f"{folder}/", "") for line in said]


@contextmanager
def _laid_out(files: Mapping[str, str], root: Path) -> Iterator[Path]:
    """A folder with these files, as it is called from inside root; removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="slurm-flex-", dir=root / "tmp") as folder:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield Path("/") / Path(folder).relative_to(root)


def _run(argv: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    path = f"{os.environ.get('PATH', '')}:/usr/bin:/usr/local/bin:/opt/slurm/bin:/usr/sbin"
    try:
        return subprocess.run(
            argv,
            env={"PATH": path, "LC_ALL": "C", **env},
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except FileNotFoundError as error:
        fix = "install Slurm's client programs"
        raise FlexError(f"{argv[0]} is not installed", fix=fix) from error
    except subprocess.TimeoutExpired as error:
        said = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else ""
        return subprocess.CompletedProcess(argv, 1, "", said or "no answer: an Include is missing")
