"""The process that holds one demo world: its namespaces, and the promise to leave nothing behind.

Run as ``python3 -I keeper.py`` (stdlib only). It reads one JSON line from stdin::

    {"folder": "/tmp/x", "hosts": "/tmp/x/hosts", "tree": null or "/a/root/tree", "binds": [...],
     "reachable": [...]}

and answers with one JSON line, ``{"keeper": PID, "world": PID}`` or ``{"error": TEXT}``.

*World* is a child in a private mount namespace: a hosts file of its own and, with ``tree``, the
root of another Debian release over which the machine's own folders are mounted at their own
paths. Nothing is mounted on the machine itself, so nothing has to be unmounted: the mounts end
with the last process that sees them. What is ``reachable`` can be reached there by every user,
though it may lie in root's home.

Both processes live in an IPC namespace of their own, which everything that is started in the
world inherits. That makes it an exact mark of ownership, unlike a name or a recorded pid: when
stdin closes (whoever started us ended, however that came about) or on SIGTERM, precisely the
processes of that namespace are killed and the folder is removed. A line ``keep`` on stdin means
that the world outlives its starter, until SIGTERM.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import stat
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

# From sched.h and sys/mount.h.
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWIPC: Final = 0x08000000
MS_RDONLY: Final = 0x1
MS_REMOUNT: Final = 0x20
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000
MNT_DETACH: Final = 0x2

# What a root tree brings itself; every other folder of the machine is mounted into it.
SYSTEM_FOLDERS: Final = frozenset(
    "bin boot dev etc lib lib32 lib64 libx32 lost+found proc run sbin sys usr var".split()
)
# The new root is put together here: always there, and not one of the folders mounted into it.
STAGE: Final = Path("/run")

_libc: Final = ctypes.CDLL(None, use_errno=True)


def _check(result: int, doing: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")


def _mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode(),
        ctypes.c_ulong(flags),
        data.encode(),
    )
    _check(result, f"mount {source} on {target}")


def _bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.touch()
    _mount(str(source), target, flags=MS_BIND | MS_REC)
    if read_only:
        _mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def _enter_tree(tree: Path, hosts: Path, binds: list[Path]) -> None:
    """Make ``tree`` this mount namespace's root; the tree itself is only read, so many share it."""
    _mount("tmpfs", STAGE, "tmpfs", data="mode=0755")
    for link in tree.iterdir():
        if link.is_symlink():
            (STAGE / link.name).symlink_to(link.readlink())
    _bind(tree / "usr", STAGE / "usr", read_only=True)
    shutil.copytree(tree / "etc", STAGE / "etc", symlinks=True)
    for folder in ("var/lib", "var/log", "var/spool", "run/lock"):
        (STAGE / folder).mkdir(parents=True)
    (STAGE / "var/run").symlink_to("/run")
    for name in ("passwd", "group"):  # whoever submits here is the same person there
        shutil.copy(Path("/etc") / name, STAGE / "etc" / name)
    _bind(hosts, STAGE / "etc/hosts")
    for name in ("dev", "proc", "sys", "var/tmp"):
        _bind(Path("/") / name, STAGE / name)
    for entry in Path("/").iterdir():
        if entry.is_dir() and not entry.is_symlink() and entry.name not in SYSTEM_FOLDERS:
            _bind(entry, STAGE / entry.name)
    for path in binds:
        if not (STAGE / path.relative_to("/")).exists():
            _bind(path, STAGE / path.relative_to("/"))
    (STAGE / ".before").mkdir()
    os.chdir(STAGE)
    _check(_libc.pivot_root(os.fsencode(STAGE), os.fsencode(STAGE / ".before")), "pivot_root")
    os.chdir("/")
    _check(_libc.umount2(b"/.before", MNT_DETACH), "umount the machine's root")


def _open_ways(paths: list[Path]) -> None:
    """Let every user reach these: a folder on the way that is closed shows nothing but them."""
    gates = {path: gate for path in paths if (gate := _closed_folder(path)) is not None}
    held = {path: os.open(path, os.O_PATH) for path in gates}
    for gate in set(gates.values()):
        _mount("tmpfs", gate, "tmpfs", data="mode=0755")
    os.umask(0o022)
    for path, handle in held.items():
        _bind(Path(f"/proc/self/fd/{handle}"), path)
        os.close(handle)


def _closed_folder(path: Path) -> Path | None:
    """The uppermost folder above the path that others may not enter."""
    above = reversed(path.parents)
    return next((one for one in above if not one.stat().st_mode & stat.S_IXOTH), None)


def _hold_world(spec: dict[str, Any], answer: int) -> NoReturn:
    """In the child: build the mount namespace, say so, and wait to be killed."""
    try:
        _check(_libc.unshare(CLONE_NEWNS), "unshare the mount namespace")
        _mount("none", Path("/"), flags=MS_REC | MS_PRIVATE)
        if spec["tree"]:
            _enter_tree(Path(spec["tree"]), Path(spec["hosts"]), [Path(b) for b in spec["binds"]])
        else:
            _bind(Path(spec["hosts"]), Path("/etc/hosts"))
        _open_ways([Path(path) for path in spec["reachable"]])
    except OSError as error:
        os.write(answer, str(error).encode())
        os._exit(1)
    os.close(answer)
    while True:
        signal.pause()


def _in_our_namespace() -> list[int]:
    """Pids of every process that shares our IPC namespace, ourselves excepted."""
    mine = Path("/proc/self/ns/ipc").readlink()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if (entry / "ns/ipc").readlink() == mine:
                found.append(int(entry.name))
        except OSError:
            continue  # it ended, or is a zombie, which has left its namespaces
    return found


def _end_everything() -> None:
    while pids := _in_our_namespace():
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def main() -> int:
    spec = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGTERM, _terminate)
    _check(_libc.unshare(CLONE_NEWIPC), "unshare the IPC namespace (this needs root)")
    answer, child_end = os.pipe()
    world = os.fork()
    if world == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(answer)
        _hold_world(spec, child_end)
    os.close(child_end)
    try:
        with os.fdopen(answer, "rb") as pipe:
            error = pipe.read().decode()
        reply = {"error": error} if error else {"keeper": os.getpid(), "world": world}
        print(json.dumps(reply), flush=True)
        kept = False
        for line in sys.stdin:
            kept = kept or line.strip() == "keep"
        while kept:
            signal.pause()
    finally:
        _end_everything()
        shutil.rmtree(spec["folder"], ignore_errors=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as failure:
        print(json.dumps({"error": str(failure)}), flush=True)
        sys.exit(1)
