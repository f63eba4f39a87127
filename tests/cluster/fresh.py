"""A controller that nobody has set up yet, and all that setting it up takes on one machine.

Everything is written by slurm-flex from cluster_config.json; what stands here is what an operator
has beforehand (an image, a project, a key on the home share), and what two daemons on one machine
need that have a machine each in the field (:data:`ONE_MACHINE`).
"""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from slurm_flex.demo.controller import Controller
from slurm_flex.demo.fakegpu import FakeGpus
from slurm_flex.demo.flex_daemon import FLEX, FlexDaemon, make_folders
from slurm_flex.demo.layout import Layout
from slurm_flex.demo.ports import free_ports
from slurm_flex.demo.world_space import REPOSITORY, user_env
from slurm_flex.emulator.launcher import Emulator
from slurm_flex.hostlist import expand

MACHINE = Path(__file__).with_name("machine.py")
SHARE = "nfsshare"  # what the emulator's Filestore instances serve

# What the slurm.conf of `render --full` says otherwise, and why it can't be so here.
ONE_MACHINE: Mapping[str, str] = {
    # Each world has a slurmctld and a munged of its own.
    "AuthInfo": "socket={folder}/munge/socket",
    "StateSaveLocation": "{folder}/state",
    "SlurmctldPidFile": "{folder}/run/slurmctld.pid",
    "SlurmctldLogFile": "{folder}/log/slurmctld.log",
    "SlurmctldDebug": "debug",
    # No systemd, and the machine's cgroups are its own.
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    # A node claims the CPUs and the memory of its machine type.
    "SlurmdParameters": "config_overrides",
}


SLURM_USER = "slurm"  # as `render --full` has it


class Fresh:
    """folder: slurm.conf's. slurm: the controller, not running until :meth:`start_slurm`.

    The operator is root; slurmctld and the daemon are SlurmUser.
    """

    def __init__(self, release: str) -> None:
        self.release = release
        self._undo = ExitStack()
        layout = Layout(timeouts=None, slurm_user=SLURM_USER)
        self.slurm = Controller(layout, release=release)
        self._undo.callback(self.slurm.close)
        self.folder = self.slurm.folder
        for name in ("slurm.conf", "cgroup.conf"):  # the demo's own
            (self.folder / name).unlink(missing_ok=True)
        self.settings = self.folder / "slurm-flex.toml"
        self.cluster_file = self.folder / "cluster_config.json"
        self.env = {**self.slurm.env, "SLURM_FLEX_CONFIG": str(self.settings)}
        self._claim = self.slurm.space.claim([])
        self.port = free_ports(1 + 16)
        self.gpus = FakeGpus(self.folder / "gpus")
        self._cloud_port = free_ports(1)
        self.emulator = Emulator(
            port=self._cloud_port,
            driver="slurmd",
            slurmd_argv=self._machine(),
            vm_folder=self.slurm.log_dir,
            knobs={"op_delay": "0.1s", "boot_delay": "1s"},
            log=self.slurm.log_dir / "emulator.log",
            prefix=self._claim,
        )
        self.daemon = FlexDaemon(
            prefix=self.slurm.space.as_user(SLURM_USER),
            env=user_env(self.env, SLURM_USER),
            log=self.slurm.log_dir / "slurm-flex.log",
            run_dir=self.folder / "flex/run",
        )
        make_folders(self.folder / "flex", SLURM_USER)
        home = self.folder / "nfs" / SHARE
        home.mkdir(parents=True)
        shutil.copy(self.folder / "munge/key", home / "munge.key")

    def __enter__(self) -> Fresh:
        self._undo.enter_context(self.emulator)
        self._undo.callback(self.daemon.forget)
        self._undo.callback(self.slurm.close)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()

    def flex(self, *arguments: str, code: int = 0) -> str:
        """What a command of slurm-flex prints; it must end with this exit code."""
        done = subprocess.run(
            [*self._claim, *FLEX, *arguments],
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=180, check=False,
        )  # fmt: skip
        print("$ slurm-flex", *arguments, f"\n{done.stdout}")
        assert done.returncode == code, f"slurm-flex {arguments} ended with {done.returncode}"
        return done.stdout

    def write_cluster(self, example: dict[str, Any], least: int, most: int) -> None:
        """The cluster file with the second pool of that size, and the settings."""
        data = copy.deepcopy(example)
        data["node_pools"][1]["scaling_spec"] = {"min_node_count": least, "max_node_count": most}
        self.cluster_file.write_text(json.dumps(data, indent=2))
        site = {
            "node_image": "projects/example-project/global/images/family/slurm-node",
            "key_source": "nfs:/home/munge.key",
            "conf_server": f"127.0.0.1:{self.port}",
        }
        here = {
            "endpoint": self.emulator.url,
            "credentials": "anonymous",
            "slurm_bin_dir": str(self.slurm.bin_dir),
            "state_dir": str(self.folder / "flex/state"),
            "run_dir": str(self.folder / "flex/run"),
            "install_dir": str(REPOSITORY),
            "slurmd_options": "-b",  # this machine has been up for long
        }
        quick = {"interval": "3s", "busy_interval": "1s", "suspend_time": "10s",
                 "suspend_timeout": "4s", "orphan_grace": "4s", "delete_grace": "4s"}  # fmt: skip
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in (site | here | quick).items()]
        # The slurmds share this machine's address.
        ports = f"[{self.port + 1}-{self.port + most}]" if most > 1 else f"{self.port + 1}"
        lines.append(f'node_overrides = {{ a3u = {{ Port = "{ports}" }} }}\n')
        self.settings.write_text("".join(lines))

    def fit_onto_one_machine(self) -> None:
        """Replace the values of slurm.conf that can't be so here."""
        wanted = {key: value.format(folder=self.folder) for key, value in ONE_MACHINE.items()}
        path = self.folder / "slurm.conf"
        lines = []
        for line in path.read_text().splitlines():
            key = line.partition("=")[0]
            lines.append(f"{key}={wanted.pop(key)}" if key in wanted else line)
        at = lines.index("Include slurm-flex.conf")
        lines[at:at] = [f"{key}={value}" for key, value in wanted.items()]
        path.write_text("\n".join(lines) + "\n")
        cgroup = self.folder / "cgroup.conf"
        if self.release == "22.05":  # which looks for none only where there is no file
            cgroup.unlink()
        else:
            cgroup.write_text("CgroupPlugin=disabled\n")

    def start_slurm(self, nodes: str) -> None:
        """Start slurmctld; ``nodes`` may be looked up by name from now on."""
        self.know(nodes)
        self.slurm.start()

    def know(self, nodes: str) -> None:
        self.slurm.nodes = expand(nodes)
        self.slurm.space.write_hosts(self.slurm.nodes)
        for name in self.slurm.nodes:
            self.gpus.add_node(name)

    def vms(self) -> Sequence[dict[str, Any]]:
        """The VMs of compute pools, as the emulator tells of them."""
        found = self.emulator.world()["instances"]
        return [one for one in found if not one["group"].endswith("-login")]

    def console(self, node: str) -> str:
        return "".join(
            path.read_text(errors="replace")
            for path in self.slurm.log_dir.glob(f"{node}-*.console")
        )

    def _machine(self) -> list[str]:
        apart = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        metadata = f"http://127.0.0.1:{self._cloud_port}/vm/{{name}}"
        init = ["/usr/bin/python3", "-I", str(MACHINE), "{name}", metadata, str(self.folder)]
        return self.slurm.space.enter([*apart, *init])
