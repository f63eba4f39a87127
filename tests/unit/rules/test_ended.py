"""A VM is gone: at its end it expired, before it was lost (DESIGN: rule `ended`)."""

from __future__ import annotations

import pytest

from slurm_flex.actions import JobComment, MakeRequest, NodeDown, NodePowerDown
from slurm_flex.model import Snapshot
from tests.builders import (
    OWN_FLAGS,
    Acts,
    Thing,
    decide,
    half_seen,
    instance,
    job,
    later,
    node,
    passes,
    pool,
    reservation,
    world,
)

EXPIRED = "slurm-flex: expired"


LOST = "slurm-flex: lost"


def reasons(acts: Acts) -> set[str]:
    return {action.reason for action in acts.of(NodeDown)}


def ends_at_noon(*more: Thing, state: str = "idle", **about: object) -> Snapshot:
    """Half a minute before: the VM of c1-gx-0 still runs; its end is at noon."""
    return world(
        node("c1-gx-0", state),
        instance("c1-gx-0", created="-7d", ends="now"),
        *more,
        now="-30s",
        **about,  # type: ignore[arg-type]
    )


def test_an_expired_idle_node_goes_down_and_off_at_once() -> None:
    """Scenario 71: down, then power_down; an expiry needs no second look."""
    acts = passes(ends_at_noon(), world(node("c1-gx-0", "idle"), now="+10s")).last
    assert acts.nodes(NodeDown) == {"c1-gx-0"}
    assert acts.nodes(NodePowerDown) == {"c1-gx-0"}
    assert all(reason.startswith(EXPIRED) for reason in reasons(acts))
    assert not acts.of(MakeRequest)


def test_down_comes_before_power_down() -> None:
    acts = passes(ends_at_noon(), world(node("c1-gx-0", "idle"), now="+10s")).last
    kinds = [action.KIND for action in acts.changes]
    assert kinds.index("node_down") < kinds.index("node_power_down")


def test_an_expired_dynamic_node_stays_off_when_no_job_waits() -> None:
    """Scenario 71: off, no request, no VM, nothing billed."""
    played = passes(
        ends_at_noon(),
        world(node("c1-gx-0", "idle"), now="+10s"),
        world(node("c1-gx-0", "down%", reason=EXPIRED, since="+10s"), now="+40s"),
        world(node("c1-gx-0", "idle~", reason=EXPIRED, since="+10s"), now="+90s"),
        world(node("c1-gx-0", "idle~", reason=EXPIRED, since="+10s"), now="+120s"),
    )
    assert not played[2].changes
    assert not played[3].changes
    assert not played[4].changes


DYING = ["STOPPING", "PENDING_STOP", "SUSPENDING", "DEPROVISIONING"]
DEAD = ["TERMINATED", "STOPPED", "SUSPENDED"]


@pytest.mark.parametrize("status", DYING + DEAD)
def test_a_vm_that_is_ending_or_terminated_counts_as_gone(status: str) -> None:
    """Scenario 78: the same outcome as absent."""
    acts = passes(
        ends_at_noon(),
        world(
            node("c1-gx-0", "idle"),
            instance("c1-gx-0", status, created="-7d", ends="now"),
            now="+10s",
        ),
    ).last
    assert acts.nodes(NodeDown) == {"c1-gx-0"}
    assert acts.nodes(NodePowerDown) == {"c1-gx-0"}


@pytest.mark.parametrize("status", DEAD)
@pytest.mark.parametrize("state", ["down%", "idle~"])
def test_the_leftover_of_a_dead_vm_is_deleted_once_its_node_leaves(state: str, status: str) -> None:
    """Scenario 78. With DO_NOTHING nobody else deletes it; a suspended one is billed, too."""
    acts = decide(
        world(
            node("c1-gx-0", state, reason=EXPIRED, since="-30s"),
            instance("c1-gx-0", status, created="-7d", ends="-1m"),
        )
    )
    assert acts.nodes("delete_instances") == {"c1-gx-0"}


@pytest.mark.parametrize("status", DYING + DEAD)
@pytest.mark.parametrize("static", [0, 1])
def test_a_vm_that_ends_before_its_time_is_lost_whatever_compute_engine_calls_it(
    status: str, static: int
) -> None:
    """A host error, a shutdown in the guest, somebody who stops or suspends it: two looks."""
    gx = pool("gx", size=2, static=static)
    runs = job(51, "R", nodes="c1-gx-0", starts="-1h")
    before = world(gx, node("c1-gx-0", "alloc"), instance("c1-gx-0"), runs)
    ended = world(gx, node("c1-gx-0", "alloc"), instance("c1-gx-0", status), runs)
    off = world(gx, node("c1-gx-0", "idle~"), job(51, reason="BeginTime", starts="+3m", restarts=1))
    played = passes(before, later(ended, "30s"), later(ended, "60s"), later(off, "150s"))
    assert not played[1].changes
    assert reasons(played[2]) == {LOST}
    assert played[2].nodes(NodePowerDown) == {"c1-gx-0"}
    assert "lost its VM" in played[2].one(JobComment).text
    assert played[2].nodes("save_console") == ({"c1-gx-0"} if status in DEAD else set())
    assert played[3].nodes("node_power_up") == ({"c1-gx-0"} if static else set())
    assert not played.memory.launches.get("gx"), "no fault of the pool's"


def test_clocks_may_differ_by_ninety_seconds() -> None:
    """Scenario 52: gone 80 s before its end is expired, not lost."""
    before = world(
        node("c1-gx-0", "idle"), instance("c1-gx-0", created="-7d", ends="+80s"), now="-30s"
    )
    acts = passes(before, world(node("c1-gx-0", "idle"))).last
    assert acts.nodes(NodeDown) == {"c1-gx-0"}
    assert all(reason.startswith(EXPIRED) for reason in reasons(acts))


def test_a_vm_that_vanishes_before_its_time_is_looked_at_twice() -> None:
    """Scenarios 24 and 25."""
    before = world(node("c1-gx-0", "alloc"), instance("c1-gx-0"), job(51, "R", nodes="c1-gx-0"))
    gone = world(node("c1-gx-0", "alloc"), job(51, "R", nodes="c1-gx-0"), now="+30s")
    played = passes(before, gone, later(gone, "30s"))
    assert not played[1].changes
    assert played[2].nodes(NodeDown) == {"c1-gx-0"}
    assert played[2].nodes(NodePowerDown) == {"c1-gx-0"}
    assert all(reason.startswith(LOST) for reason in reasons(played[2]))


def test_a_vm_that_is_back_at_the_second_look_was_never_lost() -> None:
    """Scenario 26: the count starts anew."""
    there = world(node("c1-gx-0", "alloc"), instance("c1-gx-0"), job(51, "R", nodes="c1-gx-0"))
    gone = world(node("c1-gx-0", "alloc"), job(51, "R", nodes="c1-gx-0"))
    played = passes(
        there,
        later(gone, "30s"),
        later(there, "60s"),
        later(gone, "90s"),
    )
    assert not played.all.of(NodeDown)


def test_nothing_is_lost_while_the_listing_is_partial() -> None:
    """Scenario 27."""
    before = world(node("c1-gx-0", "idle"), instance("c1-gx-0", ends="now"), now="-1m")
    half = world(node("c1-gx-0", "idle"), half_seen("gx"), now="+30s")
    _, *after = passes(before, *(later(half, f"{n * 30}s") for n in range(10)))
    assert not any(acts.changes for acts in after)


def test_a_pool_that_was_not_looked_at_gives_no_decision() -> None:
    snapshot = world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0"))
    blind = Snapshot(
        now=snapshot.now,
        settings=snapshot.settings,
        cluster=snapshot.cluster,
        slurm=snapshot.slurm,
        cloud={},
    )
    assert not decide(blind).changes


def test_many_vms_gone_at_once_need_a_third_look() -> None:
    """Scenario 28: more than a fifth of the pool, and at least four."""
    before = world(pool("gx", size=10), node("c1-gx-[0-9]", "idle"), instance("c1-gx-[0-9]"))
    gone = world(pool("gx", size=10), node("c1-gx-[0-9]", "idle"), instance("c1-gx-[5-9]"))
    played = passes(before, later(gone, "30s"), later(gone, "60s"), later(gone, "90s"))
    assert not played[1].beside("reserve")
    assert not played[2].beside("reserve")
    assert played[3].nodes(NodeDown) == {f"c1-gx-{n}" for n in range(5)}


def test_many_vms_past_their_known_end_need_no_third_look() -> None:
    before = world(
        pool("gx", size=10),
        node("c1-gx-[0-9]", "idle"),
        instance("c1-gx-[0-9]", created="-7d", ends="now"),
        now="-30s",
    )
    gone = world(pool("gx", size=10), node("c1-gx-[0-9]", "idle"), now="+20s")
    assert len(passes(before, gone).last.nodes(NodeDown)) == 10


def test_with_memory_lost_our_reservation_tells_the_end() -> None:
    """DESIGN: a vanished VM's end is read back from our reservation's start."""
    acts = decide(
        world(
            node("c1-gx-0", "idle$"),
            reservation(
                "slurm-flex-j51-1", "c1-gx-0", start="-5m30s", end="+59m30s", flags=OWN_FLAGS
            ),
        )
    )
    assert acts.nodes(NodeDown) == {"c1-gx-0"}
    assert all(reason.startswith(EXPIRED) for reason in reasons(acts))


@pytest.mark.parametrize("name", ["slurm-flex-hold-gx", "slurm-flex-drain.c1-gx-0"])
def test_only_a_reservation_for_an_end_tells_one(name: str) -> None:
    """With memory lost: what holds a pool back, or guarded a drain, knows nothing of the VM."""
    gone = world(
        node("c1-gx-0", "idle$"),
        reservation(name, "c1-gx-0", start="-6m", end="+1m", flags=OWN_FLAGS),
    )
    said = reasons(passes(gone, later(gone, "1m"), later(gone, "2m")).all)
    assert said and all(reason.startswith(LOST) for reason in said)


def test_a_vm_granted_ten_minutes_for_less_is_ended_by_us_on_time() -> None:
    """Scenario 77: flex_start_max_duration 30 s; the request got 600 s."""
    things = (pool("gx", duration="30s"), node("c1-gx-0", "idle"))
    early = world(*things, instance("c1-gx-0", created="-1m", ends="+9m45s"))
    due = world(*things, instance("c1-gx-0", created="-2m", ends="+9m20s"))
    assert not passes(early).all.of(NodeDown)
    acts = passes(due).last
    assert acts.nodes(NodeDown) == {"c1-gx-0"}
    assert acts.nodes(NodePowerDown) == {"c1-gx-0"}
    assert all(reason.startswith(EXPIRED) for reason in reasons(acts))


def test_a_static_node_that_expired_is_taken_down_like_any_other() -> None:
    """Scenario 74, its first half; `floor` brings it back."""
    things = (pool("gx", static=1, size=1),)
    before = world(
        *things,
        node("c1-gx-0", "idle"),
        instance("c1-gx-0", created="-7d", ends="now"),
        now="-30s",
    )
    played = passes(
        before,
        world(*things, node("c1-gx-0", "idle"), now="+10s"),
        world(*things, node("c1-gx-0", "idle~", reason=EXPIRED, since="+10s"), now="+80s"),
        world(*things, node("c1-gx-0", "idle#", reason=EXPIRED, since="+10s"), now="+85s"),
    )
    assert played[1].nodes(NodeDown) == {"c1-gx-0"}
    assert played[2].nodes("node_power_up") == {"c1-gx-0"}
    assert not played[2].of(MakeRequest)
    assert [one.nodes for one in played[3].of(MakeRequest)] == [("c1-gx-0",)]


class TestANodeThatSomebodyElseHolds:
    """Slurm clears DRAIN on the way down, so a held node is never powered down by us."""

    def test_it_is_left_alone_when_its_vm_is_gone(self) -> None:
        gone = world(node("c1-gx-0", "drain", reason="bad fan", user="root", since="-1h"))
        played = passes(*(later(gone, f"{n * 30}s") for n in range(5)))
        assert not played.all.changes

    def test_it_goes_down_with_its_own_reason_where_a_job_hangs_on_it(self) -> None:
        before = world(
            node("c1-gx-0", "drng", reason="bad fan", user="root", since="-1h"),
            instance("c1-gx-0", created="-7d", ends="now"),
            job(51, "R", nodes="c1-gx-0", starts="-1d"),
            now="-30s",
        )
        gone = world(
            node("c1-gx-0", "drng", reason="bad fan", user="root", since="-1h"),
            job(51, "R", nodes="c1-gx-0", starts="-1d"),
            now="+10s",
        )
        played = passes(before, gone, later(gone, "30s"), later(gone, "60s"))
        assert {one.reason for one in played.all.of(NodeDown)} == {"bad fan"}
        assert not played.all.of(NodePowerDown)
