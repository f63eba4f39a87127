"""Jobs whose VMs ended under them (DESIGN: rule `ended`)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from slurm_flex.actions import (
    JobComment,
    JobHold,
    JobStart,
    MakeRequest,
    NodeDown,
    NodePowerDown,
)
from slurm_flex.model import Snapshot
from tests.builders import (
    OWN_FLAGS,
    Thing,
    decide,
    instance,
    job,
    later,
    node,
    passes,
    request,
    reservation,
    world,
)

EXPIRED = "slurm-flex: expired"


LOST = "slurm-flex: lost"


def ends_at_noon(*more: Thing, state: str = "idle", **about: object) -> Snapshot:
    """Half a minute before: the VM of c1-gx-0 still runs; its end is at noon."""
    return world(
        node("c1-gx-0", state),
        instance("c1-gx-0", created="-7d", ends="now"),
        *more,
        now="-30s",
        **about,  # type: ignore[arg-type]
    )


def test_a_request_that_no_list_shows_is_not_sent_again_for_a_job_that_is_cut() -> None:
    """One of its nodes is up and loses its VM while the other waits for one."""
    mine = job(51, nodes="c1-gx-[0-1]", starts="-10m")
    nodes = (node("c1-gx-0", "alloc"), node("c1-gx-1", "alloc#"))
    there = world(*nodes, mine, instance("c1-gx-0"), now="-2m30s")
    gone = world(*nodes, mine)
    played = passes(there, world(*nodes, mine, now="-35s"), gone)
    assert [one.nodes for one in played[0].of(MakeRequest)] == [("c1-gx-1",)]
    assert played[2].nodes(NodeDown) == {"c1-gx-0"}
    assert not played[2].of(MakeRequest)


class TestAJobThatExpiredWithItsNode:
    """Scenario 72: requeued without Slurm's 120 s, once nothing of the old VM is left."""

    before = ends_at_noon(job(51, "R", nodes="c1-gx-0", starts="-6d"), state="alloc")
    at_the_end = world(
        node("c1-gx-0", "alloc"), job(51, "R", nodes="c1-gx-0", starts="-6d"), now="+10s"
    )
    requeued = job(51, reason="BeginTime", starts="+2m10s", restarts=1)
    leaving = world(node("c1-gx-0", "down%", reason=EXPIRED, since="+10s"), requeued, now="+40s")
    off = world(node("c1-gx-0", "idle~", reason=EXPIRED, since="+10s"), requeued, now="+75s")

    def test_it_starts_now_once_its_node_is_off(self) -> None:
        played = passes(self.before, self.at_the_end, self.leaving, self.off)
        assert played[1].nodes(NodeDown) == {"c1-gx-0"}
        assert not played[2].of(JobStart)
        start = played[3].one(JobStart)
        assert (start.job, start.after) == (51, timedelta(0))

    def test_it_starts_once_only(self) -> None:
        played = passes(self.before, self.at_the_end, self.leaving, self.off, later(self.off, "5s"))
        assert len(played.all.of(JobStart)) <= 2
        placed = world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0", restarts=1), now="+80s")
        after = passes(placed, memory=played.memory).last
        assert not after.of(JobStart)
        assert [one.nodes for one in after.of(MakeRequest)] == [("c1-gx-0",)]

    def test_not_while_its_old_vm_is_stopping(self) -> None:
        """Two copies of a job must never run."""
        stopping = instance("c1-gx-0", "STOPPING", created="-7d", ends="now")
        at_the_end = world(
            node("c1-gx-0", "alloc"),
            job(51, "R", nodes="c1-gx-0", starts="-6d"),
            stopping,
            now="+10s",
        )
        off = world(
            node("c1-gx-0", "idle~", reason=EXPIRED, since="+10s"),
            self.requeued,
            stopping,
            now="+75s",
        )
        played = passes(self.before, at_the_end, off, later(off, "10s"))
        assert played[1].nodes(NodeDown) == {"c1-gx-0"}
        assert not played.all.of(JobStart)

    def test_not_while_a_list_that_lags_still_shows_it_stopping(self) -> None:
        stopping = world(
            node("c1-gx-0", "idle~", reason=EXPIRED, since="+10s"),
            self.requeued,
            instance("c1-gx-0", "STOPPING", created="-7d", ends="now"),
            now="+75s",
        )
        played = passes(self.before, self.at_the_end, self.leaving, stopping)
        assert not played.all.of(JobStart)

    def test_a_terminated_vm_is_dead_enough(self) -> None:
        terminated = world(
            node("c1-gx-0", "idle~", reason=EXPIRED, since="+10s"),
            self.requeued,
            instance("c1-gx-0", "TERMINATED", created="-7d", ends="now"),
            now="+75s",
        )
        played = passes(self.before, self.at_the_end, self.leaving, terminated)
        assert played.last.one(JobStart).job == 51

    def test_a_later_start_is_the_users_and_stays(self) -> None:
        users = job(51, reason="BeginTime", starts="+3h", restarts=1)
        off = world(node("c1-gx-0", "idle~", reason=EXPIRED, since="+10s"), users, now="+75s")
        assert not passes(self.before, self.at_the_end, off).all.of(JobStart)

    def test_not_before_all_of_its_nodes_are_off(self) -> None:
        both = "c1-gx-[0-1]"
        before = world(
            node(both, "alloc"),
            instance(both, created="-7d", ends="now"),
            job(51, "R", nodes=both, starts="-6d"),
            now="-30s",
        )
        ended = world(node(both, "alloc"), job(51, "R", nodes=both, starts="-6d"), now="+10s")
        half = world(
            node("c1-gx-0", "idle~", reason=EXPIRED, since="+10s"),
            node("c1-gx-1", "down%", reason=EXPIRED, since="+10s"),
            job(51, reason="BeginTime", starts="+2m10s", size=2, restarts=1),
            now="+75s",
        )
        assert not passes(before, ended, half).all.of(JobStart)


class TestTheWordsToAJobThatIsCut:
    """They come before its node goes down: the process may die, or lose its memory, in between."""

    said = "flex: Flex-start limit reached at 12-01 12:00 UTC, restarts on a new VM"
    ours = reservation("slurm-flex-j51-1", "c1-gx-0", start="-5m", end="+1h", flags=OWN_FLAGS)
    before = ends_at_noon(job(51, "R", nodes="c1-gx-0", starts="-6d"), ours, state="alloc")

    def ended(self, comment: str | None, *, now: str, status: str | None = None) -> Snapshot:
        run = job(51, "R", nodes="c1-gx-0", starts="-6d", admin_comment=comment)
        vm = instance("c1-gx-0", status, created="-7d", ends="now") if status else ()
        return world(node("c1-gx-0", "alloc"), vm, run, self.ours, now=now)

    def test_tell_when_its_node_ended(self) -> None:
        acts = passes(self.before, self.ended(None, now="+70s")).last
        assert acts.one(JobComment).text == self.said

    @pytest.mark.parametrize("status", [None, "STOPPING", "TERMINATED"])
    def test_are_not_repeated_with_another_minute_though_memory_is_lost(
        self, status: str | None
    ) -> None:
        acts = decide(self.ended(self.said, now="+70s", status=status))
        assert acts.nodes(NodeDown) == {"c1-gx-0"}
        assert not acts.of(JobComment)

    def test_are_said_again_if_they_were_never_heard(self) -> None:
        """What a pass means to do is remembered before it is done."""
        played = passes(self.before, self.ended(None, now="+10s"), self.ended(None, now="+70s"))
        assert [one.text for one in played[1].of(JobComment)] == [self.said]
        assert [one.text for one in played[2].of(JobComment)] == [self.said]

    def test_are_repeated_in_another_life(self) -> None:
        run = job(51, "R", nodes="c1-gx-0", starts="-6d", admin_comment=self.said, restarts=1)
        later_end = world(
            node("c1-gx-0", "alloc"),
            instance("c1-gx-0", "STOPPING", created="-5d", ends="+2d"),
            run,
            now="+2d10s",
        )
        assert "at 12-03 12:00 UTC" in decide(later_end).one(JobComment).text


def test_a_hold_that_didnt_get_through_is_repeated_until_slurm_shows_it() -> None:
    """Cut too often: what was remembered of it must not end with the attempt."""
    cls = TestAJobThatExpiredWithItsNode

    def seen(snapshot: Snapshot, **fields: object) -> Snapshot:
        jobs = tuple(replace(one, time_limit=None, **fields) for one in snapshot.slurm.jobs)  # type: ignore[arg-type]
        settings = snapshot.settings.model_copy(update={"max_expiries": 1})
        return replace(snapshot, slurm=replace(snapshot.slurm, jobs=jobs), settings=settings)

    off = seen(cls.off)
    told = seen(cls.off, admin_comment="flex: held: cut 1 times by the end of its node; it needs "
                "checkpoints or a shorter --time")  # fmt: skip
    held = seen(cls.off, reason="JobHeldAdmin")
    theirs = seen(cls.off, admin_comment="budget 42")
    played = passes(
        seen(cls.before), seen(cls.at_the_end), off, later(told, "5s"), later(held, "10s"),
        later(off, "15s"),
    ).passes  # fmt: skip
    assert [len(acts.of(JobHold)) for acts in played] == [0, 0, 1, 1, 0, 0]
    assert [len(acts.of(JobComment)) for acts in played[2:4]] == [1, 0]
    acts = passes(seen(cls.before), seen(cls.at_the_end), theirs).last
    assert acts.of(JobHold)
    assert not acts.of(JobComment)


def test_a_job_whose_vm_was_lost_waits_out_slurms_penalty() -> None:
    """The 120 s are lifted after an expiry only: they are right after a failure."""
    run = job(51, "R", nodes="c1-gx-0", starts="-1h")
    before = world(node("c1-gx-0", "alloc"), instance("c1-gx-0"), run)
    gone = world(node("c1-gx-0", "alloc"), run, now="+30s")
    requeued = job(51, reason="BeginTime", starts="+3m", restarts=1)
    off = world(node("c1-gx-0", "idle~", reason=LOST, since="+1m"), requeued, now="+2m10s")
    played = passes(before, gone, later(gone, "30s"), off, later(off, "20s"))
    assert not [one for one in played.all.of(JobStart) if one.after == timedelta(0)]


def test_the_components_of_a_heterogeneous_job_go_back_together() -> None:
    """One loses its VM while the other still queues: Slurm requeues that component alone (R)."""
    components = (
        job(60, nodes="c1-gx-0", het_job_id=60, starts="-10m"),
        job(61, nodes="c1-gx-[1-2]", het_job_id=60, starts="-10m"),
    )
    rest = (
        node("c1-gx-[1-2]", "alloc#"),
        request("j60-1", "c1-gx-[1-2]", created="-10m"),
    )
    before = world(node("c1-gx-0", "alloc"), instance("c1-gx-0"), *rest, *components)
    gone = world(node("c1-gx-0", "alloc"), *rest, *components, now="+30s")
    requeued = world(
        node("c1-gx-0", "down%", reason=LOST, since="+1m"),
        *rest,
        job(60, reason="BeginTime", het_job_id=60, starts="+3m", restarts=1),
        components[1],
        now="+90s",
    )
    played = passes(before, gone, later(gone, "30s"), requeued, later(requeued, "30s"))
    assert played[2].nodes(NodeDown) >= {"c1-gx-0"}
    back = {getattr(one, "job", 0) for one in played.all.kind("job_requeue")}
    released = played.all.nodes(NodeDown) | played.all.nodes(NodePowerDown)
    assert 61 in back or {"c1-gx-1", "c1-gx-2"} <= released


def test_a_node_that_another_job_waits_for_is_asked_for_once_slurm_resumes_it() -> None:
    """Scenario 73: no request for a job that is merely pending; one when Slurm powers it up."""
    waits = job(60, needs="c1-gx-0", submitted="-1h")
    reason = {"reason": EXPIRED, "since": "+10s"}
    played = passes(
        ends_at_noon(waits),
        world(node("c1-gx-0", "idle"), waits, now="+10s"),
        world(node("c1-gx-0", "down%", **reason), waits, now="+40s"),
        world(node("c1-gx-0", "idle~", **reason), waits, now="+75s"),
        world(
            node("c1-gx-0", "alloc#", **reason),
            job(60, nodes="c1-gx-0", needs="c1-gx-0", starts="+78s"),
            now="+80s",
        ),
    )
    assert not [one for acts in played.passes[:4] for one in acts.of(MakeRequest)]
    assert not [one for acts in played.passes[2:] for one in acts.of(NodeDown)]
    made = played[4].one(MakeRequest)
    assert (made.nodes, made.job) == (("c1-gx-0",), 60)
