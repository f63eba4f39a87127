"""Right after a requeue Slurm shows the reason None, and BeginTime only a moment later."""

from __future__ import annotations

from slurm_flex.actions import CancelRequest, JobStart
from tests.builders import instance, job, node, passes, request, world

EXPIRED = "slurm-flex: expired"


def test_a_restart_is_not_forgotten_over_it() -> None:
    up = world(
        node("c1-gx-0", "alloc"),
        job(51, "R", nodes="c1-gx-0", starts="-6d"),
        instance("c1-gx-0", created="-7d", ends="now"),
        now="-30s",
    )
    gone = world(node("c1-gx-0", "alloc"), job(51, "R", nodes="c1-gx-0", starts="-6d"), now="+10s")
    off = node("c1-gx-0", "idle~", reason=EXPIRED, since="+10s")
    unsaid = world(off, job(51, reason="None", restarts=1), now="+60s")
    said = world(off, job(51, reason="BeginTime", starts="+2m10s", restarts=1), now="+65s")
    played = passes(up, gone, unsaid, said)
    assert not played[2].of(JobStart)
    assert played[3].one(JobStart).job == 51


def test_its_request_keeps_its_place_over_it() -> None:
    queued = world(
        node("c1-gx-0", "idle~"),
        job(51, reason="None", restarts=1),
        request("j51-1", "c1-gx-0", created="-5m"),
    )
    assert not passes(queued).all.of(CancelRequest)
