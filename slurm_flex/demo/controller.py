"""A real Slurm controller on one machine, alone with its nodes in a world of its own.

It starts munged and slurmctld of this machine's Slurm, or of another release in a root tree, on
loopback. Its CLOUD nodes are ``slurmd`` processes, started by whoever plays the cloud with the
argv of :meth:`Controller.slurmd_argv`. Needs root.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import stat
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final

from slurm_flex.demo import wrappers
from slurm_flex.demo.commands import Commands, SlurmFailed
from slurm_flex.demo.layout import Layout
from slurm_flex.demo.ports import free_ports
from slurm_flex.demo.release_tree import SYSTEM_PATH, host_release, release_tree
from slurm_flex.demo.rendered import read_rendered
from slurm_flex.demo.slurm_conf import FAKE_GPUS, conf_files
from slurm_flex.demo.world_space import WorldSpace, user_env

_UP: Final = timedelta(seconds=30)
# A shutdown waits 10 s for power programs that are still running (22.05).
_DOWN: Final = timedelta(seconds=30)


class Controller(Commands):
    """slurmctld of ``release`` (``24.11``; None is this machine's own), up while the block lasts.

    folder: private; holds slurm.conf, state and logs. conf_path: slurm.conf. nodes: every node's
    name. bin_dir: wrappers of Slurm's commands, for programs outside the world. space: the world.
    user: SlurmUser.
    """

    def __init__(self, layout: Layout, *, release: str | None = None) -> None:
        own = host_release()
        if release is None and own is None:
            raise SlurmFailed(
                "Slurm is not installed here", fix="apt-get install slurmctld slurmd munge"
            )
        tree = None if release in (None, own) else release_tree(str(release))
        self.release: str = release or str(own)
        self.layout = layout
        self.watched: dict[str, Path] = {}
        self.nodes: tuple[str, ...] = ()
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._slurmctld: subprocess.Popen[bytes] | None = None
        self.user = layout.slurm_user
        self.space = WorldSpace(tree=tree, for_users=self.user != "root")
        self.folder = self.space.folder
        self.conf_path = self.folder / "slurm.conf"
        self.bin_dir = self.folder / "bin"
        self.log_dir = self.folder / "log"
        self.env: dict[str, str] = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SLURM_")},
            "SLURM_CONF": str(self.conf_path),
            "PATH": f"{self.bin_dir}:{SYSTEM_PATH}",
        }
        try:
            self._make_folders()
            self._write_conf()
            self._write_programs()
            self._start_munged()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Controller:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start slurmctld, with the state that an earlier one left; returns when it answers."""
        argv = [self._path("slurmctld"), "-D", "-f", str(self.conf_path)]
        self._slurmctld = self._popen(argv, "slurmctld.out", user=self.user)
        self.wait_for(self._answers, _UP, "slurmctld answers")

    def stop(self) -> None:
        """End slurmctld in order (SIGTERM); its state stays for :meth:`start`."""
        self._end_slurmctld(signal.SIGTERM)

    def kill(self) -> None:
        """End slurmctld without warning (SIGKILL), as a crash would."""
        self._end_slurmctld(signal.SIGKILL)

    def close(self) -> None:
        """End everything that runs in this world, nodes and jobs included, and remove it."""
        self.space.close()
        for daemon in self._daemons:
            daemon.wait()  # killed above

    @property
    def pid(self) -> int | None:
        """slurmctld's pid; None when it is not running."""
        with suppress(OSError, ValueError):
            pid = int((self.folder / "run/slurmctld.pid").read_text())
            return pid if self.space.owns(pid) else None
        return None

    def argv(self, program: str, *args: str, user: str = "") -> list[str]:
        """The argv that runs one of Slurm's programs, of this release, in this world."""
        return self.space.enter([self._path(program), *args], user=user)

    def of_user(self, name: str) -> Commands:
        """Slurm's commands as somebody else types them."""
        return _OfUser(self, name)

    def slurmd_argv(self, name: str = "{name}", *, extra: Sequence[str] = ()) -> list[str]:
        """The argv of a whole VM: ``slurmd -b`` and its steps, in a PID namespace of their own.

        The default is a template; ``extra`` are further options of slurmd. SIGKILL to the process
        that runs this argv, or to its group, takes slurmd, steps and tasks at once; SIGTERM to
        the group is an orderly shutdown.
        """
        apart = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        init = ["/usr/bin/python3", "-I", str(self.folder / "vm_init.py"), name]
        slurmd = [self._path("slurmd"), "-D", "-b", "-N", name, "-f", str(self.conf_path), *extra]
        return self.space.enter([*apart, *init, *slurmd])

    def _end_slurmctld(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is None:
            raise SlurmFailed("slurmctld is not running", where=str(self.folder))
        os.kill(pid, number)
        self.wait_for(lambda: not self.space.owns(pid), _DOWN, "slurmctld ends")
        if self._slurmctld is not None:
            self._slurmctld.wait()

    def _answers(self) -> bool:
        if self._slurmctld is not None and self._slurmctld.poll() is not None:
            self.show_logs()
            raise SlurmFailed(f"slurmctld ended at once with {self._slurmctld.returncode}")
        return self.pid is not None and "UP" in self.try_run("scontrol", "ping").stdout

    def _path(self, program: str) -> str:
        if self.space.tree is not None:
            return f"/usr/sbin/{program}" if program in wrappers.DAEMONS else f"/usr/bin/{program}"
        found = shutil.which(program, path=SYSTEM_PATH)
        if found is None:
            raise SlurmFailed(f"{program} is not installed", fix=f"apt-get install {program}")
        return found

    def _popen(
        self, argv: Sequence[str], log: str, *, user: str = "root"
    ) -> subprocess.Popen[bytes]:
        """Start a daemon in this world; it ends with the world."""
        with (self.log_dir / log).open("ab") as output:
            daemon = subprocess.Popen(
                self.space.enter(argv, user=user),
                env=user_env(self.env, user),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._daemons.append(daemon)
        return daemon

    def _make_folders(self) -> None:
        for name in ("bin", "log", "run", "state", "spool", "munge", "jobs", "dev", "slurm.conf.d"):
            (self.folder / name).mkdir(mode=0o755)
        (self.folder / "jobs").chmod(0o1777)  # jobs may run as anyone
        for name in ("log", "run", "state"):
            shutil.chown(self.folder / name, self.user)

    def _write_conf(self) -> None:
        include = self.layout.include
        count = len(self.layout.nodes)
        count += len(read_rendered(include, 0).nodes) if include is not None else 0
        files, self.nodes = conf_files(
            self.layout, folder=self.folder, release=self.release, port=free_ports(1 + count)
        )
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self.space.write_hosts(self.nodes)
        for number in range(FAKE_GPUS):  # Slurm wants character devices; these are /dev/null
            device = self.folder / "dev" / f"gpu{number}"
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def _write_programs(self) -> None:
        shutil.copy(Path(__file__).with_name("vm_init.py"), self.folder)
        names = (*wrappers.CLIENTS, "slurmd", "slurmctld")
        wrappers.write_wrappers(
            self.bin_dir,
            [(name, self._path(name)) for name in names],
            prefix=self.space.prefix(),
            conf=self.conf_path,
            in_tree=self.space.tree is not None,
        )
        wrappers.write_vm_wrapper(self.bin_dir / "slurmd-vm", self.slurmd_argv(), self.conf_path)

    def _start_munged(self) -> None:
        folder = self.folder / "munge"
        key = folder / "key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(1024))
        options = {"key-file": key, "pid-file": folder / "pid", "seed-file": folder / "seed"}
        options |= {"socket": folder / "socket", "log-file": self.log_dir / "munged.log"}
        given = [f"--{option}={path}" for option, path in options.items()]
        self._popen(
            [self._path("munged"), "--force", "--foreground", "--num-threads=2", *given],
            "munged.out",
        )
        self.wait_for((folder / "socket").exists, timedelta(seconds=10), "munged listens")


class _OfUser(Commands):
    """Slurm's commands in a controller's world, as another user of this machine."""

    def __init__(self, controller: Controller, user: str) -> None:
        self._controller = controller
        self._user = user
        self.folder = controller.folder
        self.log_dir = controller.log_dir
        self.env = user_env(controller.env, user)
        self.watched = controller.watched

    def argv(self, program: str, *args: str) -> list[str]:
        return self._controller.argv(program, *args, user=self._user)
