"""Crashes, lost replies, lost memory, lists that lag: the next pass mends it (invariant 7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slurm_flex.actions import Action
from slurm_flex.model import Memory
from tests.builders import NO_PERMISSION, QUOTA, STOCKOUT, pool
from tests.sim.ledger import Bounds
from tests.sim.simulation import Faults, Simulation

HOUR = 3600.0
MILD = Bounds(unwanted=600, static_away=2400, requests_per_node_hour=8)


# --- a short story each, that ends with nothing left and nothing lost


def expiry(sim: Simulation) -> None:
    """A job runs, its VMs end under it, it runs again."""
    job = sim.submit(51, size=2, runtime=3000, limit=3300)
    sim.run("30m")
    for vm in sim.compute.vms.values():
        vm.ends = sim.now + 300 if vm.ends is not None else None
    sim.run("4h", until=lambda: job.over)
    assert job.state == "COMPLETED", sim.story(job.state)


def failure(sim: Simulation) -> None:
    """The first request fails, the second is granted."""
    sim.compute.knobs["gx"].failing = lambda now: STOCKOUT if now < 600 else None
    job = sim.submit(51, size=2, runtime=600)
    sim.run("6h", until=lambda: job.over)
    assert job.state == "COMPLETED", sim.story(job.state)


def cancelled(sim: Simulation) -> None:
    """scancel while the request queues; a neighbour waits on."""
    sim.compute.knobs["gx"].capacity = lambda now: 4 if now > 2 * HOUR else 0
    sim.submit(51, size=2)
    neighbour = sim.submit(52, size=1, runtime=600)
    sim.run("20m")
    sim.scontrol.cancel(51, sim.now)
    sim.run("6h", until=lambda: neighbour.over)
    assert neighbour.state == "COMPLETED", sim.story(neighbour.state)


def cancelled_later(sim: Simulation) -> None:
    """scancel in another life of the daemon's, which doesn't know when the nodes began to wait."""
    sim.compute.knobs["gx"].capacity = lambda now: 0
    sim.submit(51, size=2)
    sim.run("10m")
    sim.forget()
    sim.run("5m")
    sim.scontrol.cancel(51, sim.now)
    sim.run("15m")


def sickness(sim: Simulation) -> None:
    """A check fails on a node; the node is replaced where it is wanted."""
    first = sim.submit(51, size=1, runtime=900)
    sim.run("15m")
    sim.drain_for_health(next(iter(first.nodes or ("c1-gx-0",))))
    sim.run("1h")
    second = sim.submit(52, size=2, runtime=600)
    sim.run("5h", until=lambda: second.over)
    assert (first.state, second.state) == ("COMPLETED", "COMPLETED"), sim.story("not done")


def loss(sim: Simulation) -> None:
    """A VM vanishes under a job."""
    job = sim.submit(51, size=2, runtime=3000)
    sim.run("15m")
    sim.compute.lose(job.nodes[0] if job.nodes else "c1-gx-0", sim.now)
    sim.run("5h", until=lambda: job.over)
    assert job.state == "COMPLETED", sim.story(job.state)


STORIES = [expiry, failure, cancelled, sickness, loss]
Story = Callable[[Simulation], None]


def a_site(faults: Faults | None = None, static: int = 0) -> Simulation:
    return Simulation(
        (pool("gx", size=4, static=static, duration="6h"),),
        faults=faults or Faults(),
        bounds=MILD,
    )


def is_clean(sim: Simulation) -> None:
    sim.run("2h")
    by_hand = {one.name for one in sim.requests() if one.name.startswith("m-")}
    assert not by_hand, sim.story(f"asked for, though nobody powered up a node by hand: {by_hand}")
    assert not sim.busy_vms(), sim.story(f"left over: {sim.busy_vms()}")
    assert not sim.compute.requests, sim.story("requests are left over")
    assert not sim.slurm.reservations, sim.story("reservations are left over")
    for node in sim.slurm.nodes.values():
        assert node.off and not node.down and not node.drain, sim.story(f"{node}")
    sim.check()


class Mishap(Simulation):
    """Goes wrong once, at the nth action of all."""

    saved: Memory = Memory()

    def strike(self, nth: int, how: str) -> None:
        self.left, self.how = nth, how

    def _apply(self, actions: tuple[Action, ...]) -> None:
        before = self.memory
        if 0 <= self.left < len(actions):
            if self.how == "lost":
                kept = [*actions[: self.left], *actions[self.left + 1 :]]
                super()._apply(tuple(kept))
            else:
                super()._apply(actions[: self.left])
            if self.how == "dies and forgets":
                self.memory = Memory()
            elif self.how == "dies unsaved":
                self.memory = self.saved
            self.journal.note(f"mishap: {self.how}")
            self.left = -1
        else:
            self.left -= len(actions) if self.left >= 0 else 0
            super()._apply(actions)
        self.saved = before


@pytest.mark.parametrize("how", ["dies", "dies unsaved", "dies and forgets", "lost"])
@pytest.mark.parametrize("story", [*STORIES, cancelled_later], ids=lambda story: story.__name__)
def test_a_mishap_at_any_action_is_mended(story: Story, how: str) -> None:
    nth = 0
    while True:
        sim = Mishap((pool("gx", size=4, duration="6h"),), bounds=MILD)
        sim.strike(nth, how)
        sim.saved = Memory()
        story(sim)
        struck = sim.left == -1
        is_clean(sim)
        if not struck:
            break
        nth += 1
    assert nth > 5


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.parametrize("lag", [30.0, 90.0])
def test_lists_may_lag_behind(story: Story, lag: float) -> None:
    """A new request or VM isn't listed at once, and a deleted one still is."""
    sim = a_site()
    sim.compute.knobs["gx"].list_lag = lag
    story(sim)
    is_clean(sim)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_memory_may_be_lost_in_every_third_pass(story: Story, seed: int) -> None:
    """It costs grace periods, counts and perhaps a second warning, never a VM or a job."""
    sim = a_site(Faults(amnesia=0.33, seed=seed))
    story(sim)
    sim.faults.amnesia = 0.0
    is_clean(sim)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_replies_may_be_lost(story: Story) -> None:
    sim = a_site(Faults(lost_reply=1.0))
    story(sim)
    is_clean(sim)


def test_a_quota_that_will_never_do_is_asked_ever_more_slowly() -> None:
    sim = a_site()
    sim.compute.knobs["gx"].failing = lambda now: QUOTA
    job = sim.submit(51, size=2)
    sim.run("1d")
    assert len(sim.requests()) <= 16, sim.story(f"{len(sim.requests())} requests in a day")
    assert job.waits
    assert "quota" in (job.admin_comment or "").lower()
    sim.check()


def test_an_insert_that_is_refused_for_quota_is_paced_the_same() -> None:
    sim = a_site()
    sim.compute.knobs["gx"].refusing = lambda now: QUOTA
    job = sim.submit(51, size=2)
    sim.run("1d")
    assert len(sim.requests()) <= 16, sim.story(f"{len(sim.requests())} requests in a day")
    assert job.waits
    assert "quota" in (job.admin_comment or "").lower()
    sim.check()


def test_a_lack_of_permission_opens_the_breaker_at_once() -> None:
    sim = a_site()
    sim.compute.knobs["gx"].failing = lambda now: NO_PERMISSION if now < 20 * HOUR else None
    jobs = [sim.submit(number, runtime=600) for number in (51, 52, 53)]
    sim.run("1h")
    assert len(sim.requests()) <= 4
    sim.run("18h")
    assert len(sim.requests()) <= 45, sim.story(f"{len(sim.requests())} requests")
    assert sim.run("14h", until=lambda: all(job.over for job in jobs)), sim.story("never closed")
    is_clean(sim)


def test_nodes_that_never_boot_open_the_breaker() -> None:
    sim = a_site()
    sim.compute.knobs["gx"].boots = lambda name, now: now > 20 * HOUR
    job = sim.submit(51, runtime=600)
    sim.run("18h")
    assert len(sim.requests()) <= 25, sim.story(f"{len(sim.requests())} VMs for nothing")
    assert sim.count("save_console") >= 1
    assert sim.run("20h", until=lambda: job.over), sim.story("never tried again")
    is_clean(sim)


def test_capacity_waits_never_use_up_retries() -> None:
    """Scenario 75 for a job: failed for capacity for two days, and still asking."""
    sim = a_site()
    sim.compute.knobs["gx"].failing = lambda now: STOCKOUT if now < 48 * HOUR else None
    job = sim.submit(51, size=2, runtime=600)
    sim.run("48h")
    assert 20 <= len(sim.requests()) <= 120
    assert sim.run("3h", until=lambda: job.over), sim.story("it gave up")
    is_clean(sim)


def test_a_static_node_keeps_asking_for_ever() -> None:
    """Scenario 75."""
    sim = a_site(static=1)
    sim.compute.knobs["gx"].failing = lambda now: STOCKOUT if now < 72 * HOUR else None
    sim.run("3d")
    assert 30 <= len(sim.requests()) <= 200
    assert sim.run("3h", until=lambda: sim.node("c1-gx-0").power == "up")
    sim.check()


def test_the_quota_of_active_requests_is_no_failure_of_the_pool() -> None:
    """Somebody else in the region uses most of the places."""
    sim = a_site()
    sim.compute.knobs["gx"].request_quota = 1
    sim.compute.knobs["gx"].provision_delay = 600
    jobs = [sim.submit(number, runtime=300) for number in (51, 52, 53)]
    assert sim.run("12h", until=lambda: all(job.over for job in jobs)), sim.story("not done")
    is_clean(sim)


def test_half_a_job_over_two_pools_isnt_billed_for_hours() -> None:
    """partial_wait: the pool gy has VMs, gx is in a long back-off and asks for nothing."""
    sim = Simulation(
        (pool("gx", size=1), pool("gy", size=1)),
        partitions={"gx": "gx,gy", "only": "gx"},
    )
    sim.compute.knobs["gx"].failing = lambda now: QUOTA if now < 8 * HOUR else None
    alone = sim.submit(50, runtime=60, partition="only")
    sim.run("2h")
    assert alone.waits
    job = sim.submit(51, size=2, runtime=600, priority=5000)
    sim.run("5h")
    billed = sum(sim.ledger.billed.values())
    assert billed < 2.5 * HOUR, sim.story(f"{billed / HOUR:.1f} VM hours for nothing")
    assert sim.run("20h", until=lambda: job.over), sim.story("it never ran")
    sim.check()


def test_a_spot_job_half_of_which_came_isnt_billed_for_hours() -> None:
    sim = Simulation((pool("gx", size=3, model="SPOT"),))
    sim.compute.knobs["gx"].capacity = lambda now: 2 if now < 8 * HOUR else 3
    job = sim.submit(51, size=3, runtime=600)
    sim.run("7h")
    billed = sum(sim.ledger.billed.values())
    assert billed < 7 * HOUR, sim.story(f"{billed / HOUR:.1f} VM hours for nothing")
    assert sim.run("20h", until=lambda: job.over), sim.story("it never ran")
    sim.check()


def test_a_preempted_spot_vm_is_lost_and_no_failure_of_the_pool() -> None:
    sim = Simulation((pool("gx", size=2, model="SPOT"),))
    job = sim.submit(51, runtime=3000)
    for _ in range(3):
        sim.run("20m")
        for name in list(sim.compute.vms):
            sim.compute.kill(name, sim.now)
    assert sim.run("6h", until=lambda: job.over), sim.story("it never ran")
    assert not [one for _, one in sim.did if getattr(one, "event", "") == "BREAKER_OPEN"]
    sim.check()


@pytest.mark.parametrize("status", ["TERMINATED", "STOPPED", "SUSPENDED"])
@pytest.mark.parametrize("static", [0, 1])
def test_a_vm_that_somebody_stops_or_suspends_is_replaced_where_it_is_wanted(
    status: str, static: int
) -> None:
    sim = a_site(static=static)
    job = sim.submit(51, size=1, runtime=3000)
    sim.run("30m")
    sim.compute.kill("c1-gx-0", sim.now, status)
    assert sim.run("2h", until=lambda: job.over), sim.story(job.state)
    assert (job.state, job.restarts) == ("COMPLETED", 1)
    sim.run("1h")
    assert list(sim.compute.vms) == (["c1-gx-0"] if static else [])
    sim.check()


@pytest.mark.parametrize("static", [0, 1])
def test_a_vm_whose_host_is_never_repaired_is_replaced_where_it_is_wanted(static: int) -> None:
    """A static node always; a dynamic one would be for the job, which Slurm placed on another.

    The pool isn't blamed.
    """
    sim = a_site(static=static)
    job = sim.submit(51, size=1, runtime=3000)
    sim.run("30m")
    old = sim.compute.vms["c1-gx-0"].id
    sim.compute.break_host("c1-gx-0", sim.now, None)
    assert sim.run("3h", until=lambda: job.over), sim.story(job.state)
    assert (job.state, job.restarts) == ("COMPLETED", 1)
    sim.run("1h")
    assert [vm.id != old for vm in sim.compute.vms.values()] == [True] * static
    told = [getattr(one, "event", "") for _, one in sim.did]
    assert ("VM_REPORT_AND_REPLACEMENT" in told) == bool(static)
    assert "BREAKER_OPEN" not in told
    assert not [one for one in sim.memory.launches.get("gx", ()) if one.outcome != "good"]
    sim.check()


def test_an_idle_dynamic_node_whose_host_is_never_repaired_stays_off() -> None:
    sim = a_site()
    job = sim.submit(51, size=1, runtime=60)
    sim.run("1h", until=lambda: job.over)
    sim.compute.break_host("c1-gx-0", sim.now, None)
    sim.run("1h")
    is_clean(sim)
    assert sim.compute.made == 1


def test_a_vm_that_comes_back_from_repair_is_kept() -> None:
    """Also one that takes nearly as long as it may, and then boots for as long as it may."""
    sim = a_site(static=1)
    sim.run("30m")
    old = sim.compute.vms["c1-gx-0"].id
    sim.compute.knobs["gx"].boot_delay = 800.0
    sim.compute.break_host("c1-gx-0", sim.now, 800.0)
    assert sim.run("1h", until=lambda: sim.node("c1-gx-0").not_responding)
    assert sim.run("1h", until=lambda: not sim.node("c1-gx-0").not_responding), sim.story("out")
    assert [vm.id for vm in sim.compute.vms.values()] == [old]
    sim.check()


def fails_each_prolog(sim: Simulation, broken: set[str]) -> Callable[[], bool]:
    """What these VMs do to each job that starts on them; for `until`, as it happens in between."""

    def look() -> bool:
        for job in sim.slurm.jobs.values():
            if job.state != "RUNNING" or job.started != sim.now:
                continue
            bad = [name for name in job.nodes if sim.compute.vms[name].id in broken]
            if bad:
                sim.fail_prolog(bad[0])
        return all(job.over for job in sim.slurm.jobs.values())

    return look


@pytest.mark.parametrize("static", [0, 3])
def test_a_vm_that_fails_each_prolog_costs_a_job_that_comes_back_one_restart(static: int) -> None:
    """Drained once and replaced; the job runs on another VM, and so do those behind it."""
    sim = a_site(static=static)
    jobs = [sim.submit(number, size=1, runtime=1200) for number in (51, 52, 53, 54)]
    sim.run("30m", until=lambda: "c1-gx-0" in sim.compute.vms)
    broken = {sim.compute.vms["c1-gx-0"].id}
    assert sim.run("8h", until=fails_each_prolog(sim, broken)), sim.story("not done")
    assert [job.state for job in jobs] == ["COMPLETED"] * 4
    assert sorted(job.restarts for job in jobs) == [0, 0, 0, 1]
    sick = [one for _, one in sim.did if getattr(one, "event", "") == "VM_PROLOG_ERROR"]
    assert len(sick) == 1
    assert not {vm.id for vm in sim.compute.vms.values()} & broken
    sim.check()


def test_a_job_that_meets_a_broken_vm_each_time_is_held_once_at_the_limit() -> None:
    """By default after five; whoever releases it is told what for."""
    sim = Simulation((pool("gx", size=1, duration="6h"),), bounds=MILD)
    job = sim.submit(51, size=1, runtime=1200)

    def look() -> bool:
        if job.state == "RUNNING" and job.started == sim.now:
            sim.fail_prolog(job.nodes[0])
        return job.held

    assert sim.run("8h", until=look), sim.story("never held")
    assert job.restarts == 5
    assert (job.admin_comment or "").startswith("flex: held after 5 restarts, last: c1-gx-0")
    sim.run("3h")
    assert job.held and not sim.busy_vms()
    assert sim.count("job_hold") == 1
    sim.check()


def test_somebody_elses_vm_request_and_reservation_stay() -> None:
    """Invariant 6."""
    from tests.sim.parts import SimRequest, SimReservation, SimVm

    sim = a_site(static=1)
    theirs = SimVm("c1-gx-3", "77", "gx", 0.0, None, own=False, status="RUNNING", action="NONE")
    sim.compute.vms["c1-gx-3"] = theirs
    sim.compute.vms["visitor-1"] = SimVm("visitor-1", "78", "gx", 0.0, None, own=False)
    sim.compute.requests["gx", "training-run"] = SimRequest(
        "training-run", "gx", ("visitor-2",), 86400.0, 0.0, own=False
    )
    sim.scontrol.reserve(SimReservation("maint_x", ("c1-gx-0",), 3600.0, 7200.0), 0.0)
    sim.scontrol.reserve(SimReservation("slurm-flexible", ("c1-gx-1",), 0.0, 9e9), 0.0)
    job = sim.submit(51, size=2, runtime=600, limit=900)
    sim.run("6h")
    assert job.state == "COMPLETED"
    assert {"c1-gx-3", "visitor-1"} <= set(sim.compute.vms)
    assert ("gx", "training-run") in sim.compute.requests
    assert "slurm-flexible" in sim.slurm.reservations
    sim.check()


def test_a_slurmctld_that_is_away_costs_nothing_but_time() -> None:
    """Scenario 63."""
    sim = a_site(static=1)
    job = sim.submit(51, size=2, runtime=6000, limit=7200)
    sim.run("20m")
    sim.deaf_until = sim.now + 3600
    before = len(sim.did)
    sim.run("55m")
    assert len(sim.did) == before
    assert sim.run("4h", until=lambda: job.over)
    assert (job.state, job.restarts) == ("COMPLETED", 0)
    sim.check()


def test_lists_that_are_partial_for_an_hour_cost_nothing_but_time() -> None:
    """Scenario 27."""
    sim = a_site(static=1)
    job = sim.submit(51, size=2, runtime=6000, limit=7200)
    sim.run("20m")
    sim.blind_until = sim.now + 3600
    sim.run("55m")
    assert not sim.count("node_down")
    assert not sim.count("delete_instances")
    assert sim.run("4h", until=lambda: job.over)
    assert (job.state, job.restarts) == ("COMPLETED", 0)
    sim.check()


def test_nodes_missing_from_slurms_list_are_unknown_not_deleted() -> None:
    """Some releases lose powered-down CLOUD nodes on a reconfigure."""
    sim = a_site()
    job = sim.submit(51, size=1, runtime=6000, limit=7200)
    sim.run("20m")
    sim.node("c1-gx-0").missing = True
    sim.run("30m")
    assert "c1-gx-0" in sim.compute.vms
    assert sim.compute.vms["c1-gx-0"].action == "NONE"
    sim.node("c1-gx-0").missing = False
    assert sim.run("4h", until=lambda: job.over)
    assert (job.state, job.restarts) == ("COMPLETED", 0)
    is_clean(sim)
