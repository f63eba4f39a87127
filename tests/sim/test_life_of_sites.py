"""Changes of the site in the closed loop: pools, partitions, files, people's hands."""

from __future__ import annotations

from typing import Any

from tests.builders import STOCKOUT, pool
from tests.sim.simulation import Simulation


def a_cluster(**about: Any) -> Simulation:
    pools = about.pop("pools", (pool("gx", size=4),))
    return Simulation(pools=pools, **about)


def nothing_left(sim: Simulation) -> None:
    static = {name for name, node in sim.slurm.nodes.items() if node.static}
    assert set(sim.busy_vms()) <= static, sim.story("VMs are left over")
    if not static:
        assert not sim.live_requests(), sim.story("requests are left over")
        assert not sim.slurm.reservations, sim.story("reservations are left over")
        assert not sim.compute.requests, sim.story("records of requests are left over")


def test_a_pool_without_capacity_gives_way_to_the_next() -> None:
    """Scenario 87: after max_queue_wait the job may be placed on the second pool."""
    sim = a_cluster(
        pools=(pool("gx", size=2), pool("gy", size=2)),
        partitions={"gx": "gx,gy"},
        settings={"max_queue_wait": "2h"},
    )
    sim.compute.knobs["gx"].capacity = lambda now: 0
    job = sim.submit(51, size=2, runtime=600)
    assert sim.run("12h", until=lambda: job.state == "COMPLETED"), sim.story("it never ran")
    sim.run("30m")
    assert not sim.busy_vms()
    sim.check()


def test_createinstances_pools_live_by_the_same_rules() -> None:
    sim = a_cluster(pools=(pool("gx", size=3, static=1, model="SPOT"),))
    job = sim.submit(51, size=2, runtime=1800)
    sim.run("3h")
    assert job.state == "COMPLETED"
    sim.run("1h")
    assert sim.busy_vms() == ["c1-gx-0"]
    sim.check()


def test_a_node_powered_up_by_hand_gets_a_vm_and_gives_it_back() -> None:
    """Scenario 10, and Slurm's own SuspendTime afterwards."""
    sim = a_cluster()
    sim.scontrol.power_up(("c1-gx-2",), sim.now)
    sim.run("10m", until=lambda: sim.node("c1-gx-2").power == "up")
    assert sim.node("c1-gx-2").power == "up", sim.story("no VM")
    sim.run("30m")
    nothing_left(sim)
    assert len(sim.requests()) == 1
    sim.check()


def test_a_pool_that_is_paused_is_asked_for_nothing_and_told_so() -> None:
    sim = a_cluster(pools=(pool("gx", size=2, static=1),))
    sim.paused = frozenset({"gx"})
    job = sim.submit(51, size=1, runtime=600)
    sim.run("6h")
    assert not sim.requests()
    assert "paused" in (job.admin_comment or "")
    sim.paused = frozenset()
    assert sim.run("2h", until=lambda: job.over)
    assert job.state == "COMPLETED"


def test_a_pool_whose_requests_fail_gives_way_to_the_next_at_once() -> None:
    """Scenario 87 and issue 7: nodes are held back so that the scheduler turns to the next."""
    sim = a_cluster(pools=(pool("gx", size=2), pool("gy", size=2)), partitions={"gx": "gx,gy"})
    sim.compute.knobs["gx"].failing = lambda now: STOCKOUT
    job = sim.submit(51, size=2, runtime=600)
    assert sim.run("2h", until=lambda: job.over), sim.story("it waits for a pool that fails")
    assert sim.requests()[-1].pool == "gy"
    sim.run("6h")
    nothing_left(sim)
    sim.check()


def test_a_vm_whose_slurmd_falls_silent_is_replaced() -> None:
    """Scenario 29: a static node, which Slurm doesn't suspend by itself."""
    sim = a_cluster(pools=(pool("gx", size=2, static=1),))
    job = sim.submit(51, size=2, runtime=3000)
    sim.run("15m")
    first = sim.compute.vms["c1-gx-0"].id
    sim.compute.silence("c1-gx-0", sim.now)
    sim.run("40m", until=lambda: sim.count("delete_instances", "c1-gx-0") > 0)
    assert sim.count("save_console", "c1-gx-0") == 1
    assert sim.run("4h", until=lambda: job.over)
    assert job.state == "COMPLETED"
    assert sim.compute.vms["c1-gx-0"].id != first
    sim.run("1h")
    nothing_left(sim)
    sim.check()


def test_min_node_count_may_go_down_and_up() -> None:
    """Scenario 76."""
    sim = a_cluster(pools=(pool("gx", size=3, static=2),))
    sim.run("30m")
    assert sim.busy_vms() == ["c1-gx-0", "c1-gx-1"]
    sim.reload(pool("gx", size=3, static=1))
    sim.run("30m")
    assert sim.busy_vms() == ["c1-gx-0"]
    sim.reload(pool("gx", size=3, static=3))
    sim.run("30m")
    assert sim.busy_vms() == ["c1-gx-0", "c1-gx-1", "c1-gx-2"]
    sim.check()


def test_a_node_that_leaves_the_file_leaves_when_idle() -> None:
    """Still in slurm.conf: drained, its job ends in peace, its VM goes, and nothing comes back."""
    sim = a_cluster(pools=(pool("gx", size=3),))
    job = sim.submit(51, size=3, runtime=3000)
    sim.run("15m")
    sim.reload(pool("gx", size=1))
    assert sim.run("2h", until=lambda: job.over)
    assert (job.state, job.restarts) == ("COMPLETED", 0)
    sim.run("1h")
    assert not sim.busy_vms()
    assert len(sim.requests()) == 1


def test_a_partition_that_is_stopped_gives_its_vms_back() -> None:
    """Scenario 69: Slurm doesn't suspend the nodes of an INACTIVE partition."""
    sim = a_cluster()
    sim.submit(51, size=2, runtime=300)
    sim.run("8m")
    sim.slurm.stopped = True
    sim.run("1h")
    assert not sim.busy_vms(), sim.story("billed for nobody")
    sim.check()
