"""Everything at once: a real slurmctld, an emulated cloud of slurmds, and slurm-flex between them.

    with World(DemoSite(pools=[DemoPool("gx", dynamic=2)]), release="24.11") as world:
        job = world.slurm.sbatch("-N2", script="#!/bin/sh\\nsrun hostname\\n")
        world.wait_for(lambda: world.cloud().vms, timedelta(seconds=20), "VMs come")

Needs root, as :class:`slurm_flex.demo.controller.Controller` does.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

from slurm_flex.demo.cloud_view import CloudView, read_cloud
from slurm_flex.demo.commands import NotInTime
from slurm_flex.demo.controller import Controller
from slurm_flex.demo.fakegpu import FakeGpus
from slurm_flex.demo.flex_daemon import FLEX, FlexDaemon, make_folders
from slurm_flex.demo.layout import Layout, Programs
from slurm_flex.demo.release_tree import host_release
from slurm_flex.demo.site_files import DemoSite
from slurm_flex.demo.world_space import REPOSITORY, user_env
from slurm_flex.emulator.launcher import Emulator
from slurm_flex.errors import FlexError
from slurm_flex.hostlist import expand
from slurm_flex.render.conf import render_slurm_conf

T = TypeVar("T")

# A slurmd that registers within the second is never seen powering up.
KNOBS: Final[Mapping[str, object]] = {
    "op_delay": "0.1s",
    "boot_delay": "2s",
    "capacity_retry": "2s",
}
_COMMAND: Final = 120.0  # seconds for one call of slurm-flex
_NO_INSTANCE_ID: Final = "22.05"  # slurmd --instance-id came with 23.11
_HEALTH_CHECK: Final = Path("bin/health")
_ON_TOP: Final = {
    "PrologFlags": "Alloc",
    "SchedulerParameters": "nohold_on_prolog_fail",
}


class CommandFailed(FlexError):
    """slurm-flex ended with an error."""


class World:
    """slurm: the controller and its commands. emulator: the cloud. daemon: slurm-flex.

    All of it ends with the block, with this process or with :attr:`keeper_pid`. release: of Slurm
    (``24.11``); None is this machine's own. knobs: of the emulator, over the quick ones.
    slurm_user: who slurmctld and slurm-flex run as; VMs, with their slurmds, are root's always.
    """

    def __init__(
        self,
        site: DemoSite,
        *,
        release: str | None = None,
        knobs: Mapping[str, object] | None = None,
        slurm_user: str = "root",
    ) -> None:
        self.site = site
        with tempfile.TemporaryDirectory(prefix="slurm-flex-rendered-") as rendered:
            wanted = release or host_release() or ""
            files = render_slurm_conf(site.cluster(), site.values(), wanted)
            for name, text in files.items():
                Path(rendered, name).write_text(text)
            layout = Layout(
                include=Path(rendered),
                timeouts=None,
                settings=_ON_TOP if site.health else {},
                programs=Programs(health_check=_HEALTH_CHECK if site.health else None),
                slurm_user=slurm_user,
            )
            self.slurm = Controller(layout, release=release)
        self.folder = self.slurm.folder
        self.release = self.slurm.release
        self.settings_path = self.folder / "slurm-flex.toml"
        self.gpus = FakeGpus(self.folder / "gpus") if site.health else None
        self.emulator = self._emulator({**KNOBS, **(knobs or {})})
        self.env = {**self.slurm.env, "SLURM_FLEX_CONFIG": str(self.settings_path)}
        self.daemon = FlexDaemon(
            prefix=self.slurm.space.as_user(slurm_user),
            env=user_env(self.env, slurm_user),
            log=self.slurm.log_dir / "slurm-flex.log",
            run_dir=self.folder / "flex/run",
        )
        self.slurm.watched["hooks.log"] = self.folder / "flex/state/hooks.log"
        self._undo = ExitStack()
        self._undo.callback(self.slurm.close)

    @property
    def keeper_pid(self) -> int:
        """SIGTERM to it ends the world, also one that was left up by :meth:`keep`."""
        return self.slurm.space.keeper_pid

    def __enter__(self) -> World:
        with self._undo as undo:
            self._put_node_files()
            make_folders(self.folder / "flex", self.slurm.user)
            undo.enter_context(self.emulator)
            undo.callback(self.daemon.forget)
            undo.callback(self.slurm.close)  # first of all, and all at once
            self.write_settings()
            (self.folder / "cluster_config.json").write_text(self.site.cluster_text())
            self.flex("apply")
            self.slurm.start()
            self.daemon.start()
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all of it; nothing is left, whatever state it was in."""
        self._undo.close()

    def keep(self) -> None:
        """Let it outlive this process and :meth:`close`."""
        self.slurm.space.keep()
        self._undo.pop_all()

    def write_settings(self, **changed: object) -> None:
        """slurm-flex.toml as the site has it, but for ``changed``."""
        text = self.site.settings_text(
            self.folder, endpoint=self.emulator.url, bin_dir=self.slurm.bin_dir, **changed
        )
        self.settings_path.write_text(text)

    def flex(self, *args: str, user: str = "root") -> str:
        """Run a command of slurm-flex and return what it printed. Raises CommandFailed."""
        done = self.try_flex(*args, user=user)
        if done.returncode != 0:
            raise CommandFailed(
                f"ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}",
                where=f"slurm-flex {' '.join(args)}",
            )
        return done.stdout

    def try_flex(self, *args: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """Run a command of slurm-flex, as a user of this machine, whatever comes of it."""
        return subprocess.run(
            [*self.slurm.space.as_user(user), *FLEX, *args],
            env=user_env(self.env, user),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND,
            check=False,
        )

    def cloud(self) -> CloudView:
        """What the cloud holds now."""
        return read_cloud(self.emulator.world(), self.emulator.billing())

    def wait_for(self, predicate: Callable[[], T], limit: timedelta, what: str) -> T:
        """As :meth:`Commands.wait_for`; fails at once if slurm-flex has died. Raises NotInTime."""

        def asked() -> T:
            self.daemon.check()
            return predicate()

        try:
            return self.slurm.wait_for(asked, limit, what)
        except NotInTime:
            print("--- slurm-flex events ---", self.flex("events"), sep="\n", file=sys.stderr)
            raise

    def leftovers(self, *, up: frozenset[str] = frozenset()) -> list[str]:
        """What is there though nobody wants it; ``up`` are the nodes that are to be up."""
        cloud = self.cloud()
        found = [f"VM {name} ({vm.status})" for name, vm in cloud.vms.items() if name not in up]
        found += [
            f"request {name} for {','.join(ask.nodes)} is {ask.state}"
            for name, ask in cloud.requests.items()
            if up.isdisjoint(ask.nodes)
        ]
        found += [
            f"reservation {record.split()[0]}"
            for record in self.slurm.scontrol("show", "reservation", "-o").splitlines()
            if record.startswith("ReservationName=") and not _concerns(record, up)
        ]
        for name in self.slurm.nodes:
            flags = self.slurm.flags(name)
            off = {"IDLE", "CLOUD", "POWERED_DOWN"}
            if name not in up and (not off <= flags or flags & {"POWERING_DOWN", "DRAIN"}):
                found.append(f"node {name} is {'+'.join(sorted(flags))}")
            if name in up and flags & {"DOWN", "DRAIN", "POWERED_DOWN", "POWERING_UP"}:
                found.append(f"node {name} is {'+'.join(sorted(flags))}")
        return found

    def _emulator(self, knobs: Mapping[str, object]) -> Emulator:
        extra = [] if self.release == _NO_INSTANCE_ID else ["--instance-id={id}"]
        argv = self.slurm.slurmd_argv(extra=extra)
        if self.gpus is not None:
            argv = [FLEX[0], "-m", "slurm_flex.demo.boot", str(self.gpus.folder), "{name}", *argv]
        return Emulator(
            driver="slurmd",
            slurmd_argv=argv,
            vm_folder=self.folder / "consoles",
            state=self.folder / "emulator.sqlite",
            knobs=knobs,
            log=self.slurm.log_dir / "emulator.log",
            prefix=self.slurm.space.claim([]),
        )

    def _put_node_files(self) -> None:
        if self.gpus is None:
            return
        for name in self.slurm.nodes:
            self.gpus.add_node(name)
            about = {
                **self.gpus.node_file(name),
                "state": str(self.folder / "health" / name),
                "slurm_conf": str(self.slurm.conf_path),
            }
            (self.folder / f"node-{name}.json").write_text(json.dumps(about, indent=2))
        # slurmd gives this program no SLURM_CONF, by which the others find the node's file.
        health = self.folder / _HEALTH_CHECK
        environment = f"SLURM_CONF={shlex.quote(str(self.slurm.conf_path))}"
        program = shlex.quote(str(REPOSITORY / "scripts/health.py"))
        health.write_text(f"#!/bin/sh\n{environment} exec {program}\n")
        health.chmod(0o755)


def _concerns(record: str, nodes: frozenset[str]) -> bool:
    return not nodes.isdisjoint(expand(record.partition(" Nodes=")[2].split(" ")[0]))
