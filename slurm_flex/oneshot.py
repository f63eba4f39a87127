"""Without a daemon a hook starts one look at the world that outlives it: a detached reconcile.

slurmctld's side kills a program's whole process group when the program exits, so setsid must be
done before (facts: slurm.md). A lock lets a hundred hooks start one. stdlib only, Python 3.9 and
later.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_flex import spool
from slurm_flex.folders import make_folder, user_name
from slurm_flex.hook_site import LOG_NAME, HookSite

LOCK_NAME = "oneshot.lock"
_LONGEST_RUN_SECONDS = 600
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def find_command(root: Path) -> Path | None:
    """The slurm-flex program: in the installation's .venv, beside this Python, or system-wide."""
    folders = (root / ".venv" / "bin", Path(sys.prefix) / "bin", *map(Path, _PATH.split(":")))
    programs = (folder / "slurm-flex" for folder in folders)
    return next((program for program in programs if os.access(program, os.X_OK)), None)


def start(root: Path, site: HookSite, env: Mapping[str, str]) -> str:
    """Start a detached `slurm-flex reconcile --once`, or leave it to the one that runs already.

    Returns what happened, for the log; root starts none for a folder of SlurmUser's. Raises OSError
    where there is no place for the lock or no process to be had.
    """
    command = find_command(root)
    if command is None:
        return f"no daemon listens in {site.run_dir}, and no slurm-flex program under {root}"
    make_folder(site.run_dir)
    owner = site.run_dir.stat().st_uid
    if os.geteuid() == 0 and owner != 0:  # a pass of root's would be refused, and hold the lock
        return f"no daemon listens in {site.run_dir}; call it as {user_name(owner)}, its owner"
    lock = os.open(site.run_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _locked(lock):
            return "no daemon listens, a one-shot reconcile is under way and will see this call"
        arguments = [str(command), "reconcile", "--once"]
        _detach(arguments, lock, site, _environment(site, env))
    finally:
        os.close(lock)
    return f"no daemon listens in {site.run_dir}: started a one-shot reconcile"


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _environment(site: HookSite, env: Mapping[str, str]) -> dict[str, str]:
    """slurmctld hands on SLURM_CONF and no PATH at all."""
    wanted = {key: env[key] for key in ("SLURM_CONF", "SLURM_FLEX_CONFIG") if key in env}
    if site.settings_file is not None:
        wanted["SLURM_FLEX_CONFIG"] = str(site.settings_file)
    return {"PATH": _PATH, "LANG": "C.UTF-8", **wanted}


def _detach(arguments: Sequence[str], lock: int, site: HookSite, env: Mapping[str, str]) -> None:
    """Fork twice; the middle process leads a session of its own before this function returns."""
    middle = os.fork()
    if middle:
        _, status = os.waitpid(middle, 0)
        if status:
            raise OSError("the process that was to detach failed")
        return
    status = 1
    try:
        os.setsid()
        if os.fork() == 0:
            _let_go(site, lock)
            _run_until_nothing_is_new(arguments, lock, site.run_dir, env)
        status = 0
    except OSError as error:
        os.write(2, f"slurm-flex: the one-shot reconcile failed: {error}\n".encode())
    finally:
        os._exit(status)  # never back into the hook's own code


def _let_go(site: HookSite, lock: int) -> None:
    """Nothing of slurmctld's stays: no descriptor, no folder; output goes to the hooks' log."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # numbers, not paths
        if int(name) > 2 and int(name) != lock:
            with contextlib.suppress(OSError):
                os.close(int(name))
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    log = null
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        log = os.open(site.state_dir / LOG_NAME, flags, 0o600)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)


def _run_until_nothing_is_new(
    arguments: Sequence[str], lock: int, run_dir: Path, env: Mapping[str, str]
) -> None:
    """A hook that finds the lock taken relies on us: records that come later get a run as well.

    The order matters. Hooks write, then try the lock; we let the lock go, then look.
    """
    import subprocess  # noqa: PLC0415  # costs a hook 8 ms, and is needed only here

    while True:
        seen = set(spool.names(run_dir))
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                arguments,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                timeout=_LONGEST_RUN_SECONDS,
                check=False,
            )
        fcntl.flock(lock, fcntl.LOCK_UN)
        if set(spool.names(run_dir)) <= seen or not _locked(lock):
            return
