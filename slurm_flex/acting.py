"""One actor a cluster: a lock that the daemon holds while it lives, and a one-shot for its pass."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final

from slurm_flex.errors import FlexError

LOCK_NAME: Final = "acting.lock"
_LOOK_EVERY_SECONDS: Final = 0.2


class SomebodyActs(FlexError):
    """Another process holds the lock."""


class ActingLock:
    """The lock, held from `take_lock` to `release`. It ends with the process, however that ends."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def release(self) -> None:
        os.close(self._handle)

    def __enter__(self) -> ActingLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def take_lock(
    run_dir: Path,
    *,
    patience: timedelta = timedelta(0),
    sleep: Callable[[float], None] = time.sleep,
    told: Callable[[str], None] | None = None,
) -> ActingLock:
    """Take the lock, waiting for it no longer than `patience`; `told` by whom if it has to wait.

    Raises SomebodyActs with the pid of the holder, and FlexError where the folder can't be used.
    """
    file = run_dir / LOCK_NAME
    try:
        run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        fix = "run it as SlurmUser, the owner of that folder"
        raise FlexError(error.strerror or str(error), where=str(file), fix=fix) from error
    looks = round(patience.total_seconds() / _LOOK_EVERY_SECONDS)
    while not _lock(handle):
        holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
        if looks <= 0:
            os.close(handle)
            raise SomebodyActs(f"another slurm-flex acts already (pid {holder})", where=str(file))
        if told is not None:
            told(holder)
            told = None
        sleep(_LOOK_EVERY_SECONDS)
        looks -= 1
    os.truncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return ActingLock(handle)


def check_owner(state_dir: Path) -> None:
    """Refuse to leave files that the daemon can't write: act as the owner of the state folder.

    Raises FlexError. A folder that isn't there yet will be ours.
    """
    try:
        owner = state_dir.stat().st_uid
    except OSError:
        return
    if owner != os.geteuid():
        raise FlexError(
            f"belongs to user {_user_name(owner)}, and this runs as {_user_name(os.geteuid())}",
            where=str(state_dir),
            fix=f"run it as {_user_name(owner)}: sudo -u {_user_name(owner)} slurm-flex ...",
        )


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _user_name(number: int) -> str:
    import pwd  # noqa: PLC0415  # for an error message alone

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
