"""The startup script of a pool's VMs: etc/compute/startup.sh with the pool's lines filled in.

It carries all that a node needs and its image doesn't have: the health checks (a small archive),
what the node is meant to be (node.json), and the scripts of the cluster file.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import shlex
import socket
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from slurm_flex.cluster.model import Cluster, Pool
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.storage import Mount, Share, mounts_of
from slurm_flex.errors import FlexError
from slurm_flex.render.power import SITE_FOLDER

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "etc" / "compute" / "startup.sh"
_SITE: Final = ("# ---- site ----\n", "# ---- end of site ----\n")
_PROGRAMS: Final = ("# ---- programs ----\n", "# ---- end of programs ----\n")
_HEALTH: Final = ("scripts/prolog.py", "scripts/epilog.py", "scripts/health.py")
_EXECUTABLE: Final = 0o755
_DELIMITER: Final = "SLURM_FLEX_END_OF_TEXT"


def startup_script(
    cluster: Cluster,
    settings: Settings,
    pool: Pool,
    shares: Mapping[str, Share] | None = None,
    *,
    controller: str = "",
) -> str:
    """The script for a pool's instance template.

    shares: what :func:`~slurm_flex.cluster.storage.resolve_storage` found. controller: this
    controller's name, where the settings have no conf_server (by default the host's name).
    The same input gives the same text, byte for byte: templates are named by their content.
    Raises FlexError for storage without a share and for a missing file of our own.
    """
    try:
        text = SOURCE.read_text(encoding="utf-8")
    except OSError as error:
        fix = "run slurm-flex from its source tree: pip install -e /opt/slurm-flex"
        raise FlexError(error.strerror or str(error), where=str(SOURCE), fix=fix) from error
    mounts = list(mounts_of(cluster, pool, shares or {}))
    server = settings.conf_server or controller or socket.gethostname().split(".")[0]
    text = _between(text, _SITE, _site_lines(cluster, settings, pool, mounts, server))
    return _between(text, _PROGRAMS, _program_lines(cluster, settings, pool, mounts))


def _between(text: str, marks: tuple[str, str], lines: Iterable[str]) -> str:
    before, _, rest = text.partition(marks[0])
    _, _, after = rest.partition(marks[1])
    if not after:
        raise FlexError(f"the mark {marks[0].strip()!r} is gone", where=str(SOURCE))
    return "".join([before, marks[0], *(f"{line}\n" for line in lines), marks[1], after])


def _site_lines(
    cluster: Cluster, settings: Settings, pool: Pool, mounts: list[Mount], server: str
) -> Iterator[str]:
    values = {
        "CLUSTER": cluster.id,
        "POOL": pool.id,
        "ROLE": "login" if pool.is_login else "compute",
        "CONF_SERVER": server,
        "AUTH": settings.auth_type,
        "KEY_SOURCE": settings.key_source,
        "GPUS": str(_gpus(settings, pool)),
        "INSTALL_DIR": settings.install_dir,
    }
    yield from (f"{name}={shlex.quote(value)}" for name, value in values.items())
    yield f"SLURMD_OPTIONS=({shlex.join(shlex.split(settings.slurmd_options))})"
    shown = (f"{mount.share.kind} {mount.share.source} {mount.target}" for mount in mounts)
    yield f"MOUNTS=({shlex.join(shown)})"


def _gpus(settings: Settings, pool: Pool) -> int:
    """How many GPUs must answer before slurmd starts; none where Slurm isn't told of them."""
    return 0 if settings.gpu_files == "none" else pool.accelerator_count


def _program_lines(
    cluster: Cluster, settings: Settings, pool: Pool, mounts: list[Mount]
) -> Iterator[str]:
    checked = settings.health_checks and not pool.is_login
    yield from _function("payload", health_archive() if checked else "")
    facts = node_facts(settings, pool, mounts, whole=has_whole_node_jobs(cluster, pool))
    yield from _function("node_json", json.dumps(facts, indent=1))
    yield from _site_programs(cluster, settings, pool, checked=checked)
    yield from _function("pool_script", pool.startup_script)


def _function(name: str, text: str) -> Iterator[str]:
    """A shell function that prints a text, verbatim."""
    if not text:
        yield f"{name}() {{ :; }}"
        return
    yield f"{name}() {{"
    yield from _here("cat", text)
    yield "}"


def _here(command: str, text: str) -> Iterator[str]:
    delimiter = _DELIMITER
    lines = text.removesuffix("\n").split("\n")
    while delimiter in lines:
        delimiter += "_"
    yield f"{command} <<'{delimiter}'"
    yield from lines
    yield delimiter


def has_whole_node_jobs(cluster: Cluster, pool: Pool) -> bool:
    """Every job of the pool has its nodes for itself: OverSubscribe=EXCLUSIVE everywhere."""
    configs = [
        {key.lower(): value for key, value in part.config.items()}
        for part in cluster.partitions_of(pool)
    ]
    shares = [one.get("oversubscribe", one.get("shared", "NO")).upper() for one in configs]
    return bool(shares) and all(value == "EXCLUSIVE" for value in shares)


def node_facts(
    settings: Settings, pool: Pool, mounts: Iterable[Mount] = (), *, whole: bool = False
) -> dict[str, object]:
    """/etc/slurm-flex/node.json: what the health checks on a node go by.

    whole: every job there has the node for itself.
    """
    facts: dict[str, object] = {
        "machine_type": pool.machine_type,
        "mounts": [mount.target for mount in mounts],
        "allow_opt_out": settings.health_opt_out,
    }
    if pool.accelerator_count:
        facts["gpus"] = pool.accelerator_count
    if whole:
        facts["whole_node_jobs"] = True
    return facts


def _site_programs(
    cluster: Cluster, settings: Settings, pool: Pool, *, checked: bool
) -> Iterator[str]:
    """Prolog and its like: one program each that runs our checks, then the site's scripts."""
    slurm = cluster.slurm
    programs = {
        "prolog": slurm.prolog_bash_scripts,
        "epilog": slurm.epilog_bash_scripts,
        "taskprolog": slurm.task_prolog_bash_scripts,
        "taskepilog": slurm.task_epilog_bash_scripts,
    }
    wanted = {name: scripts for name, scripts in programs.items() if scripts}
    if not wanted or pool.is_login:
        yield "site_programs() { :; }"
        return
    folder = f"{settings.install_dir}/{SITE_FOLDER}"
    yield "site_programs() {"
    yield f"attempt mkdir -p {shlex.quote(folder)}"
    for name, scripts in wanted.items():
        ours = f"{settings.install_dir}/scripts/{name}.py"
        calls = [ours] if checked and name in ("prolog", "epilog") else []
        for at, script in enumerate(scripts):
            path = f"{folder}/{name}.{at}"
            calls.append(path)
            yield from _written(
                path, script if script.startswith("#!") else f"#!/bin/bash\n{script}"
            )
        yield from _written(f"{folder}/{name}", _in_order(name, calls))
    yield "}"


def _in_order(name: str, calls: Iterable[str]) -> str:
    """A program that runs others in order and ends with the first failure.

    What a TaskProlog prints is meant for slurmd (export NAME=value), so output is left alone.
    """
    lines = [f"#!/bin/bash\n# {name}: in this order, until one fails."]
    lines += [f"{shlex.quote(call)} || exit $?" for call in calls]
    return "\n".join([*lines, "exit 0"])


def _written(path: str, text: str) -> Iterator[str]:
    quoted = shlex.quote(path)
    yield from _here(f"cat >{quoted}", text)
    yield f"attempt chmod 755 {quoted}"


def health_archive() -> str:
    """The checks and what slurm.conf points at, as base64 of a tar.gz; the same bytes each time."""
    names = [*_HEALTH, *_files("etc/health.d", "*.json"), *_files("slurm_flex/health", "*.py")]
    names.append("slurm_flex/__init__.py")
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(names):
            try:
                data = (ROOT / name).read_bytes()
            except OSError as error:
                raise FlexError(error.strerror or str(error), where=str(ROOT / name)) from error
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.mode = _EXECUTABLE if name in _HEALTH else 0o644
            archive.addfile(entry, io.BytesIO(data))
    packed = gzip.compress(plain.getvalue(), compresslevel=9, mtime=0)
    return base64.encodebytes(packed).decode("ascii")


def _files(folder: str, pattern: str) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in (ROOT / folder).glob(pattern)]
