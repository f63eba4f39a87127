"""Hosts go into maintenance, announced ahead (DESIGN: rules `lifetime` and `ended`)."""

from __future__ import annotations

import pytest

from tests.builders import pool
from tests.sim.simulation import Simulation
from tests.sim.test_life import a_cluster, nothing_left


def announce(sim: Simulation, begins: float | None) -> None:
    for name in sim.compute.vms:
        sim.compute.announce(name, begins)


@pytest.mark.parametrize("model", ["FLEX_START", "ON_DEMAND"])
def test_a_job_runs_across_it(model: str) -> None:
    """Told before, started again at once on new VMs, and nothing counted as a failure."""
    sim = a_cluster(pools=(pool("gx", size=4, model=model),), restless=True)
    job = sim.submit(51, size=2, runtime=5400, limit=7000)
    sim.run("40m")
    assert job.state == "RUNNING"
    announce(sim, sim.now + 1200)
    assert sim.run("6h", until=lambda: job.over), sim.story("it never ended")
    assert (job.state, job.restarts) == ("COMPLETED", 1)
    assert [what for _, what in job.told if "host maintenance" in what], sim.story(str(job.told))
    requeued = next(at for at, what in job.history if what == "REQUEUED")
    placed = [at for at, what in job.history if what == "CONFIGURING"]
    assert placed[1] - requeued <= 180
    assert all(one.outcome == "good" for many in sim.memory.launches.values() for one in many)
    sim.run("1h")
    nothing_left(sim)
    sim.check()


def test_a_static_node_is_renewed_once_before_it() -> None:
    sim = a_cluster(pools=(pool("gx", static=1, size=1),), restless=True)
    sim.run("20m")
    first = sim.compute.vms["c1-gx-0"].id
    announce(sim, sim.now + 3600)
    sim.run("2h")
    assert len(sim.requests()) == 2, sim.story("not one renewal")
    assert sim.compute.vms["c1-gx-0"].id != first
    sim.check()


def test_one_that_is_called_off_leaves_no_trace() -> None:
    sim = a_cluster(restless=True)
    job = sim.submit(51, size=2, runtime=7200, limit=9000)
    sim.run("20m")
    announce(sim, sim.now + 4 * 3600)
    sim.run("10m")
    assert {one for one in sim.slurm.reservations if one.endswith("-maintenance")}
    announce(sim, None)
    sim.run("10m")
    assert not {one for one in sim.slurm.reservations if one.endswith("-maintenance")}
    sim.run("4h", until=lambda: job.over)
    assert (job.state, job.restarts) == ("COMPLETED", 0)
    sim.run("1h")
    nothing_left(sim)
    sim.check()


def test_a_host_that_is_always_about_to_be_maintained_is_no_loop() -> None:
    """Each new VM of a static node is announced to end 25 minutes after it runs."""
    sim = a_cluster(pools=(pool("gx", static=1, size=1),), restless=True)
    end = sim.now + 6 * 3600
    while sim.now < end:
        sim.step()
        vm = sim.compute.vms.get("c1-gx-0")
        if vm is not None and vm.status == "RUNNING" and vm.maintenance is None:
            vm.maintenance = vm.running_at + 1500
    assert len(sim.requests()) <= 6 * 4, sim.story("too many requests")
