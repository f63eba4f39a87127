"""The journal: what happened, once, under Google's own names (facts: cluster-json.md)."""

from __future__ import annotations

import pytest

from slurm_flex.actions import Event, MakeRequest
from slurm_flex.model import Memory, Snapshot
from tests.builders import (
    Acts,
    InPool,
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

NODES = ("c1-gx-0", "c1-gx-1")


def kinds(acts: Acts) -> list[str]:
    return [one.event for one in acts.of(Event)]


def asked(*listed: InPool) -> Snapshot:
    return world(node("c1-gx-[0-1]", "alloc#"), job(51, nodes="c1-gx-[0-1]"), *listed)


def listed(state: str, **about: object) -> Snapshot:
    return asked(request("j51-1", "c1-gx-[0-1]", state, created="-1s", **about))  # type: ignore[arg-type]


class TestARequest:
    def test_is_created_when_a_list_shows_it_and_accepted_when_it_queues(self) -> None:
        played = passes(
            asked(),
            later(asked(), "5s"),
            later(listed("CREATING"), "10s"),
            later(listed("CREATING"), "15s"),
            later(listed("ACCEPTED"), "20s"),
            later(listed("ACCEPTED"), "50s"),
        )
        assert played[0].one(MakeRequest).name == "j51-1"
        assert [kinds(acts) for acts in played] == [
            [],
            [],
            ["REQUEST_CREATED"],
            [],
            ["REQUEST_ACCEPTED"],
            [],
        ]
        for told in played.all.of(Event):
            assert (told.nodes, told.job, told.pool) == (NODES, 51, "gx")
            assert told.text.startswith("j51-1: 2 nodes")

    @pytest.mark.parametrize("state", ["ACCEPTED", "SUCCEEDED"])
    def test_that_is_quick_is_told_of_whole(self, state: str) -> None:
        played = passes(asked(), *repeat(later(listed(state), "60s"), 2))
        assert kinds(played[1]) == ["REQUEST_CREATED", "REQUEST_ACCEPTED"]
        assert not kinds(played[2])

    def test_that_fails_at_once_was_never_accepted(self) -> None:
        failed = listed("FAILED", error=("IP_SPACE_EXHAUSTED", "no addresses"))
        played = passes(asked(), *repeat(later(failed, "60s"), 3))
        assert sorted(kinds(played[1])) == ["REQUEST_CREATED", "REQUEST_FAILED"]
        told = next(one for one in played[1].of(Event) if one.event == "REQUEST_FAILED")
        assert (told.nodes, told.job) == (NODES, 51)
        assert not kinds(played[2])

    def test_that_fails_when_nobody_waits_any_more_is_told_of(self) -> None:
        played = passes(
            *repeat(world(request("j51-1", "c1-gx-0", "FAILED", error=("X", "no room"))), 3)
        )
        assert kinds(played.all) == ["REQUEST_FAILED"]

    def test_that_a_list_hides_for_a_while_is_told_of_once(self) -> None:
        seen = listed("ACCEPTED")
        played = passes(asked(), later(seen, "5s"), later(asked(), "10s"), later(seen, "15s"))
        assert kinds(played.all) == ["REQUEST_CREATED", "REQUEST_ACCEPTED"]

    def test_is_not_told_of_again_when_memory_is_lost(self) -> None:
        assert not kinds(passes(*repeat(listed("ACCEPTED"), 3), memory=Memory()).all)

    def test_that_we_cancel_is_told_of_once_with_its_nodes_and_its_job(self) -> None:
        gone = (request("j51-1", "c1-gx-0", "ACCEPTED"), node("c1-gx-0", "idle~"))
        over = world(request("j51-1", "c1-gx-0", "CANCELLED"))
        played = passes(world(*gone), later(world(*gone), "30s"), later(over, "60s"))
        (told,) = played.all.of(Event)
        assert (told.event, told.nodes, told.job) == ("REQUEST_CANCELLED", ("c1-gx-0",), 51)

    def test_that_somebody_else_cancels_is_no_failure(self) -> None:
        played = passes(asked(), *repeat(later(listed("CANCELLED"), "60s"), 2))
        assert sorted(kinds(played.all)) == ["REQUEST_CANCELLED", "REQUEST_CREATED"]


@pytest.mark.parametrize(
    ("state", "reason", "kind", "text"),
    [
        ("drain", "slurm-flex: health: xid: 79", "VM_SLURM_DRAIN", "slurm-flex: health: xid: 79"),
        ("drng", "bad fan", "VM_SLURM_DRAIN", "bad fan"),
        ("idle^", None, "VM_REBOOT", "a reboot was asked for"),
        ("idle%", None, "VM_SLURM_POWER_DOWN", "idle"),
    ],
)
def test_what_becomes_of_a_node_is_told_once(
    state: str, reason: str | None, kind: str, text: str
) -> None:
    seen = world(
        pool("gx", size=2),
        node("c1-gx-[0-1]", state, reason=reason, since="-1m"),
        instance("c1-gx-[0-1]"),
    )
    played = passes(*repeat(seen, 3))
    (told,) = [one for one in played.all.of(Event) if one.event == kind]
    assert (told.nodes, told.text) == (NODES, text)


CHECKED = "slurm-flex:health: gpu-count: 7 of 8 GPUs answer"
FAILED = {
    f"{CHECKED} (prolog; also xid)": "VM_PROLOG_ERROR",
    f"{CHECKED} (epilog)": "VM_EPILOG_ERROR",
    f"{CHECKED} (periodic)": "VM_CONTINUOUS_GPU_ERROR",
    "slurm-flex:health: disk: / is 97 % full (periodic)": "VM_SCAN_ERROR",
    "Prolog error": "VM_PROLOG_ERROR",
    "Epilog error": "VM_EPILOG_ERROR",
}


def failed_checks(acts: Acts) -> list[Event]:
    return [one for one in acts.of(Event) if one.event in FAILED.values()]


@pytest.mark.parametrize(("reason", "kind"), FAILED.items())
@pytest.mark.parametrize("state", ["drain", "drng"])
def test_a_failed_check_is_told_once_a_drain(state: str, reason: str, kind: str) -> None:
    """Also when the node is out of sight for a pass; a drain later on is another."""
    vm = instance("c1-gx-[0-1]")
    two = pool("gx", size=2)
    ill = world(two, node("c1-gx-[0-1]", state, reason=reason, since="-1m"), vm)
    hidden = world(two, node("c1-gx-[0-1]", "FUTURE+CLOUD"), vm)
    anew = world(two, node("c1-gx-[0-1]", state, reason=reason, since="+50s"), vm, now="+1m")
    played = passes(ill, later(ill, "10s"), later(hidden, "20s"), later(ill, "30s"), anew)
    assert [len(failed_checks(acts)) for acts in played] == [1, 0, 0, 0, 1]
    told = failed_checks(played[0])[0]
    assert (told.event, told.nodes, told.text) == (kind, NODES, reason)


@pytest.mark.parametrize("reason", ["bad fan", "Kill task failed", "slurm-flex: lost", None])
def test_a_drain_for_another_reason_is_no_failed_check(reason: str | None) -> None:
    seen = world(node("c1-gx-0", "drain", reason=reason, since="-1m"), instance("c1-gx-0"))
    assert not failed_checks(passes(seen).all)


def test_a_drain_of_a_moment_before_a_release_is_no_news() -> None:
    seen = world(node("c1-gx-0", "drain", reason="slurm-flex: release: j51-1"), instance("c1-gx-0"))
    assert "VM_SLURM_DRAIN" not in kinds(passes(seen).all)


def test_a_resume_timeout_is_told_whatever_follows() -> None:
    """With a live request the place is kept, without one the node goes back to idle."""
    down = node("c1-gx-0", "down~", reason="ResumeTimeout reached", since="-10s")
    for more in ((), (request("s0-1", "c1-gx-0"),)):
        seen = world(pool("gx", static=1), down, *more)
        assert kinds(passes(*repeat(seen, 2)).all).count("RESUME_TIMEOUT") == 1
