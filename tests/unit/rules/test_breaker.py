"""A pool that fails again and again is left in peace for a while (DESIGN: rule `breaker`)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from slurm_flex.actions import (
    CreateGroup,
    CreateInstances,
    Event,
    JobComment,
    JobStart,
    MakeRequest,
)
from slurm_flex.model import Memory, Snapshot
from slurm_flex.model.memory import Answer, Breaker
from slurm_flex.plan import close_breaker
from tests.builders import (
    NO_PERMISSION,
    NOON,
    QUOTA,
    STOCKOUT,
    Played,
    Thing,
    decide,
    instance,
    job,
    later,
    no_group,
    node,
    passes,
    pool,
    repeat,
    request,
    world,
)

BAD_TYPE = ("INVALID_MACHINE_TYPE", "Specified machine type is invalid.")


def failed(attempt: int, error: tuple[str, str], minute: int) -> Snapshot:
    """Job 51's request of that attempt has just failed."""
    start = f"+{minute}m"
    return world(
        node("c1-gx-0", "alloc#"),
        job(51, nodes="c1-gx-0", starts=start),
        request(f"j51-{attempt}", "c1-gx-0", "FAILED", created=start, error=error),
        now=f"+{minute + 1}m",
    )


def another_asks(minute: int) -> Snapshot:
    """Job 60 has been placed on another node of the pool."""
    return world(
        node("c1-gx-0", "idle~"),
        node("c1-gx-5", "alloc#"),
        job(60, nodes="c1-gx-5", starts=f"+{minute}m"),
        now=f"+{minute}m",
    )


def opened(played: Played) -> list[Event]:
    return [one for one in played.all.of(Event) if "BREAKER" in one.event and "OPEN" in one.event]


@pytest.mark.parametrize("error", [NO_PERMISSION, BAD_TYPE])
def test_what_only_a_person_can_mend_opens_it_at_once(error: tuple[str, str]) -> None:
    """Scenario 6."""
    played = passes(failed(1, error, 0), another_asks(3))
    assert opened(played)
    assert not played.all.of(MakeRequest)


def test_it_says_why_and_when_it_tries_again() -> None:
    played = passes(failed(1, NO_PERMISSION, 0), another_asks(3))
    (event,) = opened(played)
    assert event.pool == "gx"
    assert "permission" in event.text.lower()
    comment = next(one for one in played[1].kind("job_comment"))
    assert getattr(comment, "text", "").startswith("flex: ")


def test_it_tries_once_after_its_time_and_closes_when_that_is_good() -> None:
    played = passes(failed(1, NO_PERMISSION, 0), another_asks(3))
    two = world(
        node("c1-gx-[4-5]", "alloc#"),
        job(60, nodes="c1-gx-5", starts="+3m"),
        job(61, nodes="c1-gx-4", starts="+3m"),
        now="+3h",
    )
    probe = passes(two, later(two, "30s"), memory=played.memory)
    sent = probe.all.of(MakeRequest)
    assert len({one.name for one in sent}) == 1
    job_id = sent[0].job
    (name,) = sent[0].nodes
    good = world(
        node("c1-gx-[4-5]", "alloc#"),
        node(name, "alloc"),
        instance(name, created="+3h1m"),
        request(sent[0].name, name, "SUCCEEDED", created="+3h"),
        job(60, nodes="c1-gx-5", starts="+3m"),
        job(61, nodes="c1-gx-4", starts="+3m"),
        now="+3h4m",
    )
    after = passes(good, later(good, "30s"), memory=probe.memory)
    assert {one.job for one in after.all.of(MakeRequest)} == {60, 61} - {job_id}


def test_other_pools_are_untouched() -> None:
    broken = world(
        pool("gx", size=1),
        pool("gy", size=1),
        node("c1-gx-0", "alloc#"),
        node("c1-gy-0", "alloc#"),
        job(51, nodes="c1-gx-0", starts="now"),
        job(52, nodes="c1-gy-0", partition="gy"),
        request("j51-1", "c1-gx-0", "FAILED", created="now", error=NO_PERMISSION),
        now="+1m",
    )
    assert [one.pool for one in decide(broken).of(MakeRequest)] == ["gy"]


def test_want_of_capacity_never_opens_it() -> None:
    memory = None
    for attempt in range(1, 9):
        played = passes(failed(attempt, STOCKOUT, attempt * 90), memory=memory)
        memory = played.memory
        assert not opened(played)


def test_boot_failures_among_the_last_launches_open_it() -> None:
    memory = None
    seen = []
    for attempt in range(1, 4):
        minute = attempt * 120
        dead = world(
            node("c1-gx-0", "alloc#"),
            job(51, nodes="c1-gx-0", starts=f"+{minute}m"),
            request(f"j51-{attempt}", "c1-gx-0", "SUCCEEDED", created=f"+{minute}m"),
            instance("c1-gx-0", created=f"+{minute}m", number=str(attempt)),
            now=f"+{minute + 17}m",
        )
        played = passes(dead, later(dead, "5s"), memory=memory)
        memory = played.memory
        seen.append(bool(opened(played)))
    assert seen == [False, True, seen[2]]


def test_an_expiry_is_no_failure() -> None:
    """Scenario 47: nothing counts towards the breaker."""
    memory = None
    for life in range(6):
        end = f"+{life * 60 + 30}m"
        up = world(
            node("c1-gx-0", "idle"),
            instance("c1-gx-0", created=f"+{life * 60}m", ends=end, number=str(life)),
            now=f"+{life * 60 + 29}m",
        )
        gone = world(node("c1-gx-0", "idle"), now=f"+{life * 60 + 31}m")
        off = world(node("c1-gx-0", "idle~"), now=f"+{life * 60 + 33}m")
        played = passes(up, gone, off, memory=memory)
        memory = played.memory
        assert not opened(played)
    assert all(one.outcome == "good" for one in played.memory.launches.get("gx", ()))


def test_an_insert_that_was_refused_counts_as_a_request_that_failed() -> None:
    """The operation failed after HTTP 200: apply hands the answer to the next plan."""
    waiting = world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0", starts="-10s"))
    first = passes(waiting)
    (sent,) = first.all.of(MakeRequest)
    answer = Answer("gx", sent.name, sent.nodes, *NO_PERMISSION, at=NOON)
    told = replace(first.memory, answers=(answer,))
    played = passes(later(waiting, "30s"), later(waiting, "60s"), memory=told)
    assert opened(played)
    assert not played.memory.answers
    assert not played.all.of(MakeRequest)


def test_a_quota_answer_makes_the_pool_wait() -> None:
    played = passes(failed(1, QUOTA, 0), another_asks(2))
    assert not played[1].of(MakeRequest)
    late = passes(another_asks(60), memory=played.memory)
    assert late.all.of(MakeRequest)


def test_six_launches_of_a_node_in_an_hour_are_enough() -> None:
    """launches_per_node_hour, then the breaker: whatever the reason."""
    memory = Memory()
    sent = 0
    for minute in range(0, 60, 3):
        asks = world(
            node("c1-gx-0", "alloc#"),
            job(100 + minute, nodes="c1-gx-0", starts=f"+{minute}m"),
            now=f"+{minute}m",
        )
        gone = world(node("c1-gx-0", "idle~"), now=f"+{minute + 2}m")
        played = passes(asks, gone, memory=memory)
        memory = played.memory
        sent += len(played.all.of(MakeRequest)) + len(played.all.of(CreateInstances))
    assert sent <= 6
    assert timedelta(0) < memory.breakers["gx"].retry_at - NOON


class TestAPoolsBackOff:
    """It grows with each try that failed, and with nothing else."""

    def test_grows_by_one_step_however_many_jobs_met_the_quota_together(self) -> None:
        together = [
            thing
            for at in range(8)
            for thing in (
                node(f"c1-gx-{at}", "alloc#"),
                job(51 + at, nodes=f"c1-gx-{at}", starts="-2m"),
                request(f"j{51 + at}-1", f"c1-gx-{at}", "FAILED", created="-1m", error=QUOTA),
            )
        ]
        waits = passes(world(*together)).memory.back_offs["gx/quota"]
        assert waits.steps == 1
        assert waits.until - NOON < timedelta(minutes=12)

    def test_grows_when_the_next_try_fails_too(self) -> None:
        first = passes(failed(1, QUOTA, 0))
        second = passes(failed(2, QUOTA, 20), memory=first.memory)
        assert second.memory.back_offs["gx/quota"].steps == 2

    def test_begins_anew_after_a_launch_that_was_good(self) -> None:
        refused = passes(failed(1, QUOTA, 0), failed(2, QUOTA, 20), failed(3, QUOTA, 60))
        assert refused.memory.back_offs["gx/quota"].steps == 3
        boots = world(
            node("c1-gx-5", "alloc#"),
            job(60, nodes="c1-gx-5", starts="+3h"),
            request("j60-1", "c1-gx-5", "SUCCEEDED", created="+3h"),
            instance("c1-gx-5", created="+3h1m"),
            now="+3h2m",
        )
        runs = world(
            node("c1-gx-5", "alloc"),
            job(60, "R", nodes="c1-gx-5", starts="+3h"),
            request("j60-1", "c1-gx-5", "SUCCEEDED", created="+3h"),
            instance("c1-gx-5", created="+3h1m"),
            now="+3h4m",
        )
        good = passes(boots, runs, memory=refused.memory)
        assert "gx/quota" not in good.memory.back_offs
        again = passes(failed(4, QUOTA, 240), memory=good.memory)
        assert again.memory.back_offs["gx/quota"].steps == 1

    def test_runs_on_when_a_launch_from_before_it_turns_out_good(self) -> None:
        """What was asked for before the refusal says nothing of the quota that is left."""
        boots = world(
            node("c1-gx-5", "alloc#"),
            job(60, nodes="c1-gx-5", starts="-5m"),
            request("j60-1", "c1-gx-5", "SUCCEEDED", created="-5m"),
            instance("c1-gx-5", created="-4m"),
            now="+2m",
        )
        runs = world(
            node("c1-gx-5", "alloc"),
            job(60, "R", nodes="c1-gx-5", starts="-5m"),
            request("j60-1", "c1-gx-5", "SUCCEEDED", created="-5m"),
            instance("c1-gx-5", created="-4m"),
            now="+3m",
        )
        played = passes(failed(1, QUOTA, 0), boots, runs)
        assert "gx/quota" in played.memory.back_offs


def test_failures_from_before_it_was_closed_dont_open_it_weeks_later() -> None:
    """The launches are kept for as long as the pool is quiet, and so is when it was closed."""
    broken = passes(failed(1, NO_PERMISSION, 0))
    closed = close_breaker(broken.memory, "gx", NOON + timedelta(minutes=5))
    quiet = [later(world(), f"{day}d") for day in (1, 8, 15, 16, 30)]
    assert not opened(passes(*quiet, memory=closed))


class TestAHalfOpenBreaker:
    """Its time has come: one launch is tried, and only that one counts."""

    memory = Memory(
        breakers={
            "gx": Breaker(
                "boot",
                "2 of the last 2 launches failed",
                since=NOON - timedelta(hours=1),
                retry_at=NOON - timedelta(minutes=30),
                delay=timedelta(minutes=30),
            )
        }
    )

    def with_probe(self, stem: str) -> Memory:
        return replace(
            self.memory, breakers={"gx": replace(self.memory.breakers["gx"], probe=stem)}
        )

    def asked_for(self, snapshot: Snapshot, memory: Memory) -> list[int | None]:
        return [one.job for one in passes(*repeat(snapshot, 3), memory=memory).all.of(MakeRequest)]

    def test_is_not_kept_waiting_by_a_request_that_isnt_its_probe(self) -> None:
        """The probe's job went away, and an older request stands in the queue for days."""
        snapshot = world(
            node("c1-gx-0", "alloc#"),
            job(51, nodes="c1-gx-0", starts="-2d"),
            request("j51-1", "c1-gx-0", created="-2d"),
            node("c1-gx-5", "alloc#"),
            job(70, nodes="c1-gx-5", starts="-10m"),
        )
        assert self.asked_for(snapshot, self.with_probe("j60")) == [70]

    @pytest.mark.parametrize(("queued", "others"), [("-20m", []), ("-40m", [70])])
    def test_waits_for_a_probe_in_the_queue_no_longer_than_it_was_open(
        self, queued: str, others: list[int]
    ) -> None:
        """A wait for capacity is no failure, and may last for days."""
        snapshot = world(
            node("c1-gx-0", "alloc#"),
            job(51, nodes="c1-gx-0", starts=queued),
            request("j51-1", "c1-gx-0", created=queued),
            node("c1-gx-5", "alloc#"),
            job(70, nodes="c1-gx-5", starts="-10m"),
        )
        assert self.asked_for(snapshot, self.with_probe("j51")) == others

    def test_waits_for_the_boot_of_its_probe(self) -> None:
        snapshot = world(
            node("c1-gx-0", "alloc#"),
            job(51, nodes="c1-gx-0", starts="-20m"),
            request("j51-1", "c1-gx-0", "SUCCEEDED", created="-20m"),
            instance("c1-gx-0", created="-5m"),
            node("c1-gx-5", "alloc#"),
            job(70, nodes="c1-gx-5", starts="-10m"),
        )
        assert self.asked_for(snapshot, self.with_probe("j51")) == []

    def test_tries_what_may_be_asked_for_not_what_was_asked_for_too_often(self) -> None:
        often = tuple(NOON - timedelta(minutes=minutes) for minutes in range(50, 20, -5))
        snapshot = world(
            node("c1-gx-[0,5]", "alloc#"),
            job(51, nodes="c1-gx-0", starts="-2m", priority=9000),
            job(70, nodes="c1-gx-5", starts="-10m"),
        )
        assert self.asked_for(snapshot, replace(self.memory, asked={"c1-gx-0": often})) == [70]

    def test_has_no_probe_while_there_is_no_place_in_the_regions_queue(self) -> None:
        snapshot = world(
            node("c1-gx-[0,5]", "alloc#"),
            job(51, nodes="c1-gx-0", starts="-2d"),
            request("j51-1", "c1-gx-0", created="-2d"),
            job(70, nodes="c1-gx-5", starts="-10m"),
            settings={"active_requests": 1},
        )
        played = passes(*repeat(snapshot, 3), memory=self.memory)
        assert not played.all.of(MakeRequest)
        assert played.memory.breakers["gx"].probe is None
        told = {one.text for one in played.all.of(JobComment) if one.job == 70}
        assert told == {"flex: in line since 12-01 11:59 UTC: 1 requests wait in us-central1"}


@pytest.mark.parametrize(("minutes", "made"), [(-30, 1), (30, 0)])
def test_a_missing_group_is_made_only_when_its_pool_may_be_asked(minutes: int, made: int) -> None:
    """Where the right to make groups is what is missing, each pass would be refused."""
    breaker = TestAHalfOpenBreaker.memory.breakers["gx"]
    memory = Memory(breakers={"gx": replace(breaker, retry_at=NOON + timedelta(minutes=minutes))})
    snapshot = world(
        no_group("gx"), node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0", starts="-1m")
    )
    assert len(passes(snapshot, memory=memory).all.of(CreateGroup)) == made


class TestALaunchByName:
    """createInstances: what one job gets is one launch, however many nodes it is for."""

    spot = pool("gx", size=8, model="SPOT")

    def waiting(self, *vms: Thing, now: str = "now") -> Snapshot:
        return world(
            self.spot,
            node("c1-gx-[0-3]", "alloc#"),
            job(51, nodes="c1-gx-[0-3]", starts="-20m"),
            *vms,
            now=now,
        )

    def test_that_could_not_be_made_counts_once_and_is_told_once(self) -> None:
        error = ("IP_SPACE_EXHAUSTED", "IP space of 'default' is exhausted.")
        played = passes(self.waiting(instance("c1-gx-[0-3]", None, error=error)))
        assert len(played.memory.launches["gx"]) == 1
        assert not opened(played)
        (told,) = [one for one in played.all.of(Event) if one.event == "REQUEST_FAILED"]
        assert len(told.nodes) == 4

    def test_whose_nodes_fail_for_several_reasons_counts_once_for_each(self) -> None:
        played = passes(
            self.waiting(
                instance("c1-gx-[0-2]", None, error=STOCKOUT),
                instance("c1-gx-3", None, error=NO_PERMISSION),
            )
        )
        outcomes = [one.outcome for one in played.memory.launches["gx"]]
        assert sorted(outcomes) == ["capacity", "permission"]
        assert opened(played)

    def test_none_of_whose_nodes_boots_counts_once(self) -> None:
        played = passes(self.waiting(instance("c1-gx-[0-3]", created="-17m", ends=None)))
        assert [one.outcome for one in played.memory.launches["gx"]] == ["boot"]
        assert not opened(played)

    def test_is_good_when_the_last_of_its_nodes_has_registered(self) -> None:
        vms = instance("c1-gx-[0-3]", created="-5m", ends=None)
        booting = self.waiting(vms)
        some = world(
            self.spot,
            node("c1-gx-[0-2]", "alloc"),
            node("c1-gx-3", "alloc#"),
            job(51, nodes="c1-gx-[0-3]", starts="-20m"),
            vms,
            now="+1m",
        )
        played = passes(booting, some)
        assert not played.memory.launches.get("gx")
        last = world(
            self.spot,
            node("c1-gx-[0-3]", "alloc"),
            job(51, "R", nodes="c1-gx-[0-3]", starts="-20m"),
            vms,
            now="+2m",
        )
        after = passes(last, memory=played.memory)
        assert [one.outcome for one in after.memory.launches["gx"]] == ["good"]

    @pytest.mark.parametrize("then", ["STOPPING", "TERMINATED", None])
    def test_that_was_preempted_before_it_registered_is_lost_and_no_failure_of_the_pool(
        self, then: str | None
    ) -> None:
        booting = self.waiting(instance("c1-gx-[0-3]", created="-1m", ends=None))
        left = (
            *instance("c1-gx-[1-3]", created="-1m", ends=None),
            *(instance("c1-gx-0", then, created="-1m", ends=None) if then else ()),
        )
        taken = [self.waiting(left, now=moment) for moment in ("+30s", "+60s")]
        played = passes(booting, *taken)
        assert "c1-gx-0" in played.all.nodes("node_down")
        assert "VM_LOST" in {one.event for one in played.all.of(Event)}
        assert "BOOT_FAILED" not in {one.event for one in played.all.of(Event)}
        assert not played.memory.launches.get("gx")
        comments = [one.text for one in played.all.of(JobComment)]
        assert any("Spot VM was taken back" in text for text in comments)


def test_who_waits_for_a_pools_next_try_comes_at_once_when_a_person_opens_it() -> None:
    broken = passes(failed(1, NO_PERMISSION, 0))
    off = world(
        node("c1-gx-0", "idle~"),
        job(51, reason="BeginTime", starts="+31m", restarts=1),
        job(60, reason="BeginTime", starts="+5h"),
        now="+5m",
    )
    opened_by_hand = close_breaker(broken.memory, "gx", NOON + timedelta(minutes=5))
    played = passes(off, later(off, "30s"), memory=opened_by_hand)
    starts = [(one.job, one.after) for one in played.all.of(JobStart)]
    assert starts == [(51, timedelta(0))]  # what a user chose for himself stays
    assert not [key for key in played.memory.back_offs if key.startswith(("j51/", "gx/"))]


def test_a_refused_creation_for_several_jobs_leaves_none_of_them_as_asked_for() -> None:
    spot = pool("gx", size=8, model="SPOT")
    waiting = world(
        spot,
        node("c1-gx-[0-3]", "alloc#"),
        job(51, nodes="c1-gx-[0-1]", starts="-10s"),
        job(52, nodes="c1-gx-[2-3]", starts="-10s"),
    )
    asked = passes(waiting)
    (creation,) = asked.all.of(CreateInstances)
    refusal = Answer("gx", None, creation.nodes, *STOCKOUT, at=NOON)
    memory = replace(asked.memory, answers=(refusal,))
    assert not passes(later(waiting, "30s"), memory=memory).memory.sent
    part = replace(asked.memory, answers=(replace(refusal, nodes=("c1-gx-0", "c1-gx-2")),))
    left = passes(later(waiting, "30s"), memory=part).memory.sent
    assert sorted(name for sent in left.values() for name in sent.nodes) == ["c1-gx-1", "c1-gx-3"]
