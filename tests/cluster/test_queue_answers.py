"""Requests that wait, fail and come, on a real slurmctld: each story in a pool of its own."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise

import pytest

from tests.cluster.queue_site import (
    LAUNCHES,
    MAX_QUEUE_WAIT,
    NO_CAPACITY,
    QUOTA_BACKOFF,
    RESUME_TIMEOUT,
    STAGE,
)
from tests.cluster.truth import tells_why
from tests.cluster.watch import SOON, TICK, Watch, moment

pytestmark = pytest.mark.cluster

# An error text may hold anything.
NASTY = "No \"IP space\" in 'sub' $(touch /tmp/x) %s 주소 공간이 부족합니다\nsecond line"


@STAGE.story
def test_a_job_without_capacity_keeps_its_place_beyond_resume_timeout_and_whoever_else_goes(
    queue: Watch,
) -> None:
    faults = queue.world.emulator.faults
    stockout = faults.set("stockout", group="c1-dry")
    quitter = queue.script("-N2", pool="dry")
    queue.until(lambda: queue.request(f"j{quitter}-1"), "the first job's request")
    patient = queue.script("-N1", pool="dry", text="srun hostname")
    place = f"j{patient}-1"
    queue.until(lambda: queue.request(place), "the second job's request")
    for job in (quitter, patient):
        tells_why(queue, job, f"request j{job}-1 accepted", f"capacity: {NO_CAPACITY}")
    asked = queue.request(place)
    assert asked is not None

    queue.cancel(quitter)
    queue.until(lambda: not queue.request(f"j{quitter}-1"), "its request is cancelled")
    queue.until(lambda: queue.is_off("c1-dry-0", "c1-dry-1"), "its nodes are off")

    def keeps_its_place() -> bool:
        now = queue.request(place)
        return queue.is_waiting(patient) and now is not None and now["created"] == asked["created"]

    queue.stays(keeps_its_place, "the same request waits", 1.5 * RESUME_TIMEOUT)
    assert queue.restarts(patient) == 0
    tells_why(queue, patient, f"request {place} accepted", NO_CAPACITY)

    # Past max_queue_wait it asks anew, and then there is capacity.
    queue.until(lambda: queue.state(patient) == "PENDING", "sent back", MAX_QUEUE_WAIT)
    tells_why(queue, patient, "no answer for 55 s")
    faults.clear(stockout)
    queue.until(lambda: queue.request(f"j{patient}-2"), "asked for again", TICK)
    queue.until(lambda: queue.state(patient) == "COMPLETED", "it runs", TICK)
    queue.nothing_is_left_of("dry")


def seen_requests(queue: Watch, pool: str) -> list[datetime]:
    """When slurm-flex first saw each of its requests: those that fail at once aren't there long."""
    return [
        moment(event["time"])
        for event in json.loads(queue.world.flex("events", "--json"))
        if event["kind"] == "REQUEST_CREATED" and f"c1-{pool}-" in (event["nodes"] or "")
    ]


@STAGE.story
def test_an_exceeded_quota_is_asked_for_ever_more_seldom_and_then_no_more(queue: Watch) -> None:
    queue.world.emulator.faults.set("quota_on_insert", group="c1-quota")
    job = queue.script("-N2", pool="quota")
    for attempt in range(1, LAUNCHES + 1):
        queue.until(
            lambda n=attempt: queue.state(job) == "PENDING" and queue.restarts(job) == n,  # type: ignore[misc]
            f"sent back for the {attempt}. time",
            TICK,
        )
        tells_why(queue, job, "retry at", "quota: QUOTA_EXCEEDED", "PREEMPTIBLE_NVIDIA_H200_GPUS")
        queue.until(lambda: queue.is_off("c1-quota-0", "c1-quota-1"), "its nodes are off")
    times = seen_requests(queue, "quota")
    for number, (before, after) in enumerate(pairwise(times)):
        assert after - before >= 0.9 * QUOTA_BACKOFF * 2**number - timedelta(seconds=2), times

    # Three launches of a node an hour are allowed here: the breaker opens, for all to see.
    queue.until(lambda: queue.is_waiting(job), "placed again", TICK)
    tells_why(queue, job, "pool quota failed", "asked for 3 times")
    (pool,) = [
        one
        for one in json.loads(queue.world.flex("status", "--json"))["pools"]
        if one["pool"] == "quota"
    ]
    assert pool["breaker"]["failure"] == "loop"
    assert [wait["failure"] for wait in pool["back_offs"]] in ([], ["quota"])
    assert len(seen_requests(queue, "quota")) == len(times) == LAUNCHES
    queue.cancel(job)
    queue.nothing_is_left_of("quota")


@STAGE.story
def test_a_request_that_failed_sends_its_job_back_with_the_reason_and_is_made_again(
    queue: Watch,
) -> None:
    faults = queue.world.emulator.faults
    stockout = faults.set("stockout", group="c1-failing")
    job = queue.script(pool="failing", text="srun hostname")
    queue.until(lambda: queue.request(f"j{job}-1"), "the request")
    faults.set(
        "request_fails", group="c1-failing", times=1, code="IP_SPACE_EXHAUSTED", message=NASTY
    )
    queue.until(lambda: queue.state(job) == "PENDING", "sent back")
    tells_why(queue, job, "retry at", "ip_space: IP_SPACE_EXHAUSTED", "주소 공간이", "second line")
    queue.until(lambda: queue.is_off("c1-failing-0"), "its node is off, not DOWN")
    queue.until(lambda: queue.request(f"j{job}-2"), "asked for again", TICK)
    tells_why(queue, job, f"request j{job}-2 accepted", NO_CAPACITY)
    assert not queue.request(f"j{job}-1"), "what failed is forgotten"
    faults.clear(stockout)
    queue.until(lambda: queue.state(job) == "COMPLETED", "it runs", TICK)
    queue.nothing_is_left_of("failing")


@STAGE.story
def test_of_a_job_whose_second_vm_fails_nothing_stays_and_the_whole_is_asked_for_again(
    queue: Watch,
) -> None:
    faults = queue.world.emulator.faults
    faults.set("partial_provisioning", group="c1-part", times=1, code=NO_CAPACITY)
    job = queue.script("-N2", pool="part", text="srun hostname")
    queue.until(lambda: queue.request(f"j{job}-1"), "the request")
    queue.until(lambda: queue.state(job) == "PENDING", "sent back")
    tells_why(queue, job, "retry at", f"capacity: {NO_CAPACITY}")
    queue.until(lambda: queue.request(f"j{job}-2"), "asked for again", TICK)
    queue.until(lambda: queue.state(job) == "COMPLETED", "it runs", TICK)
    assert sorted(queue.slurm.output(job).split()) == ["c1-part-0", "c1-part-1"]
    queue.nothing_is_left_of("part")


@STAGE.story
def test_an_interactive_job_waits_as_long_as_any_and_is_told_before_it_is_ended(
    queue: Watch,
) -> None:
    faults = queue.world.emulator.faults
    faults.set("stockout", group="c1-talk")
    srun = subprocess.Popen(
        [queue.slurm.bin_dir / "srun", "-p", "talk", "--exclusive", "hostname"],
        env=queue.slurm.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    queue.until(lambda: queue.requests("talk"), "the request")
    (job,) = [key for key, one in queue.look().jobs.items() if one["Partition"] == "talk"]
    tells_why(queue, job, f"request j{job}-1 accepted", NO_CAPACITY)
    queue.stays(partial(queue.is_waiting, job), "it waits", 1.5 * RESUME_TIMEOUT)
    assert srun.poll() is None
    faults.set("request_fails", group="c1-talk", times=1, code=NO_CAPACITY)
    try:
        printed, told = srun.communicate(timeout=SOON.total_seconds())
    except subprocess.TimeoutExpired:
        srun.kill()
        raise
    assert srun.returncode != 0
    assert printed == ""
    assert f"flex: capacity: {NO_CAPACITY}" in told
    assert "can't requeue" in told
    queue.nothing_is_left_of("talk")


@STAGE.story
def test_vms_that_come_although_their_job_has_gone_are_given_back(queue: Watch) -> None:
    faults = queue.world.emulator.faults
    faults.set("stockout", group="c1-late")
    for shape in ("http", "operation"):
        job = queue.script("-N2", pool="late")
        queue.until(lambda j=job: queue.request_is(f"j{j}-1", "ACCEPTED"), "the request")  # type: ignore[misc]
        faults.set("cancel_race", group="c1-late", shape=shape, times=1)
        queue.cancel(job)
        queue.until(lambda: queue.vms("late"), f"the VMs come all the same ({shape})")
        queue.nothing_is_left_of("late")
    assert {name.partition("-")[2] for name, _ in queue.asked("late")} == {"1"}


@STAGE.story
def test_a_job_that_waited_too_long_goes_to_the_partitions_next_pool(queue: Watch) -> None:
    queue.world.emulator.faults.set("stockout", group="c1-first")
    job = queue.script(pool="two", text="srun hostname")
    queue.until(lambda: queue.request(f"j{job}-1"), "the request")
    assert queue.nodes_of(job) == ("c1-first-0",)
    tells_why(queue, job, f"request j{job}-1 accepted", NO_CAPACITY)
    queue.until(
        lambda: queue.state(job) == "PENDING", "sent back", MAX_QUEUE_WAIT + timedelta(seconds=15)
    )
    tells_why(queue, job, "retry at", "no answer for 55 s")
    queue.until(lambda: queue.vms("second"), "a VM of the second pool", TICK)
    assert queue.nodes_of(job) == ("c1-second-0",)
    assert not queue.live("first")
    queue.until(lambda: queue.state(job) == "COMPLETED", "it runs", TICK)
    assert queue.slurm.output(job).split() == ["c1-second-0"]
    queue.nothing_is_left_of("second")
    queue.nothing_is_left_of("first")
