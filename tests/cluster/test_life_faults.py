"""What stands between Slurm and the cloud breaks and comes back, without a second VM."""

from __future__ import annotations

import pytest

from tests.cluster.life import SOON, TICK, Life

pytestmark = pytest.mark.cluster


def test_a_daemon_killed_on_the_way_finds_what_it_has_sent(life: Life) -> None:
    life.world.emulator.faults.set("slow_boot", group="c1-gx", delay="6s")
    asked = life.asked()
    job = life.slurm.sbatch("-N2", "--exclusive", script="#!/bin/sh\nsrun /bin/sleep 1\n")
    life.until(lambda: life.asked() > asked, "the request is sent")
    nodes = life.requests()[f"j{job}-1"].nodes
    assert len(nodes) == 2
    life.world.daemon.kill()
    life.world.daemon.start()
    life.until(lambda: set(nodes) <= set(life.vms()), "the VMs come")
    life.world.daemon.kill()
    life.world.daemon.start()
    life.world.emulator.faults.clear("slow_boot")
    life.ends(job, limit=TICK + SOON)
    assert life.asked() == asked + 1
    assert life.restarts(job) == 0
    assert made_for(life, job) == list(nodes)


def test_without_a_daemon_the_hooks_themselves_see_to_it(life: Life) -> None:
    assert life.world.daemon.stop() == 0
    job = life.slurm.sbatch("--exclusive", script="#!/bin/sh\nsrun hostname\n")
    life.until(lambda: f"j{job}-1" in life.requests(), "the request is sent", TICK)
    (node,) = life.requests()[f"j{job}-1"].nodes
    life.world.daemon.start()
    life.until(lambda: life.is_up(node), "the node is up")
    life.slurm.scancel(job)
    assert made_for(life, job) == [node]


def test_nothing_is_ended_or_asked_for_twice_while_cloud_or_slurmctld_are_away(
    life: Life,
) -> None:
    long = life.slurm.sbatch("--exclusive", script="#!/bin/sh\nsrun /bin/sleep 600\n")
    life.runs(long)
    before = life.vms()
    asked = life.asked()

    life.world.emulator.kill()
    late = life.slurm.sbatch("--exclusive", script="#!/bin/sh\nsrun hostname\n")
    node = life.slurm.wait_for_job(late, "CONFIGURING", SOON)["NodeList"]
    several_passes(life)
    assert life.slurm.job(long)["JobState"] == "RUNNING"
    assert "POWERING_UP" in life.slurm.flags(node)

    life.world.emulator.start()
    life.until(lambda: life.asked() > asked, "the request is sent once the cloud answers")
    life.slurm.kill()
    several_passes(life)
    assert set(before) <= set(life.vms()), "nothing is ended while slurmctld is away"

    life.slurm.start()
    life.ends(late, limit=TICK + SOON)
    assert life.asked() == asked + 1
    assert life.slurm.job(long)["JobState"] == "RUNNING"
    assert life.restarts(long) == life.restarts(late) == 0
    assert {vm.id for vm in before.values()} <= {vm.id for vm in life.vms().values()}
    life.slurm.scancel(long)


def made_for(life: Life, job: int) -> list[str]:
    """Nodes of the VMs that a job's requests brought, one entry a VM."""
    bills = life.world.emulator.billing()["instances"]
    return sorted(bill["name"] for bill in bills if bill["request"].startswith(f"j{job}-"))


def several_passes(life: Life, count: int = 2) -> None:
    """Let slurm-flex look at the world a few times."""
    seen: set[object] = set()

    def enough() -> bool:
        seen.add(life.world.daemon.status().get("time"))
        return len(seen) > count

    life.until(enough, f"{count} passes", TICK)
