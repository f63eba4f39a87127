"""The spool: one small file for each call of a hook, so that no call is lost.

The hooks write, the next pass reads and removes. A record tells what slurmctld asked and when; it
decides nothing (slurm-flex acts on what Slurm shows, not on what a hook heard). stdlib only,
Python 3.9 and later: the hooks use it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from slurm_flex.folders import give_to_owner, make_folder

FOLDER_NAME = "spool"
MOST_AT_ONCE = 10_000
"""Records that one pass takes; the rest waits for the next."""
_SUFFIX = ".json"
_UNFINISHED = ".new"
_LEFT_BEHIND_SECONDS = 3600


def put(run_dir: Path, record: Mapping[str, object]) -> Path:
    """Store a record so that a crash a moment later keeps it whole; 0600.

    Raises OSError, for example for a full disk; nothing half-written is left then.
    """
    folder = run_dir / FOLDER_NAME
    make_folder(folder, 0o700)
    # The time sorts, the rest makes it unique: hooks run side by side and pids come round.
    name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}"
    unfinished, finished = folder / (name + _UNFINISHED), folder / (name + _SUFFIX)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            _write_all(handle, json.dumps(record).encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        give_to_owner(unfinished)
        unfinished.rename(finished)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    _sync_folder(folder)
    return finished


def names(run_dir: Path) -> list[str]:
    """The records that wait, oldest first; no folder is an empty spool."""
    try:
        return sorted(file.name for file in (run_dir / FOLDER_NAME).iterdir() if _is_whole(file))
    except OSError:
        return []


def read(run_dir: Path) -> list[tuple[Path, dict[str, object] | None]]:
    """The oldest records with their files. None: that file holds no record."""
    folder = run_dir / FOLDER_NAME
    _sweep(folder)
    return [(folder / name, _record(folder / name)) for name in names(run_dir)[:MOST_AT_ONCE]]


def remove(files: Iterable[Path]) -> None:
    """Forget records that were dealt with. One that is gone already is fine."""
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            file.unlink()


def _is_whole(file: Path) -> bool:
    return file.suffix == _SUFFIX


def _record(file: Path) -> dict[str, object] | None:
    try:
        record = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _sweep(folder: Path) -> None:
    """Remove what a hook that was killed while writing left behind."""
    now = time.time()
    for file in folder.glob("*" + _UNFINISHED):
        with contextlib.suppress(OSError):
            if now - file.stat().st_mtime > _LEFT_BEHIND_SECONDS:
                file.unlink()


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _sync_folder(folder: Path) -> None:
    """Make the rename itself outlive a power cut; some file systems refuse, and that is all."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
