"""The whole life in the closed loop: nothing goes wrong, and nothing is forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import pool
from tests.sim.simulation import Simulation

SHORT = "2h"


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


def test_a_job_waits_runs_and_everything_is_given_back() -> None:
    sim = a_cluster()
    job = sim.submit(51, size=2, runtime=1800)
    sim.run("3h")
    assert job.state == "COMPLETED"
    assert [one.nodes for one in sim.requests()] == [("c1-gx-0", "c1-gx-1")]
    nothing_left(sim)
    sim.check()


def test_an_idle_cluster_does_nothing_for_a_day() -> None:
    sim = a_cluster(restless=True)
    sim.run("1d")
    assert not sim.did
    sim.check()


def test_a_job_runs_across_the_end_of_its_vm() -> None:
    """Scenario 72: batch, no 120 s, one new request."""
    sim = a_cluster(pools=(pool("gx", size=4, duration=SHORT),))
    job = sim.submit(51, size=2, runtime=5400, limit=7000)
    sim.run("40m")
    sim.node("c1-gx-0").last_busy = sim.now
    first = dict(sim.compute.vms)
    vm = first["c1-gx-0"]
    vm.ends = first["c1-gx-1"].ends = sim.now + 600
    assert sim.run("4h", until=lambda: job.state == "COMPLETED"), sim.story("it never ended")
    assert job.restarts == 1
    requeued = next(at for at, what in job.history if what == "REQUEUED")
    placed = [at for at, what in job.history if what == "CONFIGURING"]
    assert placed[1] - requeued <= 180
    assert len(sim.requests()) == 2
    sim.run("1h")
    nothing_left(sim)
    sim.check()


def test_a_dynamic_node_expires_and_nobody_waits() -> None:
    """Scenario 71."""
    sim = a_cluster(pools=(pool("gx", size=2, duration="1h"),))
    sim.slurm.knobs.suspend_time = 10 * 86400
    sim.submit(51, runtime=300, limit=600)
    sim.run("6h")
    assert len(sim.requests()) == 1
    nothing_left(sim)
    sim.check()


def test_static_nodes_come_back_at_every_end() -> None:
    """Scenario 74: under the same name, and again."""
    sim = a_cluster(pools=(pool("gx", size=3, static=2, duration="6h"),))
    sim.run("1d6h")
    for name in ("c1-gx-0", "c1-gx-1"):
        made = [one for one in sim.requests() if name in one.nodes]
        assert 4 <= len(made) <= 6, sim.story(f"{name}: {len(made)} requests")
        assert sim.node(name).power == "up"
    assert not [one for one in sim.requests() if "c1-gx-2" in one.nodes]
    sim.check()


@pytest.mark.parametrize("leaves_terminated", [False, True])
def test_a_terminated_vm_is_the_same_as_a_gone_one(leaves_terminated: bool) -> None:
    """Scenario 78."""
    sim = a_cluster(pools=(pool("gx", size=2, static=1, duration="6h"),))
    sim.compute.knobs["gx"].end_leaves_terminated = leaves_terminated
    job = sim.submit(51, size=1, runtime=5 * 3600, limit=5.5 * 3600)
    sim.run("14h")
    assert job.state == "COMPLETED"
    assert sim.node("c1-gx-0").power == "up"
    sim.check()


def test_jobs_that_fit_use_the_old_node_and_others_get_a_fresh_one() -> None:
    """Scenarios 41 and 42."""
    sim = a_cluster(pools=(pool("gx", size=2, duration="6h"),))
    sim.slurm.knobs.suspend_time = 86400
    first = sim.submit(51, runtime=3600, limit=4000)
    sim.run("2h")
    assert first.state == "COMPLETED"
    fits = sim.submit(52, runtime=600, limit=3600)
    sim.run("5m")
    assert fits.state == "RUNNING"
    assert len(sim.requests()) == 1
    long = sim.submit(53, runtime=4 * 3600, limit=5 * 3600)
    assert sim.run("6h", until=lambda: long.state == "COMPLETED")
    assert long.restarts == 0
    assert len(sim.requests()) == 2
    sim.run("8h")
    nothing_left(sim)
    sim.check()


def test_resume_rate_hands_a_job_over_in_parts_and_it_is_one_request() -> None:
    sim = a_cluster(pools=(pool("gx", size=8),))
    sim.slurm.knobs.resume_rate = 2
    job = sim.submit(51, size=8, runtime=900)
    sim.run("2h")
    assert job.state == "COMPLETED"
    assert len(sim.requests()) == 1
    sim.check()


def test_a_queue_of_hours_keeps_its_place_and_says_why() -> None:
    """Scenarios 2 and 79, with a ResumeTimeout far shorter than the wait."""
    sim = a_cluster(restless=True)
    sim.slurm.knobs.resume_timeout = 1800
    sim.compute.knobs["gx"].capacity = lambda now: 4 if now > 30 * 3600 else 0
    job = sim.submit(51, size=4, runtime=600)
    sim.run("20h")
    assert job.state == "CONFIGURING", sim.story(job.state)
    assert job.restarts == 0
    assert (job.admin_comment or "").startswith("flex: ")
    assert sim.run("12h", until=lambda: job.state == "COMPLETED")
    assert len(sim.requests()) == 1
    sim.check()


def test_scancel_while_queued_cancels_that_request_and_no_other() -> None:
    """Scenario 81."""
    sim = a_cluster()
    sim.compute.knobs["gx"].capacity = lambda now: 4 if now > 12 * 3600 else 0
    sim.submit(51, size=2)
    neighbour = sim.submit(52, size=2, runtime=600)
    sim.run("1h")
    sim.scontrol.cancel(51, sim.now)
    sim.run("3m")
    assert sim.live_requests() == ["j52-1"]
    sim.run("7m")
    off = [name for name, node in sim.slurm.nodes.items() if node.power == "off"]
    assert len(off) == 2, sim.story("the nodes of the cancelled job aren't off")
    assert sim.run("13h", until=lambda: neighbour.state == "COMPLETED")
    assert neighbour.restarts == 0
    assert [one.name for one in sim.requests()] == ["j51-1", "j52-1"]
    sim.run("1h")
    nothing_left(sim)
    sim.check()


def test_scancel_while_vms_are_on_their_way_leaves_no_orphan() -> None:
    """Scenario 82: the cancel comes too late."""
    sim = a_cluster()
    sim.compute.knobs["gx"].provision_delay = 600
    sim.submit(51, size=3)
    sim.run("3m")
    sim.scontrol.cancel(51, sim.now)
    sim.run("40m")
    nothing_left(sim)
    sim.check()


def test_a_heterogeneous_job_starts_whole() -> None:
    sim = a_cluster()
    parts = [sim.submit(60, size=1, het=60, runtime=600), sim.submit(61, size=2, het=60)]
    sim.slurm.jobs[61].runtime = 600
    sim.run("2h")
    assert [part.state for part in parts] == ["COMPLETED", "COMPLETED"]
    assert len(sim.requests()) == 1
    nothing_left(sim)
    sim.check()


def test_a_heterogeneous_job_that_was_sent_back_gets_the_same_nodes_again() -> None:
    """Backfill, which alone starts it, doesn't see nodes that were forced off (R)."""
    sim = a_cluster(pools=(pool("gx", size=3),))
    error = ("ZONE_RESOURCE_POOL_EXHAUSTED", "no room")
    sim.compute.knobs["gx"].failing = lambda now: error if now < 600 else None
    parts = [sim.submit(60, size=1, het=60, runtime=600), sim.submit(61, size=2, het=60)]
    sim.slurm.jobs[61].runtime = 600
    sim.run("4h")
    assert [part.state for part in parts] == ["COMPLETED", "COMPLETED"]
    nothing_left(sim)
    sim.check()


def test_a_hundred_and_fifty_jobs_share_a_hundred_places() -> None:
    """Scenario 83: nothing lost, nobody starved."""
    sim = a_cluster(pools=(pool("gx", size=150),))
    sim.compute.knobs["gx"].capacity = lambda now: 30 if now < 3600 else 200
    jobs = [sim.submit(100 + n, runtime=600, priority=n) for n in range(150)]
    sim.run("4h", until=lambda: all(job.over for job in jobs))
    assert {job.state for job in jobs} == {"COMPLETED"}
    assert len(sim.requests()) == 150
    sim.run("30m")
    nothing_left(sim)
    sim.check()


def test_a_job_that_asked_is_signalled_once_and_saves_itself() -> None:
    """Scenario 45: it traps USR1, ten minutes before the end; told once, over 30-second passes."""
    sim = a_cluster(pools=(pool("gx", size=1, duration="3h"),), restless=True)
    job = sim.submit(
        51,
        runtime=2.5 * 3600,
        limit=2.8 * 3600,
        traps=frozenset({"USR1"}),
        comment="flex-signal=USR1@600",
    )
    sim.run("30m")
    for vm in sim.compute.vms.values():
        vm.ends = sim.now + 1800
    sim.run("25m")
    signals = [what for _, what in job.told if what.startswith("signal")]
    notes = [what for _, what in job.told if what.startswith("notify")]
    assert (len(signals), len(notes)) == (1, 1), sim.story(str(job.told))
    assert job.state == "RUNNING"
    assert sim.run("6h", until=lambda: job.over)
    assert job.state == "COMPLETED"
    sim.check()


def test_a_job_that_didnt_ask_is_never_signalled() -> None:
    """An untrapped signal kills a job."""
    sim = a_cluster(pools=(pool("gx", size=1, duration="3h"),), restless=True)
    job = sim.submit(51, runtime=2 * 3600, limit=2.5 * 3600)
    sim.run("30m")
    for vm in sim.compute.vms.values():
        vm.ends = sim.now + 1200
    sim.run("6h", until=lambda: job.over)
    assert job.state == "COMPLETED"
    assert not [what for _, what in job.told if what.startswith("signal")]
    sim.check()


def test_with_expiry_requeue_a_job_leaves_in_order() -> None:
    sim = a_cluster(
        pools=(pool("gx", size=2, duration="3h"),), settings={"expiry_requeue": True}, restless=True
    )
    job = sim.submit(51, size=2, runtime=2 * 3600, limit=2.5 * 3600)
    sim.run("30m")
    for vm in sim.compute.vms.values():
        vm.ends = sim.now + 1200
    sim.run("8h", until=lambda: job.over)
    assert (job.state, job.restarts) == ("COMPLETED", 1)
    assert sim.count("job_requeue") == 1
    sim.run("1h")
    nothing_left(sim)
    sim.check()


@pytest.mark.parametrize("batch", [True, False])
def test_an_interactive_job_is_told_before_it_ends(batch: bool) -> None:
    """srun and salloc can't be requeued by Slurm: no job is lost without a word."""
    sim = a_cluster()
    sim.compute.knobs["gx"].failing = lambda now: ("QUOTA_EXCEEDED", "Quota 'GPUS' exceeded.")
    job = sim.submit(51, size=2, batch=batch)
    sim.run("30m")
    if batch:
        assert job.waits
    else:
        assert job.state == "NODE_FAIL"
        assert [what for _, what in job.told if what.startswith("notify")]
        assert (job.admin_comment or "").startswith("flex: ")
    sim.check()


def test_a_duration_of_thirty_seconds_is_ended_on_time() -> None:
    """Scenario 77: Compute Engine grants ten minutes, we end it after thirty seconds."""
    sim = a_cluster(pools=(pool("gx", size=1, duration="30s"),), restless=True)
    sim.slurm.knobs.suspend_time = 86400
    sim.compute.knobs["gx"].boot_delay = 0
    sim.submit(51, runtime=10, limit=20)
    sim.run("8m")
    assert sim.ledger.billed["c1-gx-0"] <= 300, sim.story("it went on for long")
    sim.check()


def test_deleting_may_take_longer_than_suspend_timeout() -> None:
    """Scenario 55: the node is given to the next job while its old VM is still being deleted."""
    sim = a_cluster(pools=(pool("gx", size=1),))
    sim.slurm.knobs.suspend_timeout = 30
    sim.slurm.knobs.suspend_time = 30
    sim.compute.knobs["gx"].delete_delay = 240
    first = sim.submit(51, runtime=300)
    sim.run("20m", until=lambda: sim.node("c1-gx-0").power == "powering_down")
    second = sim.submit(52, runtime=300)
    assert sim.run("40m", until=lambda: second.over), sim.story("it never ran")
    assert (first.state, second.state, second.restarts) == ("COMPLETED", "COMPLETED", 0)
    assert len(sim.requests()) == 2
    sim.run("30m")
    nothing_left(sim)
    sim.check()


def test_shared_nodes_serve_two_jobs_with_one_request() -> None:
    """Scenario 85."""
    sim = a_cluster()
    jobs = [sim.submit(number, share=0.5, runtime=600) for number in (51, 52)]
    sim.run("1h")
    assert {job.state for job in jobs} == {"COMPLETED"}
    assert len(sim.requests()) == 1
    nothing_left(sim)
    sim.check()
