"""What Slurm powered down is given back (DESIGN: rule `retire`)."""

from __future__ import annotations

import pytest

from slurm_flex.actions import CancelRequest, DeleteInstances
from tests.builders import (
    decide,
    half_seen,
    instance,
    job,
    later,
    node,
    passes,
    pool,
    repeat,
    request,
    world,
)


def test_the_vm_of_a_node_that_powers_down_is_deleted_at_once() -> None:
    """Scenario 53."""
    acts = decide(world(node("c1-gx-0", "idle%"), instance("c1-gx-0", created="-20s")))
    assert acts.nodes(DeleteInstances) == {"c1-gx-0"}


def test_deleting_is_repeated_until_it_is_done() -> None:
    """Scenarios 53 and 56: idempotent; a delete that failed is tried again."""
    snapshot = world(node("c1-gx-0", "idle%"), instance("c1-gx-0"))
    played = passes(*(later(snapshot, f"{n * 60}s") for n in range(10)))
    assert len(played.all.of(DeleteInstances)) >= 2


def test_a_vm_that_is_being_deleted_isnt_deleted_again() -> None:
    acts = decide(world(node("c1-gx-0", "idle%"), instance("c1-gx-0", action="DELETING")))
    assert not acts.of(DeleteInstances)


def test_the_vm_of_a_node_that_is_off_is_deleted_when_it_is_old_enough() -> None:
    """Scenario 54."""
    old = world(node("c1-gx-0", "idle~"), instance("c1-gx-0", created="-5m"))
    young = world(node("c1-gx-0", "idle~"), instance("c1-gx-0", "STAGING", created="-60s"))
    assert passes(*repeat(old, 3)).all.nodes(DeleteInstances) == {"c1-gx-0"}
    assert not decide(young).of(DeleteInstances)


@pytest.mark.parametrize("state", ["idle%", "idle~"])
@pytest.mark.parametrize("status", ["REPAIRING", "RUNNING", "SUSPENDED", "TERMINATED"])
def test_a_vm_that_is_wanted_no_more_goes_whatever_its_status(state: str, status: str) -> None:
    seen = world(node("c1-gx-0", state), instance("c1-gx-0", status, created="-5m"))
    assert decide(seen).nodes(DeleteInstances) == {"c1-gx-0"}


def test_flags_that_come_and_go_change_nothing_about_off() -> None:
    """Scenario 57: PLANNED, RESERVED, NOT_RESPONDING, and one of a release to come."""
    for flag in ("PLANNED", "RESERVED", "NOT_RESPONDING", "SPARKLING"):
        snapshot = world(
            node("c1-gx-0", f"IDLE+CLOUD+POWERED_DOWN+{flag}"), instance("c1-gx-0", created="-1h")
        )
        acts = passes(*repeat(snapshot, 3)).all
        assert acts.nodes(DeleteInstances) == {"c1-gx-0"}, flag


def test_a_power_down_that_waits_for_its_job_is_left_to_slurm() -> None:
    """Scenario 59: POWER_DOWN isn't POWERING_DOWN; the job runs on."""
    acts = decide(
        world(
            node("c1-gx-0", "alloc!"),
            instance("c1-gx-0"),
            job(51, "R", nodes="c1-gx-0", starts="-10m"),
        )
    )
    assert not acts.beside("reserve")


def test_a_thousand_at_most_go_in_one_call() -> None:
    acts = decide(world(pool("gx", size=1200), node("c1-gx-[0-1199]", "idle%"),
                        instance("c1-gx-[0-1199]")))  # fmt: skip
    calls = acts.of(DeleteInstances)
    assert {len(one.nodes) for one in calls} == {1000, 200}
    assert len(acts.nodes(DeleteInstances)) == 1200


def test_a_queued_request_that_nobody_wants_is_cancelled() -> None:
    snapshot = world(
        node("c1-gx-[0-1]", "idle~"),
        request("j51-1", "c1-gx-[0-1]", created="-1h"),
        request("j52-1", "c1-gx-2", created="-1h"),
        node("c1-gx-2", "alloc#"),
        job(52, nodes="c1-gx-2", starts="-1h"),
    )
    cancelled = passes(*repeat(snapshot, 2)).all.of(CancelRequest)
    assert {one.name for one in cancelled} == {"j51-1"}


def test_places_in_the_queue_are_cancelled_not_deleted() -> None:
    """Members of an ACCEPTED request can't be deleted one by one."""
    snapshot = world(
        node("c1-gx-0", "idle%"),
        request("j51-1", "c1-gx-0", created="-1h"),
        instance("c1-gx-0", None),
    )
    acts = passes(*repeat(snapshot, 2)).all
    assert not acts.of(DeleteInstances)
    assert {one.name for one in acts.of(CancelRequest)} == {"j51-1"}


class TestAPlaceIsKept:
    """While its job waits out Slurm's 120 s, or its node is static: no memory is needed."""

    waiting = (
        node("c1-gx-[0-1]", "idle~"),
        request("j51-1", "c1-gx-[0-1]", created="-6h"),
    )

    def test_while_its_job_waits_for_its_begin_time(self) -> None:
        snapshot = world(*self.waiting, job(51, reason="BeginTime", starts="+100s", size=2))
        assert not passes(*repeat(snapshot, 3, "5s")).all.of(CancelRequest)

    def test_and_vms_that_arrive_meanwhile_are_left(self) -> None:
        snapshot = world(
            *self.waiting,
            job(51, reason="BeginTime", starts="+20s", size=2),
            instance("c1-gx-[0-1]", created="-100s"),
        )
        acts = passes(*repeat(snapshot, 3, "10s")).all
        assert not acts.of(DeleteInstances)
        assert not acts.of(CancelRequest)

    def test_no_longer_than_a_minute_past_its_start(self) -> None:
        snapshot = world(*self.waiting, job(51, reason="Resources", starts="-70s", size=2))
        assert {one.name for one in passes(*repeat(snapshot, 2)).all.of(CancelRequest)} == {"j51-1"}

    def test_not_when_its_job_is_over(self) -> None:
        assert passes(*repeat(world(*self.waiting), 2)).all.of(CancelRequest)

    def test_for_a_static_node(self) -> None:
        snapshot = world(
            pool("gx", static=1),
            node("c1-gx-0", "idle~"),
            request("s0-1", "c1-gx-0", created="-6h"),
        )
        assert not passes(*repeat(snapshot, 3)).all.of(CancelRequest)

    def test_and_the_vm_of_a_static_node(self) -> None:
        snapshot = world(
            pool("gx", static=1),
            node("c1-gx-0", "idle~"),
            request("s0-1", "c1-gx-0", "SUCCEEDED", created="-6h"),
            instance("c1-gx-0", created="-100s"),
        )
        acts = passes(*repeat(snapshot, 3, "5s")).all
        assert not acts.of(DeleteInstances)
        assert acts.nodes("node_power_up") == {"c1-gx-0"}

    def test_not_for_a_static_node_that_somebody_holds(self) -> None:
        snapshot = world(
            pool("gx", static=1),
            node("c1-gx-0", "IDLE+CLOUD+DRAIN+POWERED_DOWN", reason="bad fan", user="root"),
            request("s0-1", "c1-gx-0", created="-6h"),
        )
        assert {one.name for one in passes(*repeat(snapshot, 3)).all.of(CancelRequest)} == {"s0-1"}


def test_nothing_is_deleted_on_half_a_picture() -> None:
    """Scenario 27."""
    snapshot = world(
        node("c1-gx-0", "idle%"),
        instance("c1-gx-0"),
        request("j51-1", "c1-gx-1", created="-1h"),
        half_seen("gx"),
    )
    assert not passes(*repeat(snapshot, 5)).all.changes


@pytest.mark.parametrize("owner", ["c2", ""])
def test_a_vm_without_our_label_isnt_ours_to_delete(owner: str) -> None:
    """Scenario 89: the same name, another owner."""
    snapshot = world(node("c1-gx-0", "idle%"), instance("c1-gx-0", created="-1h", cluster=owner))
    assert not passes(*repeat(snapshot, 5)).all.of(DeleteInstances)
