"""Every request is followed to its answer (DESIGN: rule `queue`)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from slurm_flex.actions import (
    CancelRequest,
    DeleteRequest,
    JobComment,
    JobNotify,
    JobStart,
    MakeRequest,
    NodeDown,
    NodeDrain,
    NodePowerDown,
    NodePowerUp,
    Unreserve,
)
from slurm_flex.model import Node, Snapshot
from tests.builders import (
    QUOTA,
    STOCKOUT,
    Acts,
    Thing,
    decide,
    hosts,
    instance,
    job,
    later,
    node,
    passes,
    repeat,
    request,
    reservation,
    world,
)


def queued(*more: Thing, since: str = "-1h", **about: object) -> Snapshot:
    """Job 51 waits for two nodes; its request is in the queue."""
    return world(
        node("c1-gx-[0-1]", "alloc#"),
        job(51, nodes="c1-gx-[0-1]", starts=since),
        request("j51-1", "c1-gx-[0-1]", created=since),
        *more,
        **about,  # type: ignore[arg-type]
    )


def ended(state: str, **about: object) -> Snapshot:
    return world(
        node("c1-gx-[0-1]", "alloc#"),
        job(51, nodes="c1-gx-[0-1]", starts="-1h"),
        request("j51-1", "c1-gx-[0-1]", state, created="-1h", **about),  # type: ignore[arg-type]
    )


def let_go(acts: Acts) -> set[str]:
    """Nodes that are forced off (down and power_down, or power_down_force)."""
    return {
        name
        for one in acts.of(NodePowerDown)
        for name in one.nodes
        if one.how == "force" or name in acts.nodes(NodeDown)
    }


class TestARequestThatFailed:
    """Scenarios 4 and 80."""

    def test_releases_its_nodes_at_once_with_a_typed_reason(self) -> None:
        acts = decide(ended("FAILED", error=STOCKOUT))
        assert let_go(acts) == set(hosts("c1-gx-[0-1]"))
        reasons = {one.reason for one in acts.of(NodePowerDown)}
        assert all(reason.startswith("slurm-flex:") for reason in reasons)
        assert all("capacity" in reason for reason in reasons)

    def test_names_the_quota(self) -> None:
        """Scenario 5."""
        acts = decide(ended("FAILED", error=QUOTA))
        assert all("quota" in one.reason for one in acts.of(NodePowerDown))

    def test_delays_its_job_by_a_back_off_that_grows(self) -> None:
        delays = []
        memory = None
        for attempt in range(1, 5):
            start = f"+{attempt * 2}h"
            failed = world(
                node("c1-gx-0", "alloc#"),
                job(51, nodes="c1-gx-0", starts=start),
                request(f"j51-{attempt}", "c1-gx-0", "FAILED", created=start, error=STOCKOUT),
                now=f"+{attempt * 2}h1m",
            )
            back = world(
                node("c1-gx-0", "idle%"),
                job(51, reason="BeginTime", starts=f"+{attempt * 2}h3m", restarts=attempt),
                now=f"+{attempt * 2}h1m10s",
            )
            played = passes(failed, back, memory=memory)
            memory = played.memory
            delays.append(max(one.after for one in played.all.of(JobStart)))
        assert all(delay > timedelta(0) for delay in delays)
        assert delays[-1] > 2 * delays[0]
        assert delays[-1] <= timedelta(minutes=75)

    def test_never_asks_for_a_start_in_the_past(self) -> None:
        """However long the release is in vain: now+N, and N isn't negative."""
        snapshot = ended("FAILED", error=STOCKOUT)
        played = passes(*(later(snapshot, f"{n * 30}s") for n in range(12)))
        assert all(one.after >= timedelta(0) for one in played.all.of(JobStart))

    def test_leaves_the_neighbours_alone(self) -> None:
        """Scenario 8: VMs bear the names of a job's nodes, so that nobody takes another's."""
        neighbours = (
            node("c1-gx-[2-3]", "alloc#"),
            job(52, nodes="c1-gx-[2-3]", starts="-2h"),
            request("j52-1", "c1-gx-[2-3]", created="-2h"),
        )
        failed = world(
            node("c1-gx-[0-1]", "alloc#"),
            job(51, nodes="c1-gx-[0-1]", starts="-1h"),
            request("j51-1", "c1-gx-[0-1]", "FAILED", created="-1h", error=STOCKOUT),
            *neighbours,
        )
        acts = passes(*repeat(failed, 2)).all
        for name in hosts("c1-gx-[2-3]"):
            assert not acts.touching(name).beside("node_power_up")
        assert not acts.of(CancelRequest)

    def test_is_not_asked_for_again_in_the_same_pass(self) -> None:
        assert not decide(ended("FAILED", error=STOCKOUT)).of(MakeRequest)

    def test_tells_an_interactive_job_before_it_ends(self) -> None:
        """srun and salloc can't be requeued: they are told why, first."""
        snapshot = world(
            node("c1-gx-0", "alloc#"),
            job(51, nodes="c1-gx-0", starts="-1h", batch=False),
            request("j51-1", "c1-gx-0", "FAILED", created="-1h", error=STOCKOUT),
        )
        acts = decide(snapshot)
        kinds = [one.KIND for one in acts]
        assert acts.one(JobNotify).job == 51
        assert kinds.index("job_notify") < kinds.index("node_down")
        comments = acts.of(JobComment)
        assert len(comments) <= 1
        assert all(one.last_words for one in comments)

    def test_has_a_record_that_is_kept_only_as_long_as_it_tells_something(self) -> None:
        over = world(
            node("c1-gx-[0-1]", "idle~"),
            request("j51-1", "c1-gx-[0-1]", "FAILED", created="-1h", error=STOCKOUT),
        )
        assert {one.name for one in passes(*repeat(over, 3)).all.of(DeleteRequest)} == {"j51-1"}

    def test_releases_only_nodes_that_were_allocated_before_it_was_made(self) -> None:
        """A job that came later is not what failed: the old record is deleted."""
        snapshot = world(
            node("c1-gx-0", "alloc#"),
            job(60, nodes="c1-gx-0", starts="-10s", submitted="-20s"),
            request("j51-1", "c1-gx-0", "FAILED", created="-1h", error=STOCKOUT),
        )
        first = world(
            node("c1-gx-0", "idle~"),
            request("j51-1", "c1-gx-0", "FAILED", created="-1h", error=STOCKOUT),
            now="-30s",
        )
        played = passes(first, snapshot, later(snapshot, "30s"))
        assert not let_go(played.all)
        assert [one.job for one in played.all.of(MakeRequest)] == [60]


def test_a_cancelled_request_releases_its_nodes() -> None:
    """Somebody cancelled it in the console."""
    acts = passes(*repeat(ended("CANCELLED"), 2)).all
    assert let_go(acts) == set(hosts("c1-gx-[0-1]"))


@pytest.mark.parametrize("state", ["CREATING", "ACCEPTED", "PROVISIONING", "SOMETHING_NEW"])
def test_a_live_request_is_left_in_whatever_state(state: str) -> None:
    snapshot = world(
        node("c1-gx-[0-1]", "alloc#"),
        job(51, nodes="c1-gx-[0-1]", starts="-1h"),
        request("j51-1", "c1-gx-[0-1]", state, created="-1h"),
    )
    assert not passes(*repeat(snapshot, 3)).all.beside("node_power_up")


def test_a_last_attempt_without_capacity_is_still_queued() -> None:
    """Scenario 79."""
    snapshot = world(
        node("c1-gx-[0-1]", "alloc#"),
        job(51, nodes="c1-gx-[0-1]", starts="-5h"),
        request("j51-1", "c1-gx-[0-1]", created="-5h", last=STOCKOUT),
    )
    acts = passes(*repeat(snapshot, 3)).all
    assert not acts.beside("node_power_up")
    comment = acts.of(JobComment)[0]
    assert "j51-1" in comment.text
    assert "capacity" in comment.text.lower()


def test_a_wait_past_max_queue_wait_ends() -> None:
    """Scenario 3: cancel, release, delay."""
    snapshot = queued(since="-2h", settings={"max_queue_wait": "1h"})
    acts = passes(*repeat(snapshot, 2)).all
    assert {one.name for one in acts.of(CancelRequest)} == {"j51-1"}
    assert let_go(acts) == set(hosts("c1-gx-[0-1]"))
    assert acts.of(JobStart) or passes(*repeat(snapshot, 3)).memory.delays


def test_a_wait_within_max_queue_wait_goes_on() -> None:
    snapshot = queued(since="-6d23h")
    assert not passes(*repeat(snapshot, 3)).all.beside("node_power_up")


class TestScancel:
    """Scenario 81: nodes stay POWERING_UP, IDLE; another job may slip onto them (R)."""

    gone = (
        node("c1-gx-[0-1]", "idle#"),
        request("j51-1", "c1-gx-[0-1]", created="-1h"),
        node("c1-gx-[2-3]", "alloc#"),
        job(52, nodes="c1-gx-[2-3]", starts="-2h"),
        request("j52-1", "c1-gx-[2-3]", created="-2h"),
    )
    drained = (
        node(
            "c1-gx-[0-1]",
            "IDLE+CLOUD+DRAIN+POWERING_UP",
            reason="slurm-flex: release: j51-1",
            since="now",
        ),
        request("j51-1", "c1-gx-[0-1]", "CANCELLED", created="-1h"),
        *gone[2:],
    )

    def test_exactly_that_request_is_cancelled_within_two_passes(self) -> None:
        played = passes(*repeat(world(*self.gone), 2))
        assert {one.name for one in played.all.of(CancelRequest)} == {"j51-1"}

    def test_its_nodes_are_drained_first(self) -> None:
        played = passes(*repeat(world(*self.gone), 2))
        assert played.all.nodes(NodeDrain) == set(hosts("c1-gx-[0-1]"))
        assert not played[0].of(NodePowerDown)
        reasons = {one.reason for one in played.all.of(NodeDrain)}
        assert all(reason.startswith("slurm-flex: release:") for reason in reasons)

    def test_and_forced_down_in_the_next_pass_if_still_idle(self) -> None:
        played = passes(world(*self.gone), world(*self.drained, now="+30s"))
        assert let_go(played[1]) == set(hosts("c1-gx-[0-1]"))

    def test_a_job_that_slipped_on_is_not_caught(self) -> None:
        caught = world(
            node(
                "c1-gx-[0-1]",
                "ALLOCATED+CLOUD+DRAIN+POWERING_UP",
                reason="slurm-flex: release: j51-1",
                since="now",
            ),
            job(60, nodes="c1-gx-[0-1]", starts="+5s"),
            request("j51-1", "c1-gx-[0-1]", "CANCELLED", created="-1h"),
            now="+30s",
        )
        played = passes(world(*self.gone), caught, later(caught, "30s"))
        after = Acts((*played[1], *played[2]))
        assert after.nodes("node_undrain") == set(hosts("c1-gx-[0-1]"))
        assert not let_go(after)

    @pytest.mark.parametrize("is_listed", [True, False])
    def test_a_crash_after_the_cancel_makes_no_one_elses_power_up_of_them(
        self, is_listed: bool
    ) -> None:
        """The pass was remembered and the request cancelled, and then nothing more was done."""
        running = world(
            node("c1-gx-[0-1]", "alloc#"),
            job(51, nodes="c1-gx-[0-1]", starts="-1h"),
            request("j51-1", "c1-gx-[0-1]", created="-1h"),
            now="-10s",
        )
        record = [request("j51-1", "c1-gx-[0-1]", "CANCELLED", created="-1h")] * is_listed
        undone = world(node("c1-gx-[0-1]", "idle#"), *record, now="+5s")
        played = passes(running, world(*self.gone), undone, later(undone, "30s"))
        for acts in played.passes[2:]:
            assert not acts.of(MakeRequest)
            assert acts.nodes(NodeDrain) == set(hosts("c1-gx-[0-1]"))

    @pytest.mark.parametrize(
        "between",
        [
            node("c1-gx-[0-1]", "unk"),
            node("c1-gx-[0-1]", "drain#", reason="bad fan", user="root", since="+5s"),
        ],
    )
    def test_nor_does_a_pass_that_could_not_tell(self, between: tuple[Node, ...]) -> None:
        running = queued(now="-10s")
        undone = world(node("c1-gx-[0-1]", "idle#"), now="+30s")
        acts = passes(running, world(*between, now="+10s"), undone, later(undone, "30s")).last
        assert not acts.of(MakeRequest)
        assert acts.nodes(NodeDrain) == set(hosts("c1-gx-[0-1]"))

    def test_a_node_powered_up_by_hand_after_its_release_gets_its_vm(self) -> None:
        leaving = world(node("c1-gx-[0-1]", "idle%"), now="+30s")
        by_hand = world(node("c1-gx-0", "idle#"), now="+2m")
        acts = passes(queued(now="-10s"), leaving, by_hand).last
        assert [one.nodes for one in acts.of(MakeRequest)] == [("c1-gx-0",)]
        assert not acts.of(NodeDrain)

    def test_the_drain_is_lifted_though_memory_is_lost(self) -> None:
        acts = decide(world(*self.drained))
        assert let_go(acts) == set(hosts("c1-gx-[0-1]"))


class TestReArming:
    """Slurm waits as long as we do: power_up again every third of ResumeTimeout."""

    def test_a_third_of_resume_timeout_at_a_time(self) -> None:
        snapshot = queued(since="-1m", config={"resume_timeout": timedelta(hours=1)})
        times = []
        memory = None
        for step in range(0, 4 * 3600, 30):
            played = passes(later(snapshot, timedelta(seconds=step)), memory=memory)
            memory = played.memory
            if played.last.of(NodePowerUp):
                assert played.last.nodes(NodePowerUp) == set(hosts("c1-gx-[0-1]"))
                times.append(step)
        gaps = [after - before for before, after in zip([0, *times], times, strict=False)]
        assert max(gaps) <= 1260
        assert len(times) <= 14

    def test_with_memory_lost_it_is_done_now(self) -> None:
        """Nobody knows how often it was done in these five hours."""
        assert decide(queued(since="-5h")).nodes(NodePowerUp) == set(hosts("c1-gx-[0-1]"))

    def test_not_for_nodes_whose_vm_runs(self) -> None:
        """A node that boots has a watchdog of its own."""
        snapshot = world(
            node("c1-gx-0", "alloc#"),
            job(51, nodes="c1-gx-0", starts="-10m"),
            request("j51-1", "c1-gx-0", "SUCCEEDED", created="-10m"),
            instance("c1-gx-0", created="-1m"),
        )
        played = passes(*repeat(snapshot, 3))
        assert len(played.all.of(NodePowerUp)) <= 1


def test_a_succeeded_request_stays_until_its_last_instance_is_gone() -> None:
    up = world(
        node("c1-gx-[0-1]", "idle"),
        instance("c1-gx-[0-1]"),
        request("j51-1", "c1-gx-[0-1]", "SUCCEEDED", created="-1h"),
    )
    half = world(
        node("c1-gx-0", "idle"),
        instance("c1-gx-0"),
        request("j51-1", "c1-gx-[0-1]", "SUCCEEDED", created="-1h"),
    )
    none = world(request("j51-1", "c1-gx-[0-1]", "SUCCEEDED", created="-1h"))
    assert not passes(*repeat(up, 3)).all.of(DeleteRequest)
    assert not passes(*repeat(half, 3)).all.of(DeleteRequest)
    assert passes(*repeat(none, 3)).all.of(DeleteRequest)


def test_a_foreign_request_is_left_whatever_its_state() -> None:
    for state in ("ACCEPTED", "FAILED", "CANCELLED", "SUCCEEDED"):
        snapshot = world(request("training-run", "visitor-1", state, created="-9d", pool="gx"))
        assert not passes(*repeat(snapshot, 5)).all.changes


def test_a_failure_after_a_back_off_that_is_over_earns_a_new_one() -> None:
    """starttime=now would lift Slurm's own 120 s: right after an expiry, wrong after a failure."""
    snapshot = ended("FAILED", error=STOCKOUT)
    played = passes(*(later(snapshot, f"{n * 30}s") for n in range(12)))
    assert all(one.after > timedelta(0) for one in played.all.of(JobStart))


def test_the_guard_of_a_drain_that_a_crash_left_is_taken_away() -> None:
    """It keeps jobs off for two minutes at the most; nobody need wait for that."""
    left = reservation("slurm-flex-drain.c1-gx-0", "c1-gx-0", start="-2s", end="+1m58s")
    assert decide(world(node("c1-gx-0", "idle#"), left)).one(Unreserve).name == left.name


def test_a_request_whose_time_of_creation_isnt_told_waits_no_longer_than_the_others() -> None:
    """Its wait is counted from when it was first seen."""
    timeless = [
        world(
            node("c1-gx-0", "alloc#"),
            job(51, nodes="c1-gx-0", starts="-1m"),
            request("j51-1", "c1-gx-0", created=None),
            now=now,
        )
        for now in ("now", "+6d", "+7d1m")
    ]
    played = passes(*timeless)
    assert [len(acts.of(CancelRequest)) for acts in played.passes] == [0, 0, 1]
