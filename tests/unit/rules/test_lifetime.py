"""Nobody is surprised by the clock (DESIGN: rule `lifetime`)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from slurm_flex.actions import (
    JobComment,
    JobNotify,
    JobSignal,
    JobStart,
    NodePowerDown,
    Reserve,
    Unreserve,
)
from slurm_flex.model import Job, Memory, Snapshot
from tests.builders import (
    OWN_FLAGS,
    Acts,
    Thing,
    at,
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

SUCCEEDED = request("j51-1", "c1-gx-[0-1]", "SUCCEEDED", created="-2h")


LONG = timedelta(hours=1)


def home(acts: Acts) -> set[str]:
    return {name for one in acts.of(NodePowerDown) if one.how == "asap" for name in one.nodes}


class TestTheReservation:
    up = (node("c1-gx-[0-1]", "idle"), instance("c1-gx-[0-1]", ends="+2d"), SUCCEEDED)
    made = reservation(
        "slurm-flex-j51-1", "c1-gx-[0-1]", start="+1d23h55m", end="+2d1h", flags=OWN_FLAGS
    )

    def test_is_made_in_the_first_pass_after_the_end_is_known(self) -> None:
        """Scenario 43: from the end less end_margin, for the nodes of one request together."""
        made = decide(world(*self.up)).one(Reserve)
        assert made.name == "slurm-flex-j51-1"
        assert made.nodes == ("c1-gx-0", "c1-gx-1")
        assert made.start == at("+2d") - timedelta(minutes=5)
        assert made.end == at("+2d") + timedelta(hours=1)

    def test_isnt_made_before(self) -> None:
        """Scenario 43: the clock starts when the VM does."""
        snapshot = world(
            node("c1-gx-0", "alloc#"),
            job(51, nodes="c1-gx-0"),
            request("j51-1", "c1-gx-0"),
            instance("c1-gx-0", "PROVISIONING", created="-10s", ends=None),
        )
        assert not decide(snapshot).of(Reserve)

    def test_is_left_alone_once_it_is_right(self) -> None:
        """Scenario 51: Slurm adds flags of its own."""
        assert not passes(*repeat(world(*self.up, self.made), 5)).all.of(Reserve)

    @pytest.mark.parametrize("end", ["+1d", "+3d"])
    def test_follows_an_end_that_changes(self, end: str) -> None:
        snapshot = world(
            node("c1-gx-[0-1]", "idle"), instance("c1-gx-[0-1]", ends=end), SUCCEEDED, self.made
        )
        made = decide(snapshot).one(Reserve)
        assert made.name == "slurm-flex-j51-1"
        assert made.start == at(end) - timedelta(minutes=5)

    def test_keeps_its_name_when_the_record_of_the_request_is_gone(self) -> None:
        snapshot = world(
            node("c1-gx-[0-1]", "idle"), instance("c1-gx-[0-1]", ends="+2d"), self.made
        )
        acts = passes(*repeat(snapshot, 3), memory=Memory()).all
        assert not acts.of(Reserve)
        assert not acts.of(Unreserve)

    def test_is_tried_again_while_slurm_refuses_it(self) -> None:
        """Scenario 44."""
        snapshot = world(*self.up)
        played = passes(*(later(snapshot, f"{n * 30}s") for n in range(4)))
        assert [len(acts.of(Reserve)) for acts in played] == [1, 1, 1, 1]

    def test_goes_when_its_nodes_are_off(self) -> None:
        """Scenarios 48 and 49."""
        snapshot = world(node("c1-gx-[0-1]", "idle~"), self.made)
        names = {one.name for one in passes(*repeat(snapshot, 3)).all.of(Unreserve)}
        assert names == {"slurm-flex-j51-1"}

    def test_of_a_node_that_left_is_narrowed(self) -> None:
        snapshot = world(
            node("c1-gx-0", "idle"), instance("c1-gx-0", ends="+2d"), SUCCEEDED, self.made
        )
        acts = passes(*repeat(snapshot, 2)).all
        assert {one.nodes for one in acts.of(Reserve)} in (set(), {("c1-gx-0",)})
        assert not acts.of(Unreserve)

    @pytest.mark.parametrize("name", ["slurm-flexible", "maint-slurm-flex-j51-1", "SLURM-FLEX-x"])
    def test_of_somebody_else_with_a_similar_name_stays(self, name: str) -> None:
        """Scenario 50."""
        theirs = reservation(name, "c1-gx-[0-1]", start="-1d", end="+9d")
        snapshot = world(node("c1-gx-[0-1]", "idle~"), theirs)
        assert not passes(*repeat(snapshot, 5)).all.changes

    def test_is_one_for_a_thousand_nodes_of_one_request(self) -> None:
        snapshot = world(
            pool("gx", size=1000),
            node("c1-gx-[0-999]", "idle"),
            instance("c1-gx-[0-999]", ends="+2d"),
            request("j51-1", "c1-gx-[0-999]", "SUCCEEDED", created="-2h"),
        )
        assert len(decide(snapshot).of(Reserve)) == 1

    def test_is_at_the_same_instant_in_any_time_zone(self) -> None:
        """Scenario 52."""
        seoul = timezone(timedelta(hours=9))
        end = datetime(2026, 12, 3, 21, 0, tzinfo=seoul)
        snapshot = world(node("c1-gx-0", "idle"), instance("c1-gx-0", ends=end))
        made = decide(snapshot).one(Reserve)
        assert made.start == datetime(2026, 12, 3, 11, 55, tzinfo=timezone.utc)

    def test_waits_for_a_whole_listing(self) -> None:
        assert not decide(world(*self.up, half_seen("gx"))).of(Reserve)


class TestTheWarning:
    """Scenario 45: told once, ten minutes before; a signal only where it was asked for."""

    def about_to_end(self, **about: object) -> tuple[object, ...]:
        usual: dict[str, object] = {"starts": "-1h", "ends": "+3h", "limit": "4h"}
        return (
            node("c1-gx-0", "alloc"),
            instance("c1-gx-0", created="-6d", ends="+9m30s"),
            job(51, "R", nodes="c1-gx-0", **{**usual, **about}),  # type: ignore[arg-type]
        )

    def test_is_given_once(self) -> None:
        snapshot = world(*self.about_to_end())  # type: ignore[arg-type]
        played = passes(*(later(snapshot, f"{n * 30}s") for n in range(8)))
        assert [one.job for one in played.all.of(JobNotify)] == [51]
        assert not played.all.of(JobSignal)

    def test_is_not_given_earlier(self) -> None:
        snapshot = world(
            node("c1-gx-0", "alloc"),
            instance("c1-gx-0", created="-6d", ends="+11m"),
            job(51, "R", nodes="c1-gx-0", starts="-1h", ends="+3h"),
        )
        assert not decide(snapshot).of(JobNotify)

    def test_is_not_given_to_a_job_that_ends_before(self) -> None:
        snapshot = world(*self.about_to_end(ends="+5m"))  # type: ignore[arg-type]
        assert not passes(*repeat(snapshot, 3)).all.of(JobNotify)

    def test_is_given_to_a_job_without_a_time_limit(self) -> None:
        snapshot = world(*self.about_to_end(ends=None, limit=None))  # type: ignore[arg-type]
        assert [one.job for one in decide(snapshot).of(JobNotify)] == [51]

    def test_signals_a_job_that_asked(self) -> None:
        snapshot = world(*self.about_to_end(comment="flex-signal=USR1@600"))  # type: ignore[arg-type]
        played = passes(*(later(snapshot, f"{n * 30}s") for n in range(8)))
        signals = played.all.of(JobSignal)
        assert [one.job for one in signals] == [51]
        assert signals[0].signal.removeprefix("SIG").removeprefix("B:") == "USR1"

    def test_signals_a_job_that_asked_in_extra(self) -> None:
        snapshot = world(*self.about_to_end(extra="a=b flex-signal=USR2@600"))  # type: ignore[arg-type]
        assert [one.signal for one in decide(snapshot).of(JobSignal)]

    def test_signals_at_the_time_that_the_job_asked_for(self) -> None:
        snapshot = world(*self.about_to_end(comment="flex-signal=USR1@60"))  # type: ignore[arg-type]
        assert not decide(snapshot).of(JobSignal)
        minute_before = later(snapshot, "8m45s")
        assert passes(snapshot, minute_before).last.of(JobSignal)

    def test_signals_where_the_site_says_so(self) -> None:
        snapshot = world(
            *self.about_to_end(),  # type: ignore[arg-type]
            settings={"expiry_signal": {"gx": "USR1"}},
        )
        assert [one.job for one in decide(snapshot).of(JobSignal)] == [51]

    def test_may_be_turned_off(self) -> None:
        snapshot = world(*self.about_to_end(), settings={"expiry_warning": "0s"})  # type: ignore[arg-type]
        assert not passes(*repeat(snapshot, 3)).all.of(JobNotify)


def seen(state: str, mine: Job, *more: Thing, now: str, status: str | None = "RUNNING") -> Snapshot:
    """The last minute of c1-gx-0, where the site has its jobs requeued in order."""
    vm = instance("c1-gx-0", status, created="-6d", ends="+50s") if status else ()
    settings = {"expiry_requeue": True, "max_expiries": 3}
    return world(node("c1-gx-0", state), vm, mine, *more, now=now, settings=settings)


class TestAJobThatLeavesInOrder:
    """Requeued a minute before its node ends (expiry_requeue)."""

    runs = job(51, "R", nodes="c1-gx-0", starts="-1h", ends="+3h", limit="4h")
    stops = job(51, "CG", nodes="c1-gx-0", starts="-1h", limit="4h")
    back = job(51, reason="BeginTime", starts="+2m5s", limit="4h", restarts=1)
    ours = reservation("slurm-flex-j50-1", "c1-gx-0", start="-4m10s", end="+1h", flags=OWN_FLAGS)
    sent_away = seen("alloc", runs, ours, now="now")

    def test_is_requeued_and_told_why(self) -> None:
        assert not decide(seen("alloc", self.runs, now="-3m")).kind("job_requeue")
        acts = decide(self.sent_away)
        assert [getattr(one, "job", 0) for one in acts.kind("job_requeue")] == [51]
        said = "flex: Flex-start limit reached at 12-01 12:00 UTC, restarts on a new VM"
        assert [one.text for one in acts.of(JobComment)] == [said]

    def test_starts_elsewhere_as_soon_as_slurm_has_cleaned_up_after_it(self) -> None:
        """Its slurmd answers, so COMPLETING ends when nothing of it is left there; from then on
        Slurm counts its two minutes."""
        back = replace(self.back, start_time=at("+2m25s"))
        played = passes(
            self.sent_away,
            seen("IDLE+CLOUD+COMPLETING", self.stops, self.ours, now="+15s"),
            seen("idle", back, self.ours, now="+25s"),
        )
        assert not played[1].of(JobStart)
        assert played[2].one(JobStart).after == timedelta(0)

    def test_doesnt_start_where_nothing_keeps_it_off_the_node_that_ends(self) -> None:
        played = passes(self.sent_away, seen("idle", self.back, now="+25s"))
        assert not played.last.of(JobStart)

    @pytest.mark.parametrize("status", ["RUNNING", "STOPPING"])
    @pytest.mark.parametrize("state", ["down", "down*", "down%", "idle%", "idle*"])
    def test_waits_for_its_old_vm_to_be_gone_if_the_node_ends_before_it_has_left(
        self, state: str, status: str
    ) -> None:
        """Two copies must never run: a job that traps SIGTERM lives on under a node set down."""
        ending = seen(state, self.back, self.ours, now="+1m", status=status)
        off = seen("idle~", self.back, now="+100s", status=None)
        played = passes(self.sent_away, ending, later(ending, "10s"), off)
        assert not [one for acts in played.passes[:3] for one in acts.of(JobStart)]
        assert played.last.one(JobStart).after == timedelta(0)

    def test_counts_as_cut_once_though_the_end_comes_first(self) -> None:
        """The requeue didn't get through, and the VM ends under the job."""
        ended = seen("alloc", self.runs, self.ours, now="+55s", status=None)
        assert passes(self.sent_away, ended).memory.expiries == {"51": 1}


def test_a_job_that_is_cut_in_this_pass_isnt_sent_away_as_well() -> None:
    """One of its nodes has ended, the other ends in half a minute: cut once, counted once."""

    def two(*vms: str, now: str) -> Snapshot:
        ends = {"c1-gx-0": "now", "c1-gx-1": "+40s"}
        return world(
            node("c1-gx-[0-1]", "alloc"),
            *(instance(name, created="-6d", ends=ends[name]) for name in vms),
            job(51, "R", nodes="c1-gx-[0-1]", starts="-1h", ends="+3h", limit="4h"),
            settings={"expiry_requeue": True, "expiry_grace": "35s"},
            now=now,
        )

    played = passes(two("c1-gx-0", "c1-gx-1", now="-1m"), two("c1-gx-1", now="+10s"))
    assert not played.last.kind("job_requeue")
    assert played.memory.expiries == {"51": 1}


def on_two_nodes(version: str, second_ends: str = "+50s", **job_fields: Any) -> Snapshot:
    return world(
        node("c1-gx-[0-1]", "alloc"),
        instance("c1-gx-0", created="-6d", ends="+50s"),
        instance("c1-gx-1", created="-6d", ends=second_ends),
        job(51, "R", nodes="c1-gx-[0-1]", starts="-1h", ends="+3h", limit="4h", **job_fields),
        version=version,
    )


@pytest.mark.parametrize(
    ("snapshot", "leaves"),
    [
        (on_two_nodes("22.05.8"), True),
        (on_two_nodes("22.05.8", second_ends="+1m40s"), True),
        (on_two_nodes("22.05.8", second_ends="+1h"), False),
        (on_two_nodes("22.05.8", requeue=False), False),
        (on_two_nodes("23.02.7"), False),
        (on_two_nodes("24.11.5"), False),
    ],
)
def test_an_old_slurmctld_never_sees_all_nodes_of_a_job_end_at_once(
    snapshot: Snapshot, leaves: bool
) -> None:
    """R 22.05.8: it doesn't clean up after such a job, and its GPUs stay in use for ever."""
    played = passes(*repeat(snapshot, 3), later(snapshot, "20s")).passes
    assert [len(acts.kind("job_requeue")) for acts in played] == [0, 0, int(leaves), 0]


def test_a_running_job_is_never_requeued_unless_the_site_wants_it() -> None:
    snapshot = world(
        node("c1-gx-0", "alloc"),
        instance("c1-gx-0", created="-6d", ends="+2m"),
        job(51, "R", nodes="c1-gx-0", starts="-1h", ends="+3h", limit="4h"),
    )
    assert not passes(*repeat(snapshot, 3)).all.of_kinds("job_requeue", "node_down")
