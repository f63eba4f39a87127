"""One actor a cluster: a lock that the daemon holds while it lives, and a one-shot for its pass."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final

from slurm_flex.cluster.settings import Settings
from slurm_flex.errors import FlexError
from slurm_flex.folders import how_to_get, make_folder, user_name
from slurm_flex.render.installed import installed

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
        make_folder(run_dir)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        fix = how_to_get(run_dir, user_name(os.geteuid()))
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


def check_user(settings: Settings, env: Mapping[str, str]) -> None:
    """Refuse to leave files that SlurmUser, whom hooks and daemon run as, couldn't write.

    Raises FlexError: root is not for SlurmUser, a folder is somebody else's. A folder that isn't
    there yet will be ours. It says whom to run it as, or what root does to such a folder.
    """
    me = user_name(os.geteuid())
    here = installed(settings, env)
    slurm_user = here.slurm_user()
    if me == "root" and slurm_user not in (None, "root"):
        what = f"SlurmUser is {slurm_user}, and this runs as root: its files would be in the way"
        raise FlexError(what, where=str(here.slurm_conf), fix=_run_it_as(slurm_user))
    for folder in (Path(settings.state_dir), Path(settings.run_dir)):
        owner = _owner_of(folder)
        if owner in (None, me) or (folder == Path(settings.run_dir) and _may_write(folder)):
            continue
        is_right = me == (slurm_user or owner)
        fix = how_to_get(folder, me) if is_right else _run_it_as(slurm_user or owner)
        what = f"belongs to user {owner}, and this runs as {me}"
        raise FlexError(what, where=str(folder), fix=fix)


def _run_it_as(user: str | None) -> str:
    return f"run it as {user}: sudo -u {user} slurm-flex ..."


def _owner_of(folder: Path) -> str | None:
    try:
        return user_name(folder.stat().st_uid)
    except OSError:
        return None


def _may_write(folder: Path) -> bool:
    """By its group, say. What root writes there is in the owner's way."""
    return os.geteuid() != 0 and os.access(folder, os.W_OK | os.X_OK, effective_ids=True)


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
