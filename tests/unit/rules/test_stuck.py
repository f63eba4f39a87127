"""Off, and not as it should be: back to idle~, and places kept (DESIGN: rule `stuck`)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from slurm_flex.actions import JobStart, MakeRequest, NodePowerDown
from slurm_flex.model import Snapshot
from tests.builders import (
    Acts,
    Thing,
    hosts,
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

TIMED_OUT = "ResumeTimeout reached"


def forced(acts: Acts) -> set[str]:
    return {name for one in acts.of(NodePowerDown) if one.how == "force" for name in one.nodes}


@pytest.mark.parametrize("reason", ["slurm-flex: capacity: no room", "slurm-flex: lost", TIMED_OUT])
def test_a_down_node_of_ours_goes_back_to_idle(reason: str) -> None:
    """Scenario 58: never DOWN for ever."""
    snapshot = world(node("c1-gx-0", "down~", reason=reason, since="-2h", user="slurm"))
    assert forced(passes(*repeat(snapshot, 3)).all) == {"c1-gx-0"}


def test_a_reason_that_slurm_appended_to_ours_is_ours() -> None:
    """From 23.02 ResumeTimeout's text is added to the reason that is there."""
    snapshot = world(
        node("c1-gx-0", "down~*", reason=f"slurm-flex: expired : {TIMED_OUT}", since="-2h")
    )
    assert forced(passes(*repeat(snapshot, 3)).all) == {"c1-gx-0"}


@pytest.mark.parametrize(
    "reason", ["bad fan", None, f"bad fan : {TIMED_OUT}", "slurm-flexible: mine"]
)
def test_what_somebody_else_downed_stays(reason: str | None) -> None:
    """Scenario 58."""
    snapshot = world(
        node("c1-gx-0", "DOWN+CLOUD+DRAIN+POWERED_DOWN", reason=reason, since="-2h", user="root")
    )
    assert not passes(*repeat(snapshot, 5)).all.changes


class TestAPlaceThatOutlivedResumeTimeout:
    """DOWN~ with a live request that is still wanted: the nodes are given back at once."""

    job_back = job(51, reason="BeginTime", starts="+90s", size=2, restarts=1)
    things: tuple[Thing, ...] = (
        node("c1-gx-[0-1]", "down~*", reason=TIMED_OUT, since="-30s", user="slurm"),
        request("j51-1", "c1-gx-[0-1]", created="-7h"),
    )

    def test_its_nodes_are_resumed_and_its_job_starts_now(self) -> None:
        acts = passes(*repeat(world(*self.things, self.job_back), 2, "5s")).all
        assert acts.nodes("node_resume") == {"c1-gx-0", "c1-gx-1"}
        assert {one.job for one in acts.of(JobStart) if one.after == timedelta(0)} == {51}
        assert not forced(acts)
        assert not acts.kind("cancel_request")
        kinds = [one.KIND for one in acts]
        assert kinds.index("node_resume") < kinds.index("job_start")

    def test_though_memory_is_lost(self) -> None:
        acts = passes(world(*self.things, self.job_back)).all
        assert acts.nodes("node_resume") == {"c1-gx-0", "c1-gx-1"}

    def test_the_request_is_adopted_when_the_job_has_its_nodes_again(self) -> None:
        again = world(
            node("c1-gx-[0-1]", "alloc#", reason=TIMED_OUT, since="-30s"),
            job(51, nodes="c1-gx-[0-1]", starts="+5s", restarts=1),
            request("j51-1", "c1-gx-[0-1]", created="-7h"),
            now="+10s",
        )
        played = passes(world(*self.things, self.job_back), again, later(again, "30s"))
        assert not played.all.of(MakeRequest)
        assert not played.all.kind("cancel_request")

    def test_a_job_that_got_other_nodes_has_its_old_request_cancelled(self) -> None:
        elsewhere = world(
            *self.things,
            node("c1-gx-[2-3]", "alloc#"),
            job(51, nodes="c1-gx-[2-3]", starts="-10s", restarts=1),
        )
        acts = passes(*repeat(elsewhere, 3)).all
        assert {getattr(one, "name", "") for one in acts.kind("cancel_request")} == {"j51-1"}
        assert {one.nodes for one in acts.of(MakeRequest)} == {("c1-gx-2", "c1-gx-3")}

    def test_nobody_wants_it_so_it_goes(self) -> None:
        acts = passes(*repeat(world(*self.things), 4)).all
        assert {getattr(one, "name", "") for one in acts.kind("cancel_request")} == {"j51-1"}
        assert forced(acts) == {"c1-gx-0", "c1-gx-1"}

    def test_a_static_node_keeps_its_place_too(self) -> None:
        snapshot = world(
            pool("gx", static=1, size=1),
            node("c1-gx-0", "down~*", reason=TIMED_OUT, since="-30s", user="slurm"),
            request("s0-1", "c1-gx-0", created="-7h"),
        )
        resumed = world(
            pool("gx", static=1, size=1),
            node("c1-gx-0", "idle~*", reason=TIMED_OUT, since="-30s", user="slurm"),
            request("s0-1", "c1-gx-0", created="-7h"),
            now="+30s",
        )
        played = passes(snapshot, resumed)
        assert not played.all.kind("cancel_request")
        assert played.all.nodes("node_resume") | played.all.nodes("node_power_up") == {"c1-gx-0"}
        assert not forced(played.all)


class TestOffAndNotResponding:
    """Schedulable all the same (R): only where a job wants it and nothing happens, force."""

    off = node("c1-gx-0", "idle~*")
    wants = job(55, needs="c1-gx-0", reason="Resources", submitted="-1h")

    def test_without_a_job_it_is_left(self) -> None:
        snapshot = world(self.off)
        assert not passes(*(later(snapshot, f"{n * 30}s") for n in range(40))).all.changes

    def test_with_a_job_it_is_cured_after_a_while(self) -> None:
        """Scenario 57: two passes beyond SuspendTimeout."""
        snapshot = world(self.off, self.wants)
        played = passes(*(later(snapshot, f"{n * 30}s") for n in range(20)))
        assert forced(played.all) == {"c1-gx-0"}

    def test_but_not_at_once(self) -> None:
        snapshot = world(self.off, self.wants)
        played = passes(*(later(snapshot, f"{n * 15}s") for n in range(4)))
        assert not played.all.changes


class TestOffAndOutOfBackfillsSight:
    """What was forced off backfill doesn't see until it is set idle (R); Slurm doesn't show it."""

    off = node("c1-gx-[0-7]", "idle~")
    parts = (
        job(51, het_job_id=51, reason="Resources", submitted="-1h"),
        job(52, het_job_id=51, size=2, reason="Resources", submitted="-1h"),
    )

    def test_a_heterogeneous_job_that_waits_beside_free_nodes_is_shown_them(self) -> None:
        """Backfill alone starts it. Not at once: Slurm may be about to place it."""
        snapshot = world(self.off, *self.parts)
        played = passes(*repeat(snapshot, 4)).passes
        assert [acts.nodes("node_idle") for acts in played] == [
            set(), set(), set(hosts("c1-gx-[0-7]")), set(),
        ]  # fmt: skip

    def test_again_after_a_while(self) -> None:
        """The command may have been lost."""
        snapshot = world(self.off, *self.parts)
        played = passes(*repeat(snapshot, 3), later(snapshot, "11m"))
        assert [len(acts.kind("node_idle")) for acts in played.passes] == [0, 0, 1, 1]

    def test_and_at_once_when_they_have_been_used_meanwhile(self) -> None:
        snapshot = world(self.off, *self.parts)
        used = world(node("c1-gx-[0-7]", "alloc#"), job(51, nodes="c1-gx-[0-7]"), now="+1m")
        again = (later(snapshot, f"{n}m") for n in (2, 3, 4))
        played = passes(*repeat(snapshot, 3), used, *again).passes
        assert [len(acts.kind("node_idle")) for acts in played] == [0, 0, 1, 0, 0, 0, 1]

    @pytest.mark.parametrize(
        "waiting",
        [
            job(51, size=9, reason="Resources", submitted="-1h"),
            job(51, reason="BeginTime", submitted="-1h", starts="+1h"),
            job(51, reason="Dependency", submitted="-1h"),
            job(51, partition="other", reason="Resources", submitted="-1h"),
            job(51, "R", nodes="c1-gx-9", starts="-1h"),
        ],
    )
    def test_who_waits_for_something_else_isnt(self, waiting: Thing) -> None:
        played = passes(*repeat(world(self.off, waiting), 5))
        assert not played.all.kind("node_idle")

    @pytest.mark.parametrize("state", ["down~", "drain~", "idle~*", "idle%", "idle#", "alloc~"])
    def test_only_what_is_off_and_idle_is_set_idle(self, state: str) -> None:
        odd = node("c1-gx-0", state, reason="bad fan", since="-2h", user="root")
        snapshot = world(odd, node("c1-gx-[1-7]", "idle~"), *self.parts)
        played = passes(*repeat(snapshot, 5)).all
        assert played.nodes("node_idle") == set(hosts("c1-gx-[1-7]"))


def test_a_job_that_got_its_nodes_isnt_restarted() -> None:
    snapshot: Snapshot = world(
        node("c1-gx-0", "alloc"),
        instance("c1-gx-0"),
        job(51, "R", nodes="c1-gx-0", starts="-1m"),
        request("j51-1", "c1-gx-0", "SUCCEEDED", created="-1h"),
    )
    assert not passes(*repeat(snapshot, 3)).all.of(JobStart)
