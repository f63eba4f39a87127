"""Idle nodes near their end, and jobs that fit only a fresh one (DESIGN: rule `lifetime`)."""

from __future__ import annotations

import pytest

from slurm_flex.actions import NodePowerDown
from tests.builders import (
    Acts,
    decide,
    instance,
    job,
    later,
    node,
    passes,
    pool,
    repeat,
    world,
)


def home(acts: Acts) -> set[str]:
    return {name for one in acts.of(NodePowerDown) if one.how == "asap" for name in one.nodes}


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
