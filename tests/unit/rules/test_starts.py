"""A job starts again at one time, and its comment tells that one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from slurm_flex.actions import JobComment, JobStart
from slurm_flex.model import Memory, Snapshot
from slurm_flex.model.memory import Delay, Restart
from tests.builders import (
    STOCKOUT,
    Acts,
    at,
    instance,
    job,
    later,
    node,
    passes,
    request,
    world,
)

EXPIRED = "slurm-flex: expired"


def started(acts: Acts) -> timedelta:
    return acts.one(JobStart).after


def told(acts: Acts) -> str:
    return acts.one(JobComment).text


def of_two_nodes(back_off: str, *, now: str) -> Snapshot:
    """c1-gx-0 ended at noon under a job whose other node still waits for its VM."""
    return world(
        node("c1-gx-0", "alloc"),
        node("c1-gx-1", "alloc#"),
        instance("c1-gx-0", created="-7d", ends="now") if now[0] == "-" else (),
        request("j51-2", "c1-gx-1", "FAILED", created="-10m", error=STOCKOUT)
        if now[0] == "+"
        else request("j51-2", "c1-gx-1", created="-10m"),
        job(51, nodes="c1-gx-[0-1]", starts="-10m"),
        now=now,
        settings={"capacity_backoff": back_off},
    )


@pytest.mark.parametrize("back_off", ["100s", "10m"])
def test_a_failure_in_the_same_pass_as_an_expiry_is_waited_out(back_off: str) -> None:
    """The end of its node is nobody's fault; the request that failed waits its back-off."""
    off = world(
        node("c1-gx-[0-1]", "idle~", reason=EXPIRED, since="+10s"),
        job(51, size=2, reason="BeginTime", starts="+2m10s", restarts=1),
        now="+75s",
    )
    played = passes(of_two_nodes(back_off, now="-30s"), of_two_nodes(back_off, now="+10s"), off)
    until = at("+10s") + started(played[1])
    assert started(played[1]) > timedelta(seconds=80)
    assert all(off.now + one.after == until for one in played[2].of(JobStart))
    assert f"retry at {until:%m-%d %H:%M} UTC" in told(played[2])


def test_a_back_off_of_an_earlier_try_ends_with_the_run_that_somebody_allowed_after_it() -> None:
    """Let go early, it ran, and its node expired: it starts at once."""
    waits = Memory(delays={"51": Delay(at("+3h"), "capacity: no room")})
    runs = job(51, "R", nodes="c1-gx-0", starts="-20s")
    up = world(
        node("c1-gx-0", "alloc"), instance("c1-gx-0", created="-7d", ends="now"), runs, now="-5s"
    )
    gone = world(node("c1-gx-0", "alloc"), runs, now="+10s")
    off = world(
        node("c1-gx-0", "idle~", reason=EXPIRED, since="+10s"),
        job(51, reason="BeginTime", starts="+2m10s", restarts=1),
        now="+75s",
    )
    played = passes(up, gone, off, later(off, "5s"), memory=waits)
    assert started(played[2]) == timedelta(0)
    assert not [one for one in played.all.of(JobComment) if "retry at" in one.text]


def test_a_restart_that_was_decided_on_outweighs_a_back_off_of_another_life() -> None:
    """A memory that holds both, as earlier releases wrote them."""
    both = Memory(
        delays={"51": Delay(at("+3h"), "capacity: no room")},
        restarts={"51": Restart(("c1-gx-0",), {"c1-gx-0": "11"}, at("now"))},
    )
    off = world(
        node("c1-gx-0", "idle~", reason=EXPIRED, since="now"),
        job(51, reason="BeginTime", starts="+2m", restarts=1),
        now="+75s",
    )
    played = passes(off, memory=both)
    assert started(played.last) == timedelta(0)
    assert not played.last.of(JobComment)
    assert not played.memory.delays


@pytest.mark.parametrize("state", ["alloc#", "alloc"])
def test_a_job_that_is_placed_before_its_time_isnt_said_to_be_tried_later(state: str) -> None:
    """Its user lifted the start time."""
    memory = Memory(delays={"51": Delay(at("+3h"), "capacity: no room")})
    comment = "flex: retry at 12-01 15:00 UTC: capacity: no room"
    placed = world(
        node("c1-gx-0", state),
        job(51, nodes="c1-gx-0", starts="-2m", admin_comment=comment),
        request("j51-2", "c1-gx-0", created="-2m")
        if state == "alloc#"
        else instance("c1-gx-0", created="-1m"),
    )
    if state == "alloc":
        running = tuple(replace(one, state="RUNNING") for one in placed.slurm.jobs)
        placed = replace(placed, slurm=replace(placed.slurm, jobs=running))
    played = passes(*(later(placed, f"{n * 30}s") for n in range(4)), memory=memory)
    assert all("retry at" not in one.text for one in played.all.of(JobComment))
    assert played.all.of(JobComment)
    assert not played.memory.delays
