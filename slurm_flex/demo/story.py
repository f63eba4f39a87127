"""The whole life of a Flex-start cluster in six acts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from slurm_flex.demo.site_files import DemoPool, DemoSite
from slurm_flex.demo.stage import Stage
from slurm_flex.hostlist import fold

SITE: Final = DemoSite(
    name="demo",
    pools=[DemoPool("train", dynamic=2), DemoPool("serve", static=1)],
    settings={"suspend_time": timedelta(seconds=12)},
    health=True,
)
_TRAIN: Final = ("demo-train-0", "demo-train-1")
_STATIC: Final = "demo-serve-0"
# Each node says so when its part has begun; then they work until somebody touches a file.
_TRAINING: Final = """#!/bin/sh
srun sh -c 'echo "run ${{SLURM_RESTART_COUNT:-0}} on $(hostname)"
while [ ! -e {done} ]; do sleep 1; done'
"""
_PENALTY: Final = 120  # seconds that Slurm makes a job wait after a node failure
# Slurm sees on a tick of 30 s that a job's nodes are up.
_TICK: Final = 45


class Story:
    """Played on a stage whose world is :data:`SITE`. :meth:`play` raises StoryEnds."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._world = stage.world
        self._slurm = stage.world.slurm
        self._done = self._world.folder / "train-is-done"
        self._train = 0
        self._eval = 0

    def play(self) -> None:
        """All acts, in order."""
        self._opening()
        self._a_job_waits()
        self._its_vms_expire()
        self._a_gpu_breaks()
        self._all_is_given_back()

    def _opening(self) -> None:
        stage = self._stage
        stage.act(
            f"A cluster at rest (Slurm {self._slurm.release})",
            "Two partitions of Flex-start VMs: train has two dynamic nodes, which are off (idle~) "
            "until a job wants them; serve has a static node (min_node_count 1), which slurm-flex "
            "brings up by itself. Each VM of the emulated Compute Engine is a real slurmd.",
        )
        stage.expect(
            "the static node is asked for and comes up, with no job anywhere",
            lambda: self._is_up(_STATIC),
            within=40,
        )
        stage.show()

    def _a_job_waits(self) -> None:
        stage, faults = self._stage, self._world.emulator.faults
        stage.act(
            "Act 1: a job waits for capacity",
            "A job needs both nodes of train, and just now the zone has no capacity. One request "
            "for both nodes queues at Compute Engine, all or nothing, and nothing is billed.",
        )
        faults.set("stockout", group="demo-train")
        asked = self._world.cloud().asked
        self._train = self._submit(
            "train", "--nodes=2", "--exclusive", "--partition=train",
            script=_TRAINING.format(done=self._done),
        )  # fmt: skip
        request = f"j{self._train}-1"
        stage.expect(
            "one resize request, for both of the job's nodes",
            lambda: (
                self._world.cloud().asked == asked + 1
                and self._world.cloud().requests[request].nodes == _TRAIN
            ),
            within=10,
        )
        stage.expect(
            "the job says in squeue why it waits",
            lambda: "capacity" in self._slurm.job(self._train).get("AdminComment", ""),
            within=15,
        )
        stage.show()
        self._squeue_comment(self._train)
        stage.typed("slurm-flex", "why", str(self._train))
        stage.shown(self._world.flex("why", str(self._train)))
        stage.expect(
            "no VM of train is there while the request queues",
            lambda: not set(_TRAIN) & set(self._world.cloud().vms),
            within=1,
        )
        stage.say("Capacity comes.")
        faults.clear("stockout")
        stage.expect(
            "both VMs boot, and their slurmds register",
            lambda: all(map(self._is_up, _TRAIN)),
            within=30,
        )
        self._expect_running("the job runs, and has never lost its place (Restarts=0)", 0)
        stage.show()

    def _its_vms_expire(self) -> None:
        stage = self._stage
        stage.act(
            "Act 2: the VMs' time is up, under a running job and on a static node",
            "Compute Engine ends a Flex-start VM at its maximum run duration, days on a real "
            "cluster, seconds here. The job's nodes must come back for it at once; so must the "
            "static node, though no job wants it.",
        )
        asked = self._world.cloud().asked
        before = self._ids()
        for name in (*_TRAIN, _STATIC):
            self._world.emulator.faults.set("end_of_life", instance=name, within="5s")
        stage.expect(
            "slurm-flex keeps later jobs off the end: a reservation on each node",
            lambda: all(map(self._is_reserved, (fold(_TRAIN), _STATIC))),
            within=5,
        )
        stage.expect(
            "the VMs end, and the job goes back to wait",
            lambda: self._restarts() == 1 and not set(self._ids().values()) & set(before.values()),
            within=20,
        )
        lost = time.monotonic()
        stage.show()
        stage.expect(
            "the static node is back under its name, as a new VM",
            lambda: self._is_renewed(before, _STATIC),
            within=30,
        )
        stage.expect(
            "both nodes of the job are back, as new VMs",
            lambda: self._is_renewed(before, *_TRAIN),
            within=30,
        )
        stage.expect(
            "two new requests: one for the job's nodes, one for the static node",
            lambda: self._world.cloud().asked == asked + 2,
            within=1,
        )
        self._expect_running("the job runs again (Restarts=1)", 1)
        took = time.monotonic() - lost
        stage.expect(
            f"and didn't wait out Slurm's {_PENALTY} s after a node failure",
            lambda: took < _PENALTY - 20,
            within=0,
        )
        stage.show()

    def _a_gpu_breaks(self) -> None:
        stage, gpus = self._stage, self._world.gpus
        sick, spare = _TRAIN
        stage.act(
            "Act 3: a GPU breaks",
            f"GPU 3 of {sick} falls off the bus under the job. The check after the job finds it; "
            "the VM is replaced before the next job, which waits for this very node, gets it.",
        )
        before = self._ids()
        if gpus is not None:
            gpus.fell_off_the_bus(sick, 3)
            tool = gpus.folder / "bin/nvidia-smi"
            self._eval = self._submit(
                "eval", "--exclusive", "--partition=train", f"--nodelist={sick}",
                script=f"#!/bin/sh\nsrun {tool} -L\n",
            )  # fmt: skip
        self._stage.typed("touch", str(self._done))
        self._done.touch()
        stage.expect(
            "the first job ends well",
            lambda: self._slurm.job(self._train)["JobState"] == "COMPLETED",
            within=15,
        )
        self._nobody_waits(spare)
        stage.expect(
            f"the check after the job has drained {sick}, and its VM is replaced for that",
            lambda: self._events("VM_REPORT_AND_REPLACEMENT", sick),
            within=15,
        )
        stage.shown("; ".join(self._events("VM_REPORT_AND_REPLACEMENT", sick)))
        stage.expect(
            f"{sick} gets a new VM",
            lambda: self._is_renewed(before, sick),
            within=45,
        )
        stage.expect(
            "the next job runs there, and finds eight GPUs",
            lambda: (
                self._slurm.job(self._eval)["JobState"] == "COMPLETED"
                and len(self._slurm.output(self._eval).splitlines()) == 8
            ),
            within=_TICK,
        )

    def _nobody_waits(self, name: str) -> None:
        stage = self._stage
        stage.say(f"Meanwhile the time of {name} is up as well, and no job waits for it.")
        self._world.emulator.faults.set("end_of_life", instance=name, within="3s")
        stage.expect(
            f"{name} goes off and stays off: no VM, no request",
            lambda: (
                self._is_off(name)
                and name not in self._world.cloud().vms
                and not any(name in ask.nodes for ask in self._world.cloud().requests.values())
            ),
            within=25,
        )

    def _all_is_given_back(self) -> None:
        stage = self._stage
        stage.act(
            "Act 4: all is given back",
            "Nobody wants a dynamic node any more: after SuspendTime it goes, and what it cost "
            "stands still. The static node stays.",
        )
        stage.expect(
            "no VM, no request, no reservation of train is left, and no node is down",
            lambda: not self._world.leftovers(up=frozenset([_STATIC])),
            within=60,
        )
        stage.show()

    # --- words

    def _submit(self, name: str, *options: str, script: str) -> int:
        job = self._slurm.sbatch(f"--job-name={name}", *options, script=script)
        self._stage.typed("sbatch", *options, f"{name}.sh")
        self._stage.shown(f"Submitted batch job {job}")
        return job

    def _squeue_comment(self, job: int) -> None:
        options = ("-j", str(job), "-O", "jobid:7,state:14,admin_comment:90")
        self._stage.typed("squeue", *options)
        self._stage.shown(self._slurm.squeue(*options))

    def _expect_running(self, what: str, restarts: int) -> None:
        self._stage.expect(
            what,
            lambda: (
                self._restarts() == restarts
                and sorted(self._slurm.output(self._train).splitlines())
                == [f"run {restarts} on {name}" for name in _TRAIN]
            ),
            within=_TICK,
        )

    def _is_reserved(self, nodes: str) -> bool:
        shown = self._slurm.scontrol("show", "reservation", "-o")
        return any(f" Nodes={nodes} " in line for line in shown.splitlines())

    def _restarts(self) -> int:
        return int(self._slurm.job(self._train)["Restarts"])

    def _ids(self) -> dict[str, str]:
        return {name: vm.id for name, vm in self._world.cloud().vms.items()}

    def _is_renewed(self, before: Mapping[str, str], *names: str) -> bool:
        ids = self._ids()
        return all(
            self._is_up(name) and name in ids and ids[name] != before.get(name) for name in names
        )

    def _is_up(self, name: str) -> bool:
        off = {"POWERED_DOWN", "POWERING_UP", "POWERING_DOWN", "DOWN", "DRAIN"}
        return not self._slurm.flags(name) & off

    def _is_off(self, name: str) -> bool:
        flags = self._slurm.flags(name)
        return flags >= {"IDLE", "POWERED_DOWN"} and "POWERING_DOWN" not in flags

    def _events(self, kind: str, node: str) -> list[str]:
        """What slurm-flex's journal says about a node."""
        events = self._world.daemon.status().get("events", [])
        return [
            event["text"] for event in events if event["kind"] == kind and event["nodes"] == node
        ]
