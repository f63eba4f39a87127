"""Ours, and of no node any more (DESIGN: rule `orphans`)."""

from __future__ import annotations

import pytest

from slurm_flex.actions import CancelRequest, DeleteInstances, Event, Unreserve
from tests.builders import (
    OWN_FLAGS,
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
    reservation,
    world,
)


def test_a_vm_of_no_node_is_deleted_after_its_grace_and_two_passes() -> None:
    """Scenario 38."""
    old = world(instance("c1-gx-99", created="-10m", pool="gx"))
    played = passes(*repeat(old, 3))
    assert not played[0].of(DeleteInstances)
    assert played.all.nodes(DeleteInstances) == {"c1-gx-99"}


def test_a_young_one_is_waited_for() -> None:
    """Scenario 38: age 10 s."""
    young = world(instance("c1-gx-99", created="-10s", pool="gx"))
    assert not passes(*repeat(young, 3, "5s")).all.changes


@pytest.mark.parametrize("owner", ["c2", ""])
@pytest.mark.parametrize("name", ["c1-gx-99", "visitor-1", "c2-gx-0"])
def test_one_that_isnt_labelled_ours_is_never_deleted(owner: str, name: str) -> None:
    """Scenarios 38 and 89."""
    theirs = world(instance(name, created="-9d", pool="gx", cluster=owner))
    assert not passes(*(later(theirs, f"{n * 60}s") for n in range(10))).all.changes


@pytest.mark.parametrize("name", ["C1-GX-0", "c1-gx-00", "c1-gx-0.c.p1.internal"])
def test_only_the_exact_short_name_is_a_nodes(name: str) -> None:
    """Scenario 89: an FQDN, another case, zero padding. Reported, not taken for the node."""
    snapshot = world(node("c1-gx-0", "idle~"), instance(name, created="-9d", pool="gx", cluster=""))
    assert not passes(*repeat(snapshot, 4)).all.changes


def test_a_request_of_nodes_that_arent_there_any_more_is_cancelled() -> None:
    snapshot = world(pool("gx", size=2), request("j51-1", "c1-gx-[7-8]", created="-1h", pool="gx"))
    cancelled = passes(*repeat(snapshot, 4)).all.of(CancelRequest)
    assert {one.name for one in cancelled} == {"j51-1"}


def test_a_request_of_somebody_else_is_left() -> None:
    snapshot = world(request("training-run", "visitor-[1-3]", created="-9d", pool="gx"))
    assert not passes(*repeat(snapshot, 5)).all.changes


def test_a_reservation_of_ours_for_no_node_is_deleted() -> None:
    """Scenario 49."""
    left = reservation("slurm-flex-j7-1", "c1-gx-[7-8]", start="+1d", end="+2d", flags=OWN_FLAGS)
    snapshot = world(pool("gx", size=9), left)
    assert {one.name for one in passes(*repeat(snapshot, 4)).all.of(Unreserve)} == {
        "slurm-flex-j7-1"
    }


class TestANodeNoLongerInTheFile:
    """Still in Slurm's list: it is drained and leaves when idle."""

    def test_is_drained_not_deleted_under_its_job(self) -> None:
        snapshot = world(
            pool("gx", size=1),
            node("c1-gx-5", "alloc"),
            instance("c1-gx-5", created="-5h", pool="gx"),
            job(51, "R", nodes="c1-gx-5", starts="-1h", ends="+1h"),
        )
        acts = passes(*repeat(snapshot, 5)).all
        assert acts.nodes("node_drain") == {"c1-gx-5"}
        assert not acts.of(DeleteInstances)

    def test_leaves_when_idle(self) -> None:
        reason = "slurm-flex: no longer in the cluster file"
        drained = world(
            pool("gx", size=1),
            node("c1-gx-5", "drain", reason=reason, since="-5m"),
            instance("c1-gx-5", created="-5h", pool="gx"),
        )
        acts = passes(*repeat(drained, 4)).all
        assert "c1-gx-5" in acts.nodes("node_power_down") | acts.nodes("delete_instances")


def test_two_vms_for_one_node_are_one_too_many() -> None:
    """Scenario 37, as two groups may show it: the one that Slurm knows is kept."""
    snapshot = world(
        pool("gx", size=1),
        pool("gy", size=1),
        node("c1-gx-0", "idle", instance_id="11"),
        instance("c1-gx-0", created="-5h", number="11", pool="gx"),
        instance("c1-gx-0", created="-1h", number="22", pool="gy"),
    )
    acts = passes(*repeat(snapshot, 4)).all
    assert {(one.pool, one.nodes) for one in acts.of(DeleteInstances)} == {("gy", ("c1-gx-0",))}


def test_nothing_is_an_orphan_on_half_a_picture() -> None:
    snapshot = world(
        instance("c1-gx-99", created="-10m", pool="gx"),
        request("j51-1", "c1-gx-[70-71]", created="-1h", pool="gx"),
        half_seen("gx"),
    )
    assert not passes(*repeat(snapshot, 6)).all.changes


def test_a_vm_of_a_node_that_slurm_forgot_is_left() -> None:
    """Missing from Slurm's list is unknown, not deleted (some releases lose CLOUD nodes)."""
    snapshot = world(instance("c1-gx-0", created="-5h"), fill=False)
    assert not passes(*repeat(snapshot, 6)).all.of_kinds("delete_instances", "node_down")


def test_nothing_of_ours_is_left_to_delete_in_a_quiet_world() -> None:
    assert not decide(world()).changes


@pytest.mark.parametrize(
    "name", ["C1-GX-0", "c1-gx-00", "c1-gx-0.us-central1-a.c.p1.internal", "visitor-2", "c1-gx-"]
)
def test_our_label_on_a_name_that_we_never_give_is_reported_and_left(name: str) -> None:
    """Scenario 89: the template labels what somebody else asks of our group, too."""
    snapshot = world(instance(name, created="-5h", pool="gx"))
    acts = passes(*repeat(snapshot, 4)).all
    assert not acts.of(DeleteInstances)
    assert [one.event for one in acts.of(Event)] == ["FOREIGN_VM"]
