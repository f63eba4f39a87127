"""Finding and killing all the processes of one VM through /proc.

slurmd's slurmstepds make sessions of their own, so a process group is not enough. A VM's
processes are: those whose environment carries its marker, everything that descends from them, and
everything in a session of one of these (what a job left behind when its parent ended).
A process that has left its session, dropped the marker and outlived its parents can't be told from
others; ``unshare --pid --fork --kill-child`` before slurmd has the kernel see to those."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

MARKER: Final = "SLURM_FLEX_VM"
_PROC: Final = Path("/proc")


def find(
    ids: Collection[str], roots: Mapping[int, str] | None = None, marker: str = MARKER
) -> dict[int, str]:
    """Processes of these VMs: pid to the VM's id. ``roots`` are pids known to belong to one;
    ``marker`` is the variable that holds the id."""
    parents: dict[int, int] = {}
    sessions: dict[int, int] = {}
    found: dict[int, str] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        family = _family(entry)
        if family is None:
            continue
        parents[pid], sessions[pid] = family
        owner = (roots or {}).get(pid) or _marker(entry, marker)
        if owner in ids:
            found[pid] = owner
    for pid in parents:
        heir = _inherited(pid, parents, found)
        if heir is not None:
            found[pid] = heir
    owners = {sessions[pid]: owner for pid, owner in found.items()}
    owners.pop(os.getsid(0), None)
    for pid, session in sessions.items():
        if session in owners:
            found.setdefault(pid, owners[session])
    found.pop(os.getpid(), None)
    return found


def kill(
    ids: Collection[str],
    roots: Mapping[int, str] | None = None,
    marker: str = MARKER,
    limit: float = 5.0,
) -> bool:
    """SIGKILL all processes of these VMs; True when none is left within ``limit`` seconds.

    All are stopped first, until a look finds no new one: what is stopped doesn't fork, and while
    its parents are there a child can be told."""
    deadline = time.monotonic() + limit
    while True:
        stopped: set[int] = set()
        while found := set(find(ids, roots, marker)) - stopped:
            _send(found, signal.SIGSTOP)
            stopped |= found
        if not stopped:
            return True
        _send(stopped, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)


def _send(pids: Collection[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _inherited(pid: int, parents: Mapping[int, int], found: Mapping[int, str]) -> str | None:
    seen: set[int] = set()
    while pid in parents and pid not in seen:
        if pid in found:
            return found[pid]
        seen.add(pid)
        pid = parents[pid]
    return None


def _family(entry: Path) -> tuple[int, int] | None:
    """The parent's pid and the session; None for what is gone, or dead and not yet reaped."""
    try:
        stat = (entry / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    state, parent, _group, session = stat.rpartition(")")[2].split()[:4]
    return None if state in ("Z", "X") else (int(parent), int(session))


def _marker(entry: Path, marker: str) -> str:
    try:
        environment = (entry / "environ").read_bytes()
    except OSError:
        return ""
    prefix = f"{marker}=".encode()
    for item in environment.split(b"\0"):
        if item.startswith(prefix):
            return item[len(prefix) :].decode(errors="replace")
    return ""
