"""Who is asked for first, how often and under which name (DESIGN: rule `launch`)."""

from __future__ import annotations

from dataclasses import replace

from slurm_flex.actions import MakeRequest
from slurm_flex.model import Memory
from tests.builders import (
    decide,
    half_seen,
    hosts,
    instance,
    job,
    later,
    node,
    passes,
    pool,
    request,
    world,
)


def test_a_request_just_sent_and_not_yet_listed_is_not_sent_again() -> None:
    """Scenario 14: lists lag behind inserts."""
    snapshot = world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0"))
    played = passes(snapshot, later(snapshot, "5s"), later(snapshot, "30s"))
    assert len(played.all.of(MakeRequest)) == 1


def test_with_memory_lost_a_listed_request_is_adopted() -> None:
    """Scenarios 61 and 86: truth is read back from the cloud."""
    acts = decide(
        world(
            node("c1-gx-[0-1]", "alloc#"),
            job(51, nodes="c1-gx-[0-1]"),
            request("j51-3", "c1-gx-[0-1]", "CREATING", created="-5s"),
        ),
        Memory(),
    )
    assert not acts.of(MakeRequest)


def test_the_next_attempt_takes_the_next_number() -> None:
    """Scenario 86: a terminal request of an earlier try keeps its name."""
    acts = decide(
        world(
            node("c1-gx-0", "alloc#"),
            job(51, nodes="c1-gx-0", starts="-10s"),
            request("j51-4", "c1-gx-0", "CANCELLED", created="-2h"),
        )
    )
    assert [one.name for one in acts.of(MakeRequest)] in ([], ["j51-5"])
    snapshot = world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0", starts="-10s"), now="+30s")
    old = request("j51-4", "c1-gx-0", "SUCCEEDED", created="-8d")
    busy = world(
        node("c1-gx-0", "alloc#"),
        job(51, nodes="c1-gx-0", starts="-10s"),
        old,
        node("c1-gx-1", "alloc"),
    )
    played = passes(busy, snapshot)
    names = [one.name for one in played.all.of(MakeRequest)]
    assert names == ["j51-5"]


def test_more_jobs_than_places_go_by_priority_then_age_and_the_rest_stand_in_line() -> None:
    """Scenario 83."""
    things = [
        thing
        for n in range(150)
        for thing in (
            node(f"c1-gx-{n}", "alloc#"),
            job(100 + n, nodes=f"c1-gx-{n}", priority=n, submitted=f"-{n + 1}m"),
        )
    ]
    snapshot = world(pool("gx", size=150), *things)
    played = passes(snapshot)
    sent = played[0].of(MakeRequest)
    assert {one.job for one in sent} == set(range(150, 250))
    # Thirty are answered: thirty places are free, and go to the next in line.
    listed = [
        request(one.name, one.nodes[0], "ACCEPTED" if at >= 30 else "SUCCEEDED", created="-1m")
        for at, one in enumerate(sent)
    ]
    vms = [instance(one.nodes[0], created="-30s") for one in sent[:30]]
    again = world(pool("gx", size=150), *things, *listed, *vms, now="+1m")
    second = passes(again, memory=played.memory)[0].of(MakeRequest)
    assert {one.job for one in second} == set(range(120, 150))


def test_of_equal_priority_the_older_job_goes_first() -> None:
    snapshot = world(
        node("c1-gx-[0-1]", "alloc#"),
        job(51, nodes="c1-gx-0", submitted="-1h"),
        job(52, nodes="c1-gx-1", submitted="-2h"),
        settings={"active_requests": 1},
    )
    assert [one.job for one in decide(snapshot).of(MakeRequest)] == [52]


def test_the_limit_of_active_requests_is_a_regions_over_all_pools() -> None:
    acts = decide(
        world(
            pool("gx", size=2),
            pool("gy", size=2),
            node("c1-gx-[0-1]", "alloc#"),
            node("c1-gy-0", "alloc#"),
            job(51, nodes="c1-gx-0"),
            job(52, nodes="c1-gx-1"),
            job(53, nodes="c1-gy-0", partition="gy", priority=5000),
            request("j51-1", "c1-gx-0"),
            settings={"active_requests": 2},
        )
    )
    assert [one.job for one in acts.of(MakeRequest)] == [53]


def test_a_request_that_never_shows_up_is_not_sent_for_ever_under_new_names() -> None:
    """launches_per_node_hour: at most six an hour. The same name again is the same request."""
    snapshot = world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0"))
    hour = [later(snapshot, f"{n * 30}s") for n in range(120)]
    sent = passes(*hour).all.of(MakeRequest)
    assert len({one.name for one in sent}) <= 6
    assert len(sent) <= 40


def test_a_request_that_no_list_shows_is_sent_again_only_for_who_still_waits() -> None:
    """It was answered and deleted in a pass whose memory was lost; its nodes went to others."""
    sent = world(node("c1-gx-[0-2]", "alloc#"), job(106, nodes="c1-gx-[0-2]", starts="-10s"))
    moved_on = world(
        node("c1-gx-[0-1]", "alloc#"),
        node("c1-gx-2", "idle~"),
        job(106, reason="BeginTime", starts="+4m", size=3, restarts=1),
        job(117, nodes="c1-gx-[0-1]", starts="+2m20s"),
        now="+2m30s",
    )
    played = passes(sent, moved_on, later(moved_on, "30s"), later(moved_on, "150s"))
    again = [one for acts in played.passes[1:] for one in acts.of(MakeRequest)]
    assert again
    assert {one.nodes for one in again} == {hosts("c1-gx-[0-1]")}
    assert {one.job for one in again} == {117}


def test_a_lost_request_of_a_paused_pool_is_sent_again_when_the_pause_is_over() -> None:
    """Nobody knows whether it arrived: sent again now, it may be something new."""
    waiting = world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0", starts="-10s"))
    paused = replace(waiting, paused_pools=frozenset({"gx"}))
    pause = [later(paused, f"{minutes}m") for minutes in range(1, 20)]
    played = passes(waiting, *pause)
    assert [one.name for one in played.all.of(MakeRequest)] == ["j51-1"]
    after = passes(later(waiting, "20m"), memory=played.memory)
    assert [one.name for one in after.all.of(MakeRequest)] == ["j51-1"]


def test_requests_of_a_pool_that_cant_be_read_keep_their_places() -> None:
    two = (pool("gx", size=2), pool("gy", size=2))
    other = (node("c1-gy-0", "alloc#"), job(53, nodes="c1-gy-0", partition="gy"))
    limit = {"active_requests": 2}
    seen = world(*two, *other, settings=limit)
    listed = world(*two, *other, request("j53-1", "c1-gy-0"), settings=limit, now="+30s")
    hidden = world(
        *two,
        *other,
        half_seen("gy"),
        node("c1-gx-[0-1]", "alloc#"),
        job(51, nodes="c1-gx-0"),
        job(52, nodes="c1-gx-1"),
        settings=limit,
        now="+60s",
    )
    played = passes(seen, listed, hidden, later(hidden, "30s"))
    asked = [one.job for acts in played.passes[2:] for one in acts.of(MakeRequest)]
    assert asked == [51]
