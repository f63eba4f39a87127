"""Static nodes are up, job or no job (DESIGN: rule `floor`)."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from slurm_flex.actions import MakeRequest, NodePowerUp
from slurm_flex.model import Snapshot
from tests.builders import (
    OWN_FLAGS,
    Thing,
    decide,
    instance,
    later,
    node,
    passes,
    pool,
    repeat,
    request,
    reservation,
    world,
)


def static(*things: Thing, **about: object) -> Snapshot:
    return world(pool("gx", static=1, size=2), *things, **about)  # type: ignore[arg-type]


def test_a_static_node_that_is_off_is_powered_up_and_no_more() -> None:
    """Slurm shows it powering up in the next pass: then `launch` asks."""
    acts = decide(static(node("c1-gx-0", "idle~")))
    assert acts.nodes(NodePowerUp) == {"c1-gx-0"}
    assert acts.kinds() == {"node_power_up"}


def test_a_dynamic_node_stays_off() -> None:
    acts = decide(static(node("c1-gx-0", "idle"), instance("c1-gx-0"), node("c1-gx-1", "idle~")))
    assert not acts.of(NodePowerUp)


def test_a_static_node_that_comes_up_is_asked_for_by_launch() -> None:
    played = passes(static(node("c1-gx-0", "idle~")), static(node("c1-gx-0", "idle#"), now="+5s"))
    assert not played[0].of(MakeRequest)
    assert [one.nodes for one in played[1].of(MakeRequest)] == [("c1-gx-0",)]


@pytest.mark.parametrize("state", ["IDLE+CLOUD+DRAIN+POWERED_DOWN", "DOWN+CLOUD+POWERED_DOWN"])
def test_a_node_that_somebody_holds_stays_off(state: str) -> None:
    snapshot = static(node("c1-gx-0", state, reason="bad fan", user="root", since="-1h"))
    assert not passes(*repeat(snapshot, 5)).all.changes


def test_a_foreign_reservation_holds_a_node() -> None:
    """Scenario 35: no relaunch loop on a node that an admin works on."""
    snapshot = static(
        node("c1-gx-0", "idle~$"), reservation("maint_x", "c1-gx-0", start="-1h", end="+1h")
    )
    assert not passes(*repeat(snapshot, 5)).all.changes


@pytest.mark.parametrize(("start", "end"), [("+1h", "+2h"), ("-2h", "-1h")])
def test_a_reservation_that_isnt_active_holds_nothing(start: str, end: str) -> None:
    snapshot = static(
        node("c1-gx-0", "idle~"), reservation("maint_x", "c1-gx-0", start=start, end=end)
    )
    assert decide(snapshot).nodes(NodePowerUp) == {"c1-gx-0"}


def test_our_own_reservation_holds_nothing_though_slurm_says_maint() -> None:
    """Held is read from the reservation list, never from the MAINT flag, which ours sets too."""
    snapshot = static(
        node("c1-gx-0", "idle~$"),
        reservation("slurm-flex-s0-1", "c1-gx-0", start="-4m", end="+1h", flags=OWN_FLAGS),
    )
    assert passes(*repeat(snapshot, 2)).all.nodes(NodePowerUp) == {"c1-gx-0"}


def test_a_paused_pool_stays_as_it_is() -> None:
    snapshot = static(node("c1-gx-0", "idle~"), paused=["gx"])
    assert not passes(*repeat(snapshot, 5)).all.changes


def test_repeats_are_spaced_and_ever_more_so() -> None:
    """A minute, doubling to an hour, while nothing comes of it."""
    snapshot = static(node("c1-gx-0", "idle~"))
    done = []
    memory = None
    for step in range(0, 6 * 3600, 30):
        played = passes(later(snapshot, timedelta(seconds=step)), memory=memory)
        memory = played.memory
        if played.last.of(NodePowerUp):
            done.append(step)
    gaps = [after - before for before, after in itertools.pairwise(done)]
    assert gaps[0] >= 60
    assert max(gaps) <= 3660
    assert all(after >= before for before, after in itertools.pairwise(gaps))
    assert 8 <= len(done) <= 14


def test_with_a_live_request_there_is_nothing_to_space() -> None:
    """Slurm forgot it (a restart): it is powered up at once, to be ready for its VM."""
    first = static(node("c1-gx-0", "idle~"))
    again = static(node("c1-gx-0", "idle~"), request("s0-1", "c1-gx-0", created="-1h"), now="+30s")
    played = passes(first, again)
    assert played[1].nodes(NodePowerUp) == {"c1-gx-0"}
    assert not played.all.of(MakeRequest)


def test_fewer_static_nodes_leave_when_idle_and_more_come_up() -> None:
    """Scenario 76: min_node_count decides, as the file says now."""
    before = world(pool("gx", static=2, size=3), node("c1-gx-[0-2]", "idle~"))
    fewer = world(pool("gx", static=1, size=3), node("c1-gx-[0-2]", "idle~"))
    more = world(pool("gx", static=3, size=3), node("c1-gx-[0-2]", "idle~"))
    assert decide(before).nodes(NodePowerUp) == {"c1-gx-0", "c1-gx-1"}
    assert decide(fewer).nodes(NodePowerUp) == {"c1-gx-0"}
    assert decide(more).nodes(NodePowerUp) == {"c1-gx-0", "c1-gx-1", "c1-gx-2"}


def test_a_static_node_that_is_leaving_is_waited_for() -> None:
    assert not decide(static(node("c1-gx-0", "idle%"))).of(NodePowerUp)


def test_static_nodes_that_slurm_doesnt_exclude_are_excluded() -> None:
    """Else Slurm sends them off at every SuspendTime."""
    snapshot = static(
        node("c1-gx-0", "idle"), instance("c1-gx-0"), config={"suspend_exc_nodes": "(null)"}
    )
    assert passes(*repeat(snapshot, 2)).all.nodes("suspend_exclude") == {"c1-gx-0"}


@pytest.mark.parametrize("listed", ["c1-gx-0", "c1-gx-[0-3]", "c1-gx-0:1", "login-0,c1-gx-[0,5]"])
def test_static_nodes_that_slurm_excludes_are_left(listed: str) -> None:
    """Scenario 60: the list in all of its forms."""
    snapshot = static(
        node("c1-gx-0", "idle"), instance("c1-gx-0"), config={"suspend_exc_nodes": listed}
    )
    assert not passes(*repeat(snapshot, 2)).all.kind("suspend_exclude")
