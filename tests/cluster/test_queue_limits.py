"""The queue on a real slurmctld where it concerns all pools: limits, and a daemon that was away."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from functools import partial

import pytest

from slurm_flex.demo.site_files import DemoPool, DemoSite
from slurm_flex.demo.world import World
from tests.cluster.side_by_side import Stage
from tests.cluster.truth import tells_why
from tests.cluster.watch import TICK, Watch

pytestmark = pytest.mark.cluster

RESUME_TIMEOUT = timedelta(seconds=18)
PLACES = 3
SITE = DemoSite(
    name="c1",
    pools=[
        DemoPool("line", dynamic=6),
        DemoPool("heir", dynamic=1),
        DemoPool("away", dynamic=2),
    ],
    settings={
        "resume_timeout": RESUME_TIMEOUT,
        "active_requests": PLACES,
        "suspend_time": timedelta(seconds=6),
    },
)


STAGE = Stage(lambda release: World(SITE, release=release), in_turn=True)


@STAGE.story
def test_of_many_jobs_as_many_are_asked_for_as_may_be_and_the_most_important_is_next(
    queue: Watch,
) -> None:
    faults = queue.world.emulator.faults
    faults.set("stockout", group="c1-line")
    jobs: list[int] = []
    for priority in (900, 800, 700, 500, 400, 600):
        jobs.append(queue.script(f"--priority={priority}", pool="line", text="srun hostname"))
    queue.until(lambda: all(map(queue.is_waiting, jobs)), "Slurm has placed all")
    first, in_line, next_one = jobs[:3], jobs[3:], jobs[5]
    queue.until(lambda: len(queue.live("line")) == PLACES, "as many requests as places")
    for job in first:
        tells_why(queue, job, f"request j{job}-1 accepted")
    for job in in_line:
        tells_why(queue, job, "in line since", f"{PLACES} requests wait")

    queue.cancel(first[1])
    queue.until(lambda: queue.request(f"j{next_one}-1"), "the next one's request")
    assert not [job for job in in_line if queue.request(f"j{job}-1") and job != next_one]
    assert queue.request_is(f"j{first[0]}-1", "ACCEPTED"), "the neighbours stay"

    faults.clear("stockout")
    others = [job for job in jobs if job != first[1]]
    queue.until(lambda: all(queue.request(f"j{job}-1") for job in others), "all are asked for")
    assert queue.most_live("line") == PLACES
    queue.until(lambda: all(queue.state(job) == "COMPLETED" for job in others), "all run", TICK)
    assert [queue.restarts(job) for job in others] == [0] * len(others)
    queue.nothing_is_left_of("line")


@STAGE.story
def test_googles_own_limit_is_no_failure_but_a_place_in_line(queue: Watch) -> None:
    queue.world.emulator.faults.set("stockout", group="c1-line")
    queue.world.emulator.knobs.set(active_resize_requests=1)  # the story after this asks for one
    holder = queue.script(pool="line")
    queue.until(lambda: queue.request_is(f"j{holder}-1", "ACCEPTED"), "the only place is taken")
    second = queue.script(pool="line")
    tells_why(queue, second, "active_requests: ", "ACTIVE_RESIZE_REQUESTS")
    assert queue.is_waiting(second)
    queue.cancel(holder)
    queue.until(lambda: queue.request_is(f"j{second}-1", "ACCEPTED"), "its turn, by its first name")
    assert queue.restarts(second) == 0
    queue.cancel(second)
    queue.nothing_is_left_of("line")


@STAGE.story
def test_a_job_placed_on_the_nodes_of_a_cancelled_one_is_not_caught(queue: Watch) -> None:
    """slurm-flex sees both at once: the one is gone and the other on its nodes."""
    daemon = queue.world.daemon
    queue.world.emulator.faults.set("stockout", group="c1-heir")
    gone = queue.script(pool="heir")
    queue.until(lambda: queue.request_is(f"j{gone}-1", "ACCEPTED"), "the first job's request")
    heir = queue.script(pool="heir")
    assert daemon.pid is not None
    os.kill(daemon.pid, signal.SIGSTOP)
    queue.is_alone = True
    try:
        queue.cancel(gone)
        queue.until(lambda: queue.is_waiting(heir), "the heir gets the node")
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
        queue.is_alone = False

    def is_asked_for() -> bool:
        return any(one["nodes"] == ["c1-heir-0"] for one in queue.requests("heir"))

    tells_why(queue, heir, "RESOURCE_POOL_EXHAUSTED")
    queue.stays(
        lambda: queue.is_waiting(heir) and is_asked_for(),
        "the heir waits with a request",
        timedelta(seconds=8),
    )
    assert queue.restarts(heir) == 0
    assert len(queue.live("heir")) == 1
    queue.cancel(heir)
    queue.nothing_is_left_of("heir")


@STAGE.story
def test_a_daemon_that_was_away_past_resume_timeout_gives_the_job_its_nodes_and_place_back(
    queue: Watch,
) -> None:
    """It hangs at first, so that the hooks find it and don't help themselves."""
    daemon, faults = queue.world.daemon, queue.world.emulator.faults
    faults.set("stockout", group="c1-away")
    job = queue.script("-N2", pool="away", text="srun hostname")
    queue.until(lambda: queue.request_is(f"j{job}-1", "ACCEPTED"), "the request")
    asked, nodes = queue.request(f"j{job}-1"), queue.nodes_of(job)
    assert asked is not None
    assert daemon.pid is not None
    queue.is_alone = True
    os.kill(daemon.pid, signal.SIGSTOP)
    queue.until(
        lambda: queue.state(job) == "PENDING" and "DOWN" in queue.flags("c1-away-0"),
        "ResumeTimeout is reached",
        RESUME_TIMEOUT + TICK,
    )
    daemon.kill()
    daemon.start()
    queue.is_alone = False

    queue.until(partial(queue.is_waiting, job), "the job has nodes again")
    assert queue.nodes_of(job) == nodes
    now = queue.request(f"j{job}-1")
    assert now is not None
    assert now["created"] == asked["created"]
    tells_why(queue, job, f"request j{job}-1 accepted", "RESOURCE_POOL_EXHAUSTED")
    queue.stays(
        lambda: queue.is_waiting(job) and queue.live("away") == [f"j{job}-1"],
        "and keeps them",
        timedelta(seconds=5),
    )
    faults.clear("stockout")
    queue.until(lambda: queue.state(job) == "COMPLETED", "it runs", TICK)
    assert len(queue.asked("away")) == 1
    queue.nothing_is_left_of("away")
