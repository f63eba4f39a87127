"""Jobs of several parts in the queue, and what people do to jobs, nodes and pools that wait."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.cluster.queue_site import NO_CAPACITY, STAGE
from tests.cluster.truth import tells_why
from tests.cluster.watch import TICK, Watch

pytestmark = pytest.mark.cluster


@STAGE.story
def test_the_components_of_a_heterogeneous_job_wait_fail_and_run_together(queue: Watch) -> None:
    faults = queue.world.emulator.faults
    stockout = faults.set("stockout", group="c1-both")
    part = ("-p", "both", "--exclusive", "-N1")
    leader = queue.slurm.sbatch(*part, ":", *part, script="#!/bin/bash\nhostname\n")
    parts = (leader, leader + 1)
    queue.until(lambda: all(map(queue.is_waiting, parts)), "both have a node", TICK)
    queue.until(lambda: queue.request(f"j{leader}-1"), "the request")
    for job in parts:
        tells_why(queue, job, f"request j{leader}-1 accepted", NO_CAPACITY)
    faults.set("request_fails", group="c1-both", times=1, code=NO_CAPACITY)
    queue.until(lambda: all(queue.state(job) == "PENDING" for job in parts), "both are sent back")
    queue.until(lambda: queue.request(f"j{leader}-2"), "both are asked for again", TICK)
    assert {len(one["nodes"]) for one in queue.requests("both")} == {2}
    faults.clear(stockout)
    queue.until(lambda: queue.state(leader) == "COMPLETED", "it runs", TICK)
    assert [name for name, _ in queue.asked("both")] == [f"j{leader}-1", f"j{leader}-2"]
    queue.nothing_is_left_of("both")


@STAGE.story
def test_half_of_a_job_that_came_is_given_back_and_the_whole_asked_for(queue: Watch) -> None:
    faults = queue.world.emulator.faults
    first = queue.script(pool="half", text="true")
    queue.until(lambda: queue.state(first) == "COMPLETED", "one node is up", TICK)
    stockout = faults.set("stockout", group="c1-half")
    job = queue.script("-N2", pool="half", text="srun hostname")
    queue.until(lambda: queue.request(f"j{job}-1"), "the other half is asked for")
    assert queue.requests("half")[-1]["nodes"] == ["c1-half-1"]
    assert queue.vms("half")
    why = "part of its nodes waited 15 s for the rest"
    queue.until(lambda: f"UTC: {why}" in queue.comment(job), "sent back with the reason")
    queue.until(lambda: not queue.vms("half"), "the half that came is given back")
    queue.until(lambda: queue.request(f"j{job}-2"), "asked for again", TICK)
    assert queue.requests("half")[-1]["nodes"] == ["c1-half-0", "c1-half-1"]
    faults.clear(stockout)
    queue.until(lambda: queue.state(job) == "COMPLETED", "it runs", TICK)
    queue.nothing_is_left_of("half")


@STAGE.story
def test_a_paused_pool_is_asked_for_nothing_and_its_jobs_say_so(queue: Watch) -> None:
    queue.world.flex("pause", "shut")
    job = queue.script(pool="shut")
    queue.until(lambda: queue.is_waiting(job), "it has a node")
    tells_why(queue, job, "pool shut is paused")
    queue.stays(lambda: not queue.requests("shut"), "nothing is asked", timedelta(seconds=20))
    assert queue.is_waiting(job), "ResumeTimeout doesn't run out meanwhile"
    queue.world.flex("unpause", "shut")
    queue.until(lambda: queue.vms("shut"), "its VM comes")
    assert queue.restarts(job) == 0
    queue.cancel(job)
    queue.nothing_is_left_of("shut")


@STAGE.story
def test_a_job_that_its_user_requeues_keeps_its_place(queue: Watch) -> None:
    queue.world.emulator.faults.set("stockout", group="c1-again")
    job = queue.script(pool="again")
    queue.until(lambda: queue.request_is(f"j{job}-1", "ACCEPTED"), "the request")
    (before,) = queue.requests("again")
    queue.slurm.scontrol("requeue", str(job))
    queue.until(lambda: queue.restarts(job) == 1, "it begins anew")
    queue.until(
        lambda: queue.is_waiting(job) or queue.job(job)["Reason"] == "BeginTime", "it is known when"
    )
    if not queue.is_waiting(job):  # from 23.02 it would be two minutes
        queue.slurm.scontrol("update", f"jobid={job}", "starttime=now")
    queue.until(lambda: queue.is_waiting(job), "it has its node again")
    tells_why(queue, job, f"request j{job}-1 accepted", NO_CAPACITY)
    (after,) = queue.requests("again")
    assert after["created"] == before["created"]
    queue.cancel(job)
    queue.nothing_is_left_of("again")


@STAGE.story
def test_the_tasks_of_an_array_wait_and_go_each_on_its_own(queue: Watch) -> None:
    faults = queue.world.emulator.faults
    stockout = faults.set("stockout", group="c1-tasks")
    array = queue.script("--array=0-2", pool="tasks", text="echo task $SLURM_ARRAY_TASK_ID")
    queue.until(lambda: len(queue.live("tasks")) == 2, "a request for each task with a node")
    ids = {
        record["ArrayTaskId"]: job
        for job, record in queue.look().jobs.items()
        if record.get("ArrayJobId") == str(array)
    }
    for task in ("0", "1"):
        tells_why(queue, ids[task], f"request j{ids[task]}-1 accepted", NO_CAPACITY)
    assert not queue.comment(ids["2"]), "what has no node waits for Slurm"
    # By the id of the task alone 22.05 doesn't find it while it is CONFIGURING.
    queue.slurm.scancel(f"{array}_0")
    queue.until(lambda: queue.is_waiting(ids["2"]), "the third has a node")
    tells_why(queue, ids["2"], NO_CAPACITY)
    assert len(queue.live("tasks")) == 2
    faults.clear(stockout)
    for task in ("1", "2"):
        queue.until(lambda job=ids[task]: queue.state(job) == "COMPLETED", "it runs", TICK)  # type: ignore[misc]
    assert queue.restarts(ids["1"]) == 0
    queue.nothing_is_left_of("tasks")


@STAGE.story
def test_a_node_that_an_admin_powers_up_and_down_again_is_asked_for_and_given_up(
    queue: Watch,
) -> None:
    node = "nodename=c1-hand-0"
    queue.world.emulator.faults.set("stockout", group="c1-hand")
    queue.slurm.scontrol("update", node, "state=power_up")
    queue.until(lambda: queue.live("hand"), "a request")
    queue.stays(lambda: queue.live("hand"), "it is followed", timedelta(seconds=20))
    assert "POWERING_UP" in queue.flags("c1-hand-0")
    queue.slurm.scontrol("update", node, "state=power_down_force", "reason=changed my mind")
    queue.nothing_is_left_of("hand")
    assert len(queue.asked("hand")) == 1
