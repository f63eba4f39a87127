"""A private space for one Slurm cluster on this machine, and the way into it.

The keeper (see :mod:`slurm_flex.demo.keeper`) holds the namespaces; this is its other end. As
long as the :class:`WorldSpace` is open, programs are run in it by prefixing their argv. When it is
closed, or this process ends in any way whatsoever, everything in it is killed.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from slurm_flex.errors import FlexError

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# Of the virtualenv and of what it was made from, which pyenv keeps in a home.
_PYTHON: Final = tuple(dict.fromkeys([sys.prefix, os.path.realpath(sys.base_prefix)]))
_CLOSING: Final = 30.0  # seconds for killing some dozens of processes; it takes about 0.1


class NoSpace(FlexError):
    """The namespaces for a cluster can't be made on this machine."""


class WorldSpace:
    """A fresh folder and a mount namespace with its own hosts file, on this machine or in a tree.

    folder: private to this world; it is removed when the world ends.
    tree:   root tree of another Debian release, or None for this machine's own programs.
    for_users: every user in there can reach this Python, the repository and the folder, wherever
    they lie.
    """

    def __init__(self, *, tree: Path | None = None, for_users: bool = False) -> None:
        self.tree = tree
        self._for_users = for_users
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-flex-"))
        self.folder.chmod(0o755)  # jobs may run as anyone and need slurm.conf and munge's socket
        self.hosts = self.folder / "hosts"
        self.write_hosts(())
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("keeper.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C at a terminal is for us; the keeper ends with us
        )
        reply = self._introduce()
        self.keeper_pid: int = reply["keeper"]
        self.world_pid: int = reply["world"]
        self._ipc_name = Path(f"/proc/{self.world_pid}/ns/ipc").readlink()

    def _introduce(self) -> dict[str, int]:
        spec = {
            "folder": str(self.folder),
            "hosts": str(self.hosts),
            "tree": str(self.tree) if self.tree else None,
            "binds": [str(REPOSITORY), str(self.folder)],
            "reachable": [*_PYTHON, str(REPOSITORY), str(self.folder)] if self._for_users else [],
        }
        if self._keeper.stdin is None or self._keeper.stdout is None:
            raise NoSpace("the keeper has no pipes")
        with suppress(BrokenPipeError):
            self._keeper.stdin.write(json.dumps(spec) + "\n")
            self._keeper.stdin.flush()
        line = self._keeper.stdout.readline()
        reply = json.loads(line) if line else {"error": "the keeper ended without a word"}
        if "error" in reply:
            self.close()
            shutil.rmtree(self.folder, ignore_errors=True)  # the keeper got no further
            raise NoSpace(
                str(reply["error"]), fix="run as root on a kernel with mount and IPC namespaces"
            )
        return {key: int(value) for key, value in reply.items()}

    def write_hosts(self, names: Iterable[str]) -> None:
        """Let exactly these names, and this machine's, mean 127.0.0.1 in here."""
        mine = os.uname().nodename
        every = dict.fromkeys(["localhost", mine, mine.split(".")[0], *names])
        # In place: what is mounted over /etc/hosts is this very inode.
        with self.hosts.open("w") as file:
            file.writelines(f"127.0.0.1 {name}\n" for name in every)

    def enter(self, argv: Sequence[str], *, user: str = "") -> list[str]:
        """The argv that runs a program in here; a chain of execs, so the pid stays the same.

        user: as whom, with no other group than their own; empty is whoever runs the argv.
        """
        return [*self.prefix(), *_becoming(user), "--", *argv]

    def prefix(self) -> list[str]:
        """``nsenter`` and its options; may be followed by more options, then ``--``."""
        ns = f"/proc/{self.world_pid}/ns"
        return ["/usr/bin/nsenter", f"--mount={ns}/mnt", f"--ipc={ns}/ipc"]

    def claim(self, argv: Sequence[str]) -> list[str]:
        """The argv that runs a program on the machine as it is, but ends it with this world."""
        return ["/usr/bin/nsenter", f"--ipc=/proc/{self.world_pid}/ns/ipc", "--", *argv]

    def as_user(self, user: str) -> list[str]:
        """What runs a program of ours as a user of this machine: only root may come and go;
        everybody else is inside, where they can reach it."""
        return self.claim([]) if user == "root" else self.enter([], user=user)

    def owns(self, pid: int) -> bool:
        """Whether a process is alive and was started in this world."""
        try:
            return Path(f"/proc/{pid}/ns/ipc").readlink() == self._ipc_name
        except OSError:
            return False

    def keep(self) -> None:
        """Let the world outlive this process, until its keeper gets SIGTERM."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.write("keep\n")
            self._keeper.stdin.close()

    def close(self) -> None:
        """End every process in the world and remove its folder; twice is no harm."""
        if self._keeper.stdin is not None and not self._keeper.stdin.closed:
            with suppress(BrokenPipeError):
                self._keeper.stdin.close()
        if self._keeper.stdout is not None:
            self._keeper.stdout.close()
        self._keeper.wait(_CLOSING)

    def __enter__(self) -> WorldSpace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _becoming(user: str) -> list[str]:
    """Options of nsenter that become a user of this machine; a root tree has the same users."""
    if not user:
        return []
    account = pwd.getpwnam(user)
    return [f"--setgid={account.pw_gid}", f"--setuid={account.pw_uid}"]


def user_env(env: Mapping[str, str], user: str) -> dict[str, str]:
    """The environment as it would be after su: nothing of whoever became that user."""
    return {**env, "HOME": pwd.getpwnam(user).pw_dir, "USER": user, "LOGNAME": user}
