"""Slurm writes its own 120 s over a shorter back-off once the old run's last step has ended."""

from __future__ import annotations

from datetime import timedelta

import pytest

from slurm_flex.actions import JobStart
from tests.builders import STOCKOUT, Acts, job, node, passes, request, world

FAILED = world(
    node("c1-gx-0", "alloc#"),
    job(51, nodes="c1-gx-0", starts="-1h"),
    request("j51-1", "c1-gx-0", "FAILED", created="-1h", error=STOCKOUT),
    settings={"capacity_backoff": "20s", "capacity_backoff_max": "20s"},
)


def after(starts: str) -> Acts:
    requeued = world(
        node("c1-gx-0", "idle%"),
        job(51, reason="BeginTime", starts=starts, restarts=1),
        now="+5s",
        settings={"capacity_backoff": "20s", "capacity_backoff_max": "20s"},
    )
    return passes(FAILED, requeued).last


def test_the_penalty_gives_way_to_the_shorter_back_off() -> None:
    assert after("+2m5s").one(JobStart).after < timedelta(seconds=20)


def test_a_later_start_is_the_users_and_stays() -> None:
    assert not after("+3h").of(JobStart)


def when_the_back_off_is_over(starts: str, seen: str = "+40s", state: str = "PD") -> Acts:
    """One of its nodes took longer to let the old run go."""
    settings = {"capacity_backoff": "20s", "capacity_backoff_max": "20s"}
    off = node("c1-gx-[0-1]", "idle~")
    tried = world(off, job(51, state, reason="None", restarts=1), now="+30s", settings=settings)
    put_off = job(51, reason="BeginTime", starts=starts, restarts=1)
    return passes(FAILED, tried, world(off, put_off, now=seen, settings=settings)).last


@pytest.mark.parametrize("state", ["CG", "PD"])
def test_the_penalty_is_lifted_though_it_came_when_the_back_off_was_over(state: str) -> None:
    """R 22.05.8: 0.9 s after the end of the back-off; the job is COMPLETING until then."""
    acts = when_the_back_off_is_over("+2m35s", state=state)
    assert acts.one(JobStart).after == timedelta(0)


def test_a_later_start_stays_then_too() -> None:
    assert not when_the_back_off_is_over("+3h").of(JobStart)


def test_the_back_off_of_the_next_failure_stays() -> None:
    settings = {"capacity_backoff": "20s", "capacity_backoff_max": "100s"}
    placed = (node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0", starts="+35s", restarts=1))
    fails = request("j51-2", "c1-gx-0", "FAILED", created="+36s", error=STOCKOUT)
    put_off = job(51, reason="BeginTime", starts="+1m20s", restarts=2)
    played = passes(
        FAILED,
        world(*placed, now="+35s", settings=settings),
        world(*placed, fails, now="+40s", settings=settings),
        world(node("c1-gx-0", "idle%"), put_off, now="+42s", settings=settings),
        world(node("c1-gx-0", "idle%"), put_off, now="+44s", settings=settings),
    )
    assert timedelta(seconds=30) < played.passes[2].one(JobStart).after
    assert all(one.after for acts in played.passes[3:] for one in acts.of(JobStart))


def test_so_does_one_that_comes_long_after() -> None:
    assert not when_the_back_off_is_over("+5m", seen="+3m30s").of(JobStart)


def test_the_penalty_of_a_node_that_the_next_try_lost_stays() -> None:
    """The job was placed again within the minute: what it waits for now is another story."""
    settings = {"capacity_backoff": "20s", "capacity_backoff_max": "20s"}
    off = node("c1-gx-[0-1]", "idle~")
    over = world(off, job(51, reason="None", restarts=1), now="+30s", settings=settings)
    placed = world(
        node("c1-gx-0", "alloc"),
        job(51, "R", nodes="c1-gx-0", starts="+35s", restarts=1),
        now="+40s",
        settings=settings,
    )
    lost = job(51, reason="BeginTime", starts="+2m42s", restarts=2)
    put_off = world(off, lost, now="+50s", settings=settings)
    assert not passes(FAILED, over, placed, put_off).last.of(JobStart)
