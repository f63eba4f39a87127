"""Slurm writes its own 120 s over a shorter back-off once the old run's last step has ended."""

from __future__ import annotations

from datetime import timedelta

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
