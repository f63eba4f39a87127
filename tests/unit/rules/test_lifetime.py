"""Nobody is surprised by the clock (DESIGN: rule `lifetime`)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from slurm_flex.actions import JobNotify, JobSignal, NodePowerDown, Reserve, Unreserve
from slurm_flex.model import Memory
from tests.builders import (
    OWN_FLAGS,
    Acts,
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


class TestLittleLifeLeft:
    """Scenario 46: an idle node goes home early, so that no new job slips in."""

    def test_an_idle_dynamic_node_goes_home(self) -> None:
        snapshot = world(node("c1-gx-0", "idle"), instance("c1-gx-0", created="-6d", ends="+14m"))
        assert home(passes(*repeat(snapshot, 2, "5s")).all) == {"c1-gx-0"}

    def test_a_node_with_enough_life_stays(self) -> None:
        snapshot = world(node("c1-gx-0", "idle"), instance("c1-gx-0", created="-6d", ends="+16m"))
        assert not home(passes(*repeat(snapshot, 2, "5s")).all)

    def test_a_quarter_of_a_short_life_is_little_enough(self) -> None:
        """A 20-minute VM isn't used up when it is five minutes old."""
        things = (pool("gx", duration="20m"), node("c1-gx-0", "idle"))
        fresh = world(*things, instance("c1-gx-0", created="-6m", ends="+14m"))
        old = world(*things, instance("c1-gx-0", created="-16m", ends="+4m"))
        assert not home(decide(fresh))
        assert home(decide(old)) == {"c1-gx-0"}

    @pytest.mark.parametrize("state", ["alloc", "mix", "IDLE+CLOUD+COMPLETING"])
    def test_a_busy_node_stays(self, state: str) -> None:
        snapshot = world(
            node("c1-gx-0", state),
            instance("c1-gx-0", created="-6d", ends="+14m"),
            job(51, "R", nodes="c1-gx-0", starts="-1h", ends="+5m"),
        )
        assert not home(passes(*repeat(snapshot, 2, "5s")).all)

    def test_a_static_node_stays(self) -> None:
        snapshot = world(
            pool("gx", static=1),
            node("c1-gx-0", "idle"),
            instance("c1-gx-0", created="-6d", ends="+14m"),
        )
        assert not home(passes(*repeat(snapshot, 2, "5s")).all)

    def test_a_static_node_is_renewed_early_where_the_site_wants_it(self) -> None:
        snapshot = world(
            pool("gx", static=1),
            node("c1-gx-0", "idle"),
            instance("c1-gx-0", created="-6d", ends="+14m"),
            settings={"refresh_static": True},
        )
        assert home(passes(*repeat(snapshot, 2, "5s")).all) == {"c1-gx-0"}

    @pytest.mark.parametrize(
        "excluded",
        [
            {"suspend_exc_nodes": "c1-gx-[0-3]"},
            {"suspend_exc_nodes": "c1-gx-0"},
            {"suspend_exc_parts": "other,gx"},
            {"suspend_exc_states": "IDLE"},
        ],
    )
    def test_what_slurm_may_not_suspend_stays(self, excluded: dict[str, str]) -> None:
        """Scenario 60."""
        snapshot = world(
            node("c1-gx-0", "idle"),
            instance("c1-gx-0", created="-6d", ends="+14m"),
            config=excluded,
        )
        assert not home(passes(*repeat(snapshot, 2, "5s")).all)

    @pytest.mark.parametrize("nothing", ["(null)", "", None])
    def test_an_empty_list_excludes_nothing(self, nothing: str | None) -> None:
        """Scenario 60: "(null)"."""
        snapshot = world(
            node("c1-gx-0", "idle"),
            instance("c1-gx-0", created="-6d", ends="+14m"),
            config={"suspend_exc_nodes": nothing, "suspend_exc_parts": nothing},
        )
        assert home(passes(*repeat(snapshot, 2, "5s")).all) == {"c1-gx-0"}


class TestRenewalOnDemand:
    """A pending job that fits only a fresh node, and no node is off (issue: end of life, 7)."""

    def full(self, *more: object, **about: object) -> tuple[object, ...]:
        return (
            pool("gx", size=2, static=2),
            node("c1-gx-[0-1]", "idle"),
            instance("c1-gx-0", created="-6d", ends="+20h"),
            instance("c1-gx-1", created="-6d", ends="+10h"),
            *more,
        )

    reason = "ReqNodeNotAvail, May be reserved for other job"

    def test_as_many_nodes_as_it_needs_those_with_the_least_life_first(self) -> None:
        long = job(60, reason=self.reason, limit="1d", submitted="-10m")
        snapshot = world(*self.full(long))  # type: ignore[arg-type]
        assert home(passes(*repeat(snapshot, 3)).all) == {"c1-gx-1"}

    def test_once_a_job(self) -> None:
        long = job(60, reason=self.reason, limit="1d", submitted="-10m")
        snapshot = world(*self.full(long))  # type: ignore[arg-type]
        played = passes(*(later(snapshot, f"{n * 30}s") for n in range(120)))
        assert home(played.all) <= {"c1-gx-1"}
        assert len(played.all.of(NodePowerDown)) <= 2

    @pytest.mark.parametrize(
        "reason",
        [
            "JobHeldUser",
            "JobHeldAdmin",
            "Dependency",
            "BeginTime",
            "AssocGrpGRES",
            "QOSMaxJobsPerUserLimit",
            "Licenses",
            "BadConstraints",
            "Reservation",
        ],
    )
    def test_not_for_a_job_that_waits_for_another_reason(self, reason: str) -> None:
        other = job(60, reason=reason, limit="1d", submitted="-10m", starts="+1h")
        snapshot = world(*self.full(other))  # type: ignore[arg-type]
        assert not home(passes(*repeat(snapshot, 4)).all)

    def test_not_for_a_job_that_fits(self) -> None:
        short = job(60, reason="Resources", limit="1h", submitted="-10m")
        snapshot = world(*self.full(short))  # type: ignore[arg-type]
        assert not home(passes(*repeat(snapshot, 4)).all)

    def test_not_for_a_job_that_no_fresh_node_would_fit(self) -> None:
        endless = job(60, reason=self.reason, limit="9d", submitted="-10m")
        snapshot = world(*self.full(endless))  # type: ignore[arg-type]
        assert not home(passes(*repeat(snapshot, 4)).all)

    def test_not_while_a_node_is_off(self) -> None:
        long = job(60, reason=self.reason, limit="1d", submitted="-10m")
        snapshot = world(
            pool("gx", size=3),
            node("c1-gx-[0-1]", "idle"),
            node("c1-gx-2", "idle~"),
            instance("c1-gx-[0-1]", created="-6d", ends="+10h"),
            long,
        )
        assert not home(passes(*repeat(snapshot, 4)).all)

    def test_never_a_node_that_runs_something(self) -> None:
        long = job(60, reason=self.reason, limit="1d", submitted="-10m")
        snapshot = world(
            pool("gx", size=1, static=1),
            node("c1-gx-0", "mix"),
            instance("c1-gx-0", created="-6d", ends="+10h"),
            job(50, "R", nodes="c1-gx-0", starts="-1h", ends="+1h", exclusive=False),
            long,
        )
        assert not home(passes(*repeat(snapshot, 4)).all)

    def test_not_where_the_site_doesnt_want_it(self) -> None:
        long = job(60, reason=self.reason, limit="1d", submitted="-10m")
        snapshot = world(
            *self.full(long),  # type: ignore[arg-type]
            settings={"renew_on_demand": False},
        )
        assert not home(passes(*repeat(snapshot, 4)).all)


def test_with_expiry_requeue_jobs_leave_in_order() -> None:
    def snapshot(ends: str) -> object:
        return world(
            node("c1-gx-0", "alloc"),
            instance("c1-gx-0", created="-6d", ends=ends),
            job(51, "R", nodes="c1-gx-0", starts="-1h", ends="+3h", limit="4h"),
            settings={"expiry_requeue": True},
        )

    assert not decide(snapshot("+3m")).kind("job_requeue")  # type: ignore[arg-type]
    acts = decide(snapshot("+50s"))  # type: ignore[arg-type]
    assert [getattr(one, "job", 0) for one in acts.kind("job_requeue")] == [51]


def test_a_running_job_is_never_requeued_unless_the_site_wants_it() -> None:
    snapshot = world(
        node("c1-gx-0", "alloc"),
        instance("c1-gx-0", created="-6d", ends="+2m"),
        job(51, "R", nodes="c1-gx-0", starts="-1h", ends="+3h", limit="4h"),
    )
    assert not passes(*repeat(snapshot, 3)).all.of_kinds("job_requeue", "node_down")
