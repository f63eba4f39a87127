"""The expiry rule on a real slurmctld: what Compute Engine ends comes back only where wanted."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta
from functools import partial

import pytest

from tests.cluster.life import SOON, TICK, Life

pytestmark = pytest.mark.cluster

PENALTY = 120  # seconds that Slurm makes a job wait after a node failure
# A step that can't have its GPUs ends the job badly.
STEPS = "#!/bin/sh\nsrun sleep 1 || exit 3\n[ $SLURM_RESTART_COUNT ] || srun sleep 600\n"


def test_nodes_without_a_job_stay_off_unless_they_are_static(life: Life) -> None:
    # Meanwhile a pool whose VMs live for thirty seconds: Compute Engine grants no less than 600.
    brief = life.slurm.sbatch(
        "-p", "brief", "--exclusive", "--no-requeue", script="#!/bin/sh\nsrun /bin/sleep 600\n"
    )
    life.until(lambda: "c1-brief-0" in life.vms(), "the VM of thirty seconds comes")
    assert life.requests()[f"j{brief}-1"].run_duration == timedelta(minutes=10)
    life.power_up("c1-gx-0", "c1-gx-1")
    before = life.vms()
    asked = life.asked()
    # c1-gx-0 and the static one vanish at their end; of c1-gx-1 a TERMINATED machine is left.
    life.expire("c1-gx-0", "c1-st-0")
    life.expire("c1-gx-1", within="60s")
    life.until(partial(life.knows_the_end, "c1-gx-1"), "the end is seen")
    life.world.emulator.faults.set("host_error", instance="c1-gx-1")
    for name in ("c1-gx-0", "c1-gx-1"):
        life.until(partial(life.is_off, name), f"{name} is off")
        life.until(lambda name=name: name not in life.vms(), f"{name}'s VM is gone")  # type: ignore[misc]
    static_is_back(life, before["c1-st-0"].id)

    again = life.vms()["c1-st-0"]
    life.expire("c1-st-0", within="60s")
    life.until(partial(life.knows_the_end, "c1-st-0"), "the end is seen")
    life.world.emulator.faults.set("host_error", instance="c1-st-0")
    static_is_back(life, again.id)
    assert life.asked() == asked + 2, "the static node twice, and nothing else"

    life.until(lambda: "c1-brief-0" not in life.vms(), "the VM of thirty seconds is ended", TICK)
    (bill,) = [b for b in life.world.emulator.billing()["instances"] if b["name"] == "c1-brief-0"]
    assert 28 <= bill["seconds"] <= 40
    life.slurm.wait_for_job(brief, "NODE_FAIL", SOON)


def static_is_back(life: Life, before: str) -> None:
    def is_back() -> bool:
        vm = life.vms().get("c1-st-0")
        return vm is not None and vm.id != before and life.is_up("c1-st-0")

    life.until(is_back, "the static node is back under its name", TICK)


def test_a_job_that_died_with_its_nodes_runs_again_and_one_that_waited_gets_one_new_vm(
    life: Life,
) -> None:
    job = life.slurm.sbatch("-N2", "--gres=gpu:8", "--nodelist=c1-gx-[0-1]", script=STEPS)
    blocker = life.slurm.sbatch(
        "--exclusive", "--no-requeue", "--nodelist=c1-gx-2", script="#!/bin/sh\n/bin/sleep 600\n"
    )
    waiting = life.slurm.sbatch(
        "--exclusive", "--nodelist=c1-gx-2", script="#!/bin/sh\nsrun hostname\n"
    )
    life.runs(job, blocker)
    nodes = ("c1-gx-0", "c1-gx-1", "c1-gx-2")
    before = life.vms()
    asked = life.asked()
    ended = time.monotonic()
    life.expire(*nodes)
    life.slurm.wait_for_job(blocker, "NODE_FAIL", SOON)
    life.until(lambda: life.restarts(job) == 1, "the job goes back to wait")
    old = {before[name].id for name in nodes}
    life.until(lambda: all_are_new(life, nodes, old), "new VMs come under the same names", TICK)
    life.ends(job, waiting, limit=TICK + SOON)
    assert time.monotonic() - ended < PENALTY - 4, "nobody is to blame, and nobody waits for it"
    assert life.restarts(job) == 1
    assert life.restarts(waiting) == 0
    assert life.asked() == asked + 2, "one for the job's two nodes, one for the other's"
    for name in nodes:
        used = life.slurm.scontrol("show", "node", "-d", name).partition("GresUsed=")[2]
        assert used.startswith("gpu:h200:0"), "no GPU is lost to a job that is over"


def all_are_new(life: Life, names: Iterable[str], old: set[str]) -> bool:
    """Whether each of the names has a VM, none of which is one of the old ones."""
    vms = life.vms()
    return all(name in vms and vms[name].id not in old for name in names)
