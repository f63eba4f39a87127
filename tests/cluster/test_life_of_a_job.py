"""A job waits, its nodes are asked for once, come, run it and go; or it gives up first."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from slurm_flex.emulator.drivers.processes import find
from tests.cluster.life import SOON, TICK, Life

pytestmark = pytest.mark.cluster

HOSTNAMES = "#!/bin/sh\nsrun hostname\n"
NO_CAPACITY = "ZONE_RESOURCE_POOL_EXHAUSTED"


def test_a_job_of_three_nodes_is_one_request_made_by_the_hooks_call_alone(life: Life) -> None:
    asked = life.asked()
    with life.settings(interval=timedelta(hours=1), busy_interval=timedelta(hours=1)):
        job = life.slurm.sbatch("-N3", "--exclusive", script=HOSTNAMES)
        life.until(lambda: life.asked() > asked, "the request is sent", timedelta(seconds=10))
    assert life.requests()[f"j{job}-1"].nodes == ("c1-gx-0", "c1-gx-1", "c1-gx-2")
    life.ends(job)
    assert sorted(life.slurm.output(job).split()) == ["c1-gx-0", "c1-gx-1", "c1-gx-2"]
    assert life.restarts(job) == 0
    assert life.asked() == asked + 1

    # The next one finds three nodes up; cancelled as it runs, it gives all four back.
    job = life.slurm.sbatch("-N4", "--exclusive", script="#!/bin/sh\nsrun /bin/sleep 600\n")
    life.until(lambda: life.asked() > asked + 1, "the node that isn't up is asked for")
    assert life.requests()[f"j{job}-1"].nodes == ("c1-gx-3",)
    life.runs(job)
    vms = {vm.id for name, vm in life.vms().items() if name.startswith("c1-gx-")}
    assert len(vms) == 4
    life.slurm.scancel(job)
    life.until(lambda: not find(vms), "the VMs are deleted, and all that ran there", TICK)
    assert life.asked() == asked + 2


def test_a_queued_job_says_why_and_a_cancelled_one_gives_back_its_own_request_alone(
    life: Life,
) -> None:
    cloud = life.world.emulator.faults
    cloud.set("stockout", group="c1-gx")
    quitter = life.slurm.sbatch("-N2", "--exclusive", script=HOSTNAMES)
    life.until(lambda: f"j{quitter}-1" in life.requests(), "the first job's request")
    patient = life.slurm.sbatch("-N2", "--exclusive", script=HOSTNAMES)
    life.until(lambda: f"j{patient}-1" in life.requests(), "the second job's request")
    assert life.world.cloud().live_requests == sorted([f"j{quitter}-1", f"j{patient}-1"])
    for job in (quitter, patient):
        life.until(partial(says, life, job, "capacity"), "the job says why it waits")
        assert life.slurm.job(job)["JobState"] == "CONFIGURING"

    life.slurm.scancel(quitter)
    life.until(lambda: f"j{quitter}-1" not in life.requests(), "its request is gone")
    life.until(lambda: life.is_off("c1-gx-0") and life.is_off("c1-gx-1"), "its nodes are off")
    assert life.requests()[f"j{patient}-1"].state == "ACCEPTED"
    assert life.restarts(patient) == 0

    # The other one's fails in the end: back to wait, a new request, and all is well.
    cloud.set("request_fails", group="c1-gx", times=1, code=NO_CAPACITY)
    life.until(lambda: life.slurm.job(patient)["JobState"] == "PENDING", "the job waits again")
    life.until(partial(says, life, patient, "capacity"), "the job says what happened")
    life.until(lambda: f"j{patient}-2" in life.requests(), "asked for again", TICK)
    cloud.clear("stockout")
    life.ends(patient, limit=TICK + SOON)


def says(life: Life, job: int, word: str) -> bool:
    return word in life.comment(job)
