"""A host's maintenance is announced: planned for like an end of life, and nobody's fault."""

from __future__ import annotations

from datetime import timedelta

import pytest

from slurm_flex.actions import (
    Event,
    JobComment,
    JobHold,
    JobNotify,
    JobStart,
    MakeRequest,
    NodeComment,
    NodeDown,
    NodePowerDown,
    NodePowerUp,
    Reserve,
    Unreserve,
)
from slurm_flex.model import Memory, Snapshot
from slurm_flex.rules.renewal import RENEWED
from tests.builders import (
    OWN_FLAGS,
    Acts,
    Thing,
    at,
    decide,
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

ASKED = request("j51-1", "c1-gx-[0-3]", "SUCCEEDED", created="-2h")
LIVES = instance("c1-gx-[1-3]", ends="+2d")
MAINTAINED = "slurm-flex: expired: host maintenance"


def home(acts: Acts) -> dict[str, str]:
    """Nodes that go home early, each with the reason."""
    return {name: one.reason for one in acts.of(NodePowerDown) if one.how == "asap"
            for name in one.nodes}  # fmt: skip


class TestTheReservation:
    up = node("c1-gx-[0-3]", "idle")

    def test_begins_before_the_maintenance_and_has_its_own_name(self) -> None:
        """One VM's maintenance leaves the other nodes of its request together."""
        acts = decide(
            world(self.up, ASKED, LIVES, instance("c1-gx-0", ends="+2d", maintenance="+5h"))
        )
        made = {one.name: one for one in acts.of(Reserve)}
        assert set(made) == {"slurm-flex-j51-1", "slurm-flex-j51-1-maintenance"}
        assert made["slurm-flex-j51-1"].nodes == ("c1-gx-1", "c1-gx-2", "c1-gx-3")
        early = made["slurm-flex-j51-1-maintenance"]
        assert early.nodes == ("c1-gx-0",)
        assert early.start == at("+5h") - timedelta(minutes=5)
        assert early.end == at("+5h") + timedelta(hours=1)

    def test_is_one_for_all_nodes_of_a_request_that_are_maintained_together(self) -> None:
        vms = instance("c1-gx-[0-3]", ends="+2d", maintenance="+5h")
        made = decide(world(self.up, ASKED, vms)).one(Reserve)
        assert made.nodes == ("c1-gx-0", "c1-gx-1", "c1-gx-2", "c1-gx-3")

    def test_is_made_for_a_vm_without_an_end_too(self) -> None:
        snapshot = world(
            pool("gx", model="ON_DEMAND"),
            node("c1-gx-0", "alloc"),
            instance("c1-gx-0", ends=None, maintenance="+5h"),
        )
        assert decide(snapshot).one(Reserve).start == at("+5h") - timedelta(minutes=5)

    def test_follows_a_maintenance_that_is_moved(self) -> None:
        made = reservation(
            "slurm-flex-j51-1-maintenance", "c1-gx-0", start="+4h55m", end="+6h", flags=OWN_FLAGS
        )
        one = request("j51-1", "c1-gx-0", "SUCCEEDED", created="-2h")
        stays, moved = (
            world(
                node("c1-gx-0", "idle"),
                one,
                made,
                instance("c1-gx-0", ends="+2d", maintenance=begins),
            )
            for begins in ("+5h", "+9h")
        )
        assert not decide(stays).of(Reserve)
        again = decide(moved).one(Reserve)
        assert (again.name, again.start) == (made.name, at("+9h") - timedelta(minutes=5))

    def test_goes_when_the_maintenance_is_called_off(self) -> None:
        rest = reservation(
            "slurm-flex-j51-1", "c1-gx-[1-3]", start="+1d23h55m", end="+2d1h", flags=OWN_FLAGS
        )
        early = reservation(
            "slurm-flex-j51-1-maintenance", "c1-gx-0", start="+4h55m", end="+6h", flags=OWN_FLAGS
        )
        acts = decide(world(self.up, ASKED, rest, early, LIVES, instance("c1-gx-0", ends="+2d")))
        assert acts.one(Unreserve).name == early.name
        assert acts.one(Reserve).name == rest.name
        assert "c1-gx-0" in acts.one(Reserve).nodes

    @pytest.mark.parametrize("begins", ["+3d", "-2h"])
    def test_isnt_made_for_one_after_its_life_or_before_it(self, begins: str) -> None:
        """What began before the VM was made was another VM's."""
        snapshot = world(
            node("c1-gx-0", "idle"), instance("c1-gx-0", ends="+2d", maintenance=begins)
        )
        assert decide(snapshot).one(Reserve).start == at("+2d") - timedelta(minutes=5)

    def test_stays_while_the_maintenance_is_late(self) -> None:
        """It may begin at any time from the announced one on."""
        made = reservation(
            "slurm-flex-j51-1-maintenance", "c1-gx-0", start="-8m", end="+57m", flags=OWN_FLAGS
        )
        snapshot = world(
            node("c1-gx-0", "alloc$"),
            job(51, "R", nodes="c1-gx-0", starts="-1h"),
            request("j51-1", "c1-gx-0", "SUCCEEDED", created="-2h"),
            made,
            instance("c1-gx-0", ends="+2d", maintenance="-3m"),
        )
        acts = passes(*repeat(snapshot, 3)).all
        assert not acts.of_kinds("reserve", "unreserve", "node_down", "delete_instances")


def test_a_job_that_would_outlast_it_is_told_what_ends_its_node() -> None:
    snapshot = world(
        node("c1-gx-0", "alloc"),
        instance("c1-gx-0", maintenance="+9m30s"),
        job(51, "R", nodes="c1-gx-0", starts="-30m", ends="+3h", limit="4h"),
    )
    acts = passes(*(later(snapshot, f"{n * 30}s") for n in range(4))).all
    assert "UTC (host maintenance); it will be requeued" in acts.one(JobNotify).text
    assert "(host maintenance)" in acts.one(Event).text


def test_a_job_that_ends_before_it_is_told_nothing() -> None:
    snapshot = world(
        node("c1-gx-0", "alloc"),
        instance("c1-gx-0", maintenance="+9m30s"),
        job(51, "R", nodes="c1-gx-0", starts="-30m", ends="+9m", limit="1h"),
    )
    assert not passes(*repeat(snapshot, 3)).all.of(JobNotify)


class TestIdleNodes:
    def test_go_home_before_it(self) -> None:
        def idle(begins: str) -> Snapshot:
            return world(node("c1-gx-0", "idle"), instance("c1-gx-0", maintenance=begins))

        assert home(decide(idle("+14m"))) == {"c1-gx-0": "slurm-flex: host maintenance"}
        assert not home(decide(idle("+16m")))

    def test_that_are_static_come_back_on_another_host(self) -> None:
        """Their own end they await (refresh_static); here a new VM is had before the old one ends,
        and the place was of no more use."""
        static = pool("gx", static=1, size=1)
        near = world(static, node("c1-gx-0", "idle"), instance("c1-gx-0", maintenance="+14m"))
        off = world(static, node("c1-gx-0", "idle~"), now="+2m")
        rising = world(static, node("c1-gx-0", "idle#"), now="+3m")
        played = passes(near, off, rising)
        assert set(home(played[0])) == {"c1-gx-0"}
        assert played[1].nodes(NodePowerUp) == {"c1-gx-0"}
        assert [one.nodes for one in played[2].of(MakeRequest)] == [("c1-gx-0",)]

    def test_that_the_site_excludes_from_suspension_stay(self) -> None:
        snapshot = world(
            node("c1-gx-0", "idle"),
            instance("c1-gx-0", maintenance="+14m"),
            config={"suspend_exc_nodes": "c1-gx-0"},
        )
        assert not home(decide(snapshot))

    def test_that_just_came_to_such_a_host_are_not_sent_round_in_circles(self) -> None:
        """A quarter of what was left when they came is little enough."""
        snapshot = world(
            pool("gx", static=1, size=1),
            node("c1-gx-0", "idle"),
            instance("c1-gx-0", created="-2m", maintenance="+10m"),
        )
        assert not home(decide(snapshot))

    def test_are_renewed_for_a_job_that_would_run_into_it(self) -> None:
        snapshot = world(
            pool("gx", size=1),
            node("c1-gx-0", "idle"),
            instance("c1-gx-0", maintenance="+2h"),
            job(51, limit="4h"),
        )
        assert home(decide(snapshot)) == {"c1-gx-0": RENEWED}


class TestWhenItComes:
    """Compute Engine ends the VM: TERMINATED, or gone."""

    def before(self, *more: Thing, now: str = "-30s", **about: str) -> Snapshot:
        return world(
            node("c1-gx-0", "alloc" if more else "idle"),
            instance("c1-gx-0", maintenance="now", **about),  # type: ignore[arg-type]
            *more,
            now=now,
        )

    def after(self, *more: Thing, now: str = "+10s") -> Snapshot:
        return world(node("c1-gx-0", "alloc" if more else "idle"), *more, now=now)

    @pytest.mark.parametrize("status", [None, "STOPPING", "TERMINATED"])
    def test_the_node_goes_down_and_off_at_once(self, status: str | None) -> None:
        """A dead VM's listing needn't tell any more why it died."""
        dead = instance("c1-gx-0", status) if status else ()
        acts = passes(self.before(), self.after(dead)).last
        assert {one.reason for one in acts.of(NodeDown)} == {MAINTAINED}
        assert acts.nodes(NodePowerDown) == {"c1-gx-0"}
        told = next(one for one in acts.of(Event) if one.event == "NODE_EXPIRED")
        assert told.text == "host maintenance"
        assert not acts.of(MakeRequest)

    def test_a_vm_that_ends_before_it_was_lost(self) -> None:
        """Ninety seconds apart clocks may be, no more."""
        played = passes(self.before(now="-10m"), self.after(now="-9m30s"), self.after(now="-9m"))
        assert not played[1].of(NodeDown)
        assert {one.reason for one in played[2].of(NodeDown)} == {"slurm-flex: lost"}

    def test_a_vm_that_ends_after_it_was_called_off_was_lost(self) -> None:
        called_off = world(node("c1-gx-0", "idle"), instance("c1-gx-0"), now="-10s")
        played = passes(self.before(), called_off, self.after(), self.after(now="+40s"))
        assert not played[2].of(NodeDown)
        assert {one.reason for one in played[3].of(NodeDown)} == {"slurm-flex: lost"}

    def test_it_counts_for_no_breaker(self) -> None:
        played = passes(self.before(), self.after(), self.after(now="+40s"))
        assert not played.memory.launches
        assert not played.memory.health_restarts

    def test_a_vm_that_has_not_registered_yet_is_no_failed_boot_for_the_breaker(self) -> None:
        rises = node("c1-gx-0", "alloc#")
        mine = job(51, nodes="c1-gx-0", starts="-3m")
        boots = world(
            rises, mine, instance("c1-gx-0", created="-2m", maintenance="now"), now="-30s"
        )
        died = world(rises, mine, instance("c1-gx-0", "TERMINATED", created="-2m"), now="+10s")
        played = passes(boots, died)
        assert played.last.nodes("delete_instances") == {"c1-gx-0"}
        assert not played.memory.launches

    def test_its_job_is_told_the_time_of_it_though_the_dead_vm_says_another(self) -> None:
        mine = job(51, "R", nodes="c1-gx-0", starts="-6h")
        dead = instance("c1-gx-0", "TERMINATED", ends="+6d")
        told = passes(self.before(mine), self.after(mine, dead)).last.one(JobComment).text
        assert "host maintenance at 12-01 12:00 UTC" in told

    def test_its_job_is_told_and_starts_again_at_once(self) -> None:
        mine = job(51, "R", nodes="c1-gx-0", starts="-6h")
        requeued = job(51, reason="BeginTime", starts="+2m10s", restarts=1)
        off = world(node("c1-gx-0", "idle~", reason=MAINTAINED, since="+10s"), requeued, now="+75s")
        played = passes(self.before(mine), self.after(mine), off)
        assert "host maintenance at 12-01 12:00 UTC, restarts on a new VM" in (
            played[1].one(JobComment).text
        )
        assert [one.job for one in played[2].of(JobStart)] == [51]

    def test_its_node_is_free_again_without_a_wait(self) -> None:
        """`stuck` knows the reason as nobody's fault."""
        down = world(node("c1-gx-0", "down~", reason=MAINTAINED, since="-5s"))
        assert decide(down).nodes(NodePowerDown) == {"c1-gx-0"}

    def test_with_memory_lost_our_reservation_tells_it(self) -> None:
        made = reservation(
            "slurm-flex-j51-1-maintenance", "c1-gx-0", start="-5m", end="+1h", flags=OWN_FLAGS
        )
        acts = passes(world(node("c1-gx-0", "idle$"), made), memory=Memory()).last
        assert {one.reason for one in acts.of(NodeDown)} == {MAINTAINED}


@pytest.mark.parametrize(("model", "held"), [("FLEX_START", True), ("ON_DEMAND", False)])
def test_only_where_lives_are_short_a_job_is_held_for_being_cut_too_often(
    model: str, held: bool
) -> None:
    def seen(*things: Thing, now: str) -> Snapshot:
        return world(pool("gx", model=model), *things, settings={"max_expiries": 2}, now=now)

    mine = job(51, "R", nodes="c1-gx-0", starts="-6h", limit=None)
    requeued = job(51, reason="BeginTime", starts="+2m10s", limit=None, restarts=2)
    up, off = node("c1-gx-0", "alloc"), node("c1-gx-0", "idle~", reason=MAINTAINED, since="+10s")
    played = passes(
        seen(up, mine, instance("c1-gx-0", maintenance="now"), now="-30s"),
        seen(up, mine, now="+10s"),
        seen(off, requeued, now="+75s"),
        memory=Memory(expiries={"51": 1}),
    )
    assert [bool(played.last.of(kind)) for kind in (JobHold, JobStart)] == [held, not held]


@pytest.mark.parametrize(
    ("comment", "maintenance", "told"),
    [
        ("flex: ends at 2026-12-08 11:00 UTC", None, None),
        (
            "flex: ends at 2026-12-08 11:00 UTC",
            "+5h",
            "flex: ends at 2026-12-01 17:00 UTC, host maintenance",
        ),
        ("flex: ends at 2026-12-01 17:00 UTC, host maintenance", "+5h", None),
        (
            "flex: ends at 2026-12-01 17:00 UTC, host maintenance",
            None,
            "flex: ends at 2026-12-08 11:00 UTC",
        ),
    ],
)
def test_a_nodes_comment_follows_what_is_announced(
    comment: str, maintenance: str | None, told: str | None
) -> None:
    snapshot = world(
        node("c1-gx-0", "idle", comment=comment), instance("c1-gx-0", maintenance=maintenance)
    )
    assert [one.text for one in decide(snapshot).of(NodeComment)] == ([told] if told else [])
