"""Small executables that run a cluster's own Slurm programs from outside its world.

They are what ``slurm_bin_dir`` of the settings points at, so that nothing outside needs to know
which release it drives or where that lives. Two execs: about 3 ms on top of the program.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

CLIENTS: Final = (
    "scontrol squeue sinfo sbatch scancel srun salloc sprio sdiag sacctmgr strigger sreport"
).split()
DAEMONS: Final = ("slurmd", "slurmctld", "munged")
# Folders that a root tree brings itself: a caller's working folder there doesn't exist inside.
_ELSEWHERE: Final = "/usr*|/var*|/etc*|/run*|/boot*"


def write_wrappers(
    folder: Path,
    programs: Iterable[tuple[str, str]],
    *,
    prefix: Sequence[str],
    conf: Path,
    in_tree: bool,
) -> None:
    """One executable for each (name, path inside the world).

    A job inherits the PATH of whoever submitted it: on a node, which is inside already, the
    wrapper is the program itself. So it is for everybody but root, who alone can enter.
    """
    for name, path in programs:
        lines = ["#!/bin/sh", f"export SLURM_CONF={shlex.quote(str(conf))}"]
        if in_tree:
            lines.append(f'case "$PWD" in {_ELSEWHERE}) cd / ;; esac')
        program = f'{shlex.quote(path)} "$@"'
        lines.append(f'[ -O / ] && [ -z "$SLURMD_NODENAME" ] || exec {program}')
        lines.append(f'exec {shlex.join(prefix)} --wdns="$PWD" -- {program}')
        _executable(folder / name, lines)


def write_vm_wrapper(path: Path, argv: Sequence[str], conf: Path) -> None:
    """``slurmd-vm NAME``: the whole VM, for power programs that start their nodes themselves.

    ``argv`` holds ``{name}`` where the node's name belongs.
    """
    words = [
        shlex.quote(word).replace("{name}", '"$1"').replace("'\"$1\"'", '"$1"') for word in argv
    ]
    _executable(
        path,
        ["#!/bin/sh", f"export SLURM_CONF={shlex.quote(str(conf))}", f"exec {' '.join(words)}"],
    )


def _executable(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o755)
