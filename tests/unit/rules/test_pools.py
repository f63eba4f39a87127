"""What concerns a pool as a whole: sizes, partitions that stop, room for the next pool."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from slurm_flex.actions import CreateGroup, MakeRequest, Reserve, Unreserve
from slurm_flex.model import Snapshot
from tests.builders import (
    OWN_FLAGS,
    STOCKOUT,
    Acts,
    Thing,
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

TWO = (pool("gx", size=2), pool("gy", size=2))


def two_pools(*things: Thing, **about: object) -> Snapshot:
    return world(*TWO, *things, partitions={"all": "gx,gy"}, **about)  # type: ignore[arg-type]


def stopped(snapshot: Snapshot, state: str) -> Snapshot:
    parts = tuple(replace(one, state=state) for one in snapshot.slurm.partitions)
    return replace(snapshot, slurm=replace(snapshot.slurm, partitions=parts))


def test_no_request_is_for_more_than_a_thousand_nodes() -> None:
    """Google's limit: split, or refused with the reason; never sent to fail."""
    snapshot = world(
        pool("gx", size=1200),
        node("c1-gx-[0-1199]", "alloc#"),
        job(51, nodes="c1-gx-[0-1199]"),
    )
    acts = passes(*repeat(snapshot, 2)).all
    assert all(len(one.nodes) <= 1000 for one in acts.of(MakeRequest))
    sent = [name for one in acts.of(MakeRequest) for name in one.nodes]
    assert len(sent) == len(set(sent))
    assert len(sent) == 1200 or any("1000" in getattr(one, "text", "") for one in acts)


class TestRoomForTheNextPool:
    """A pool in back-off holds its nodes back, so that the scheduler turns to the next."""

    failed = (
        node("c1-gx-[0-1]", "alloc#"),
        job(51, nodes="c1-gx-[0-1]", partition="all", starts="-1h"),
        request("j51-1", "c1-gx-[0-1]", "FAILED", created="-1h", error=STOCKOUT),
    )
    off = (
        node("c1-gx-[0-1]", "idle~"),
        job(51, reason="BeginTime", starts="+3m", size=2, partition="all", restarts=1),
    )

    def holding(self, acts: Acts) -> list[Reserve]:
        return [one for one in acts.of(Reserve) if "c1-gx-0" in one.nodes]

    def test_by_a_finite_reservation_of_ours(self) -> None:
        played = passes(two_pools(*self.failed), two_pools(*self.off, now="+70s"))
        (made, *_) = self.holding(played.all)
        assert made.name.startswith("slurm-flex-")
        assert set(made.nodes) == {"c1-gx-0", "c1-gx-1"}
        assert made.end - made.start <= timedelta(hours=6)

    def test_which_is_lifted_when_it_is_over(self) -> None:
        played = passes(two_pools(*self.failed), two_pools(*self.off, now="+70s"))
        (made, *_) = self.holding(played.all)
        kept = reservation(
            made.name, ",".join(made.nodes), start=made.start, end=made.end, flags=OWN_FLAGS
        )
        much_later = two_pools(node("c1-gx-[0-1]", "idle~$"), kept, now="+12h")
        after = passes(much_later, later(much_later, "30s"), memory=played.memory).all
        assert made.name in {one.name for one in after.of(Unreserve)} or made.end <= much_later.now

    def test_and_not_before_the_job_that_was_sent_back_has_had_its_turn(self) -> None:
        """It comes again when the wait is over: by then the next pool must be all there is."""
        played = passes(two_pools(*self.failed), two_pools(*self.off, now="+70s"))
        (made, *_) = self.holding(played.all)
        comes = max(delay.until for delay in played.memory.delays.values())
        assert comes + timedelta(seconds=45) <= made.end <= comes + timedelta(minutes=2)
        kept = reservation(
            made.name, ",".join(made.nodes), start=made.start, end=made.end, flags=OWN_FLAGS
        )
        back = two_pools(node("c1-gx-[0-1]", "idle~$"), kept, job(51, partition="all", size=2))
        turn = later(back, comes + timedelta(seconds=15) - back.now)
        assert not passes(turn, memory=played.memory).all.of(Unreserve)

    def test_a_wait_that_ends_early_frees_them_at_once(self) -> None:
        played = passes(two_pools(*self.failed), two_pools(*self.off, now="+70s"))
        (made, *_) = self.holding(played.all)
        kept = reservation(
            made.name, ",".join(made.nodes), start=made.start, end=made.end, flags=OWN_FLAGS
        )
        soon = two_pools(node("c1-gx-[0-1]", "idle~$"), kept, now="+80s")
        memory = replace(played.memory, back_offs={})
        assert [one.name for one in passes(soon, memory=memory).all.of(Unreserve)] == [made.name]

    def test_but_not_where_there_is_no_next_pool(self) -> None:
        alone = world(pool("gx", size=2), *self.failed, partitions={"all": "gx"})
        off = world(pool("gx", size=2), *self.off, partitions={"all": "gx"}, now="+70s")
        assert not passes(alone, off).all.of(Reserve)

    def test_with_the_nodes_of_the_failed_request_once_they_are_off(self) -> None:
        """Else the job takes the very same nodes again."""
        rest = node("c1-gx-[2-5]", "idle~")
        failed = self.wide(*self.failed, rest)
        first = passes(failed)
        (made,) = first.all.of(Reserve)
        assert set(made.nodes) == {f"c1-gx-{index}" for index in range(2, 6)}
        kept = reservation(
            made.name, ",".join(made.nodes), start=made.start, end=made.end, flags=OWN_FLAGS
        )
        off = self.wide(*self.off, rest, kept, now="+70s")
        second = passes(off, memory=first.memory)
        (wider,) = second.all.of(Reserve)
        assert (wider.name, wider.end) == (made.name, made.end)
        assert set(wider.nodes) == {f"c1-gx-{index}" for index in range(6)}
        kept = replace(kept, nodes=wider.nodes)
        again = self.wide(*self.off, rest, kept, now="+80s")
        assert not passes(again, memory=second.memory).all.of(Reserve)

    @staticmethod
    def wide(*things: Thing, now: str = "now") -> Snapshot:
        """Two pools that are larger than the job."""
        pools = (pool("gx", size=6), pool("gy", size=6))
        return world(*pools, *things, partitions={"all": "gx,gy"}, now=now)

    def test_and_never_nodes_that_are_up(self) -> None:
        up = two_pools(
            node("c1-gx-0", "idle"),
            instance("c1-gx-0"),
            node("c1-gx-1", "idle~"),
            self.off[1],
            now="+70s",
        )
        played = passes(two_pools(*self.failed), up)
        short = [one for one in self.holding(played.all) if one.start < up.now + timedelta(days=1)]
        assert not short


class TestAPartitionThatIsStopped:
    """Scenarios 23 and 69: INACTIVE, with VMs and requests alive."""

    @pytest.mark.parametrize("state", ["INACTIVE", "DOWN"])
    def test_what_runs_goes_on(self, state: str) -> None:
        snapshot = world(
            node("c1-gx-0", "alloc"),
            instance("c1-gx-0"),
            job(51, "R", nodes="c1-gx-0", starts="-10m", ends="+1h"),
        )
        acts = passes(*repeat(stopped(snapshot, state), 4)).all
        assert not acts.beside("reserve")

    def test_a_node_that_powers_up_there_is_downed_then_powered_down(self) -> None:
        """Scenario 23: power_down alone is ignored while it powers up."""
        snapshot = world(node("c1-gx-0", "idle#"), request("m-0123abcd-1", "c1-gx-0"))
        acts = passes(*repeat(stopped(snapshot, "INACTIVE"), 4)).all
        assert not acts.of(MakeRequest)
        gone = acts.nodes("node_power_down")
        assert gone <= {"c1-gx-0"}

    def test_an_idle_vm_there_is_cleaned_up(self) -> None:
        """Scenario 69: Slurm doesn't suspend the nodes of an INACTIVE partition."""
        snapshot = world(node("c1-gx-0", "idle"), instance("c1-gx-0", created="-3h"))
        acts = passes(*repeat(stopped(snapshot, "INACTIVE"), 4)).all
        assert "c1-gx-0" in acts.nodes("node_down") | acts.nodes("node_power_down")


def test_a_missing_group_of_a_pool_that_nobody_needs_is_left_missing() -> None:
    from tests.builders import no_group

    assert not passes(*repeat(world(no_group("gx")), 3)).all.of(CreateGroup)
