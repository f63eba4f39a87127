"""One request for exactly the nodes that jobs wait for (DESIGN: rule `launch`)."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from slurm_flex.actions import CreateGroup, CreateInstances, MakeRequest
from tests.builders import (
    Acts,
    decide,
    hosts,
    instance,
    job,
    later,
    no_group,
    node,
    passes,
    pool,
    request,
    world,
)


def asked(acts: Acts) -> list[tuple[str, ...]]:
    return [action.nodes for action in acts.of(MakeRequest)]


def beside_re_arming(acts: Acts) -> Acts:
    """What is done apart from reserving the end, and from starting a ResumeTimeout anew (which is
    harmless, and due where there is no memory)."""
    return acts.beside("node_power_up", "reserve")


def test_a_job_whose_nodes_power_up_gets_one_request_for_all_of_them() -> None:
    acts = decide(world(node("c1-gx-[0-3]", "alloc#"), job(51, nodes="c1-gx-[0-3]")))
    made = acts.one(MakeRequest)
    assert made.pool == "gx"
    assert made.name == "j51-1"
    assert made.nodes == hosts("c1-gx-[0-3]")
    assert made.job == 51
    assert made.run_duration == timedelta(days=7)


def test_nodes_that_a_slow_resume_rate_holds_back_are_in_the_same_request() -> None:
    """Slurm hands a job over in parts: the rest are still ALLOCATED and POWERED_DOWN."""
    acts = decide(
        world(
            node("c1-gx-[0-1]", "alloc#"),
            node("c1-gx-[2-3]", "alloc~"),
            job(51, nodes="c1-gx-[0-3]"),
        )
    )
    assert asked(acts) == [hosts("c1-gx-[0-3]")]


def test_a_job_none_of_whose_nodes_powers_up_yet_waits_for_slurm() -> None:
    """The row begins: one of a job's nodes powers up."""
    acts = decide(world(node("c1-gx-0", "alloc~"), job(51, nodes="c1-gx-0")))
    assert len(acts.of(MakeRequest)) <= 1
    assert not acts.kinds() - {"request"}


def test_a_node_that_nobody_powers_up_gets_no_request() -> None:
    assert not decide(world(job(51, size=2))).changes


def test_a_node_with_a_request_of_half_a_minute_is_left_alone() -> None:
    """Scenario 1."""
    snapshot = world(
        node("c1-gx-0", "alloc#"),
        job(51, nodes="c1-gx-0"),
        request("j51-1", "c1-gx-0", created="-30s"),
    )
    played = passes(snapshot, later(snapshot, "30s"))
    assert not beside_re_arming(played[0])
    assert not played[1].changes


def test_a_request_that_queues_within_the_allowed_wait_is_left_alone() -> None:
    """Scenario 2."""
    snapshot = world(
        node("c1-gx-0", "alloc#"),
        job(51, nodes="c1-gx-0"),
        request("j51-1", "c1-gx-0", created="-20m"),
        instance("c1-gx-0", None),
    )
    played = passes(snapshot, later(snapshot, "30s"))
    assert not beside_re_arming(played[0])
    assert not played[1].changes


def test_a_node_powered_up_by_hand_is_asked_for_on_its_own() -> None:
    """Scenario 10: it is in no job of the resume file."""
    acts = decide(world(node("c1-gx-[0-1]", "idle#")))
    made = acts.of(MakeRequest)
    assert sorted(asked(acts)) == [("c1-gx-0",), ("c1-gx-1",)]
    assert all(one.job is None for one in made)
    assert all(re.fullmatch(r"m-[0-9a-f]{8}-\d+", one.name) for one in made)
    assert len({one.name for one in made}) == 2


def test_a_static_node_is_asked_for_under_its_index() -> None:
    acts = decide(world(pool("gx", static=2), node("c1-gx-[0-1]", "idle#")))
    assert sorted(one.name for one in acts.of(MakeRequest)) == ["s0-1", "s1-1"]


def test_a_node_whose_vm_runs_is_not_asked_for_again() -> None:
    """Scenario 12."""
    acts = decide(
        world(
            node("c1-gx-0", "alloc#"),
            job(51, nodes="c1-gx-0"),
            instance("c1-gx-0", created="-2m"),
        )
    )
    assert not beside_re_arming(acts)


@pytest.mark.parametrize("status", ["PROVISIONING", "STAGING", "REPAIRING", "NEW_IN_2031"])
def test_a_vm_on_its_way_counts_as_there(status: str) -> None:
    """Scenario 39, also for a status that Google may yet invent."""
    acts = decide(
        world(
            node("c1-gx-0", "alloc#"),
            job(51, nodes="c1-gx-0"),
            instance("c1-gx-0", status, created="-1m", ends=None),
        )
    )
    assert not beside_re_arming(acts)


@pytest.mark.parametrize("status", ["TERMINATED", "STOPPED", "SUSPENDED"])
def test_a_dead_namesake_is_deleted_first(status: str) -> None:
    """It would stand in the way for ever: nobody else deletes it."""
    dead = world(
        node("c1-gx-0", "alloc#"),
        job(51, nodes="c1-gx-0", starts="-10s"),
        instance("c1-gx-0", status, created="-2d", ends="+5d"),
    )
    gone = world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0", starts="-10s"), now="+30s")
    played = passes(dead, gone)
    assert played[0].nodes("delete_instances") == {"c1-gx-0"}
    assert not played[0].of(MakeRequest)
    assert asked(played[1]) == [("c1-gx-0",)]


@pytest.mark.parametrize(("status", "action"), [("STOPPING", "NONE"), ("RUNNING", "DELETING")])
def test_a_dying_namesake_is_waited_for(status: str, action: str) -> None:
    """Scenario 13: never adopted, and no second VM of the same name."""
    dying = world(
        node("c1-gx-0", "alloc#"),
        job(51, nodes="c1-gx-0"),
        instance("c1-gx-0", status, action=action, created="-7d", ends="-20s"),
    )
    gone = world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0"), now="+30s")
    played = passes(dying, gone)
    assert not played[0].of(MakeRequest)
    assert asked(played[1]) == [("c1-gx-0",)]


def test_only_the_missing_nodes_of_a_job_are_asked_for() -> None:
    """Scenario 84: eight nodes, three of them up."""
    acts = decide(
        world(
            node("c1-gx-[0-2]", "alloc"),
            instance("c1-gx-[0-2]", created="-1h"),
            node("c1-gx-[3-7]", "alloc#"),
            job(51, nodes="c1-gx-[0-7]"),
        )
    )
    assert asked(acts) == [hosts("c1-gx-[3-7]")]


def test_a_node_that_two_jobs_share_is_in_one_request() -> None:
    """Scenario 85."""
    acts = decide(
        world(
            node("c1-gx-0", "mix#"),
            job(51, nodes="c1-gx-0", exclusive=False),
            job(52, nodes="c1-gx-0", exclusive=False),
        )
    )
    assert asked(acts) == [("c1-gx-0",)]


def test_a_job_over_two_pools_is_asked_for_pool_by_pool() -> None:
    acts = decide(
        world(
            pool("gx", size=2),
            pool("gy", size=2),
            node("c1-gx-[0-1]", "alloc#"),
            node("c1-gy-0", "alloc#"),
            job(51, nodes="c1-gx-[0-1],c1-gy-0", partition="all"),
            partitions={"all": "gx,gy"},
        )
    )
    assert {(one.pool, one.nodes) for one in acts.of(MakeRequest)} == {
        ("gx", ("c1-gx-0", "c1-gx-1")),
        ("gy", ("c1-gy-0",)),
    }


def test_the_components_of_a_heterogeneous_job_are_one_job() -> None:
    acts = decide(
        world(
            node("c1-gx-[0-2]", "alloc#"),
            job(60, nodes="c1-gx-0", het_job_id=60),
            job(61, nodes="c1-gx-[1-2]", het_job_id=60),
        )
    )
    made = acts.one(MakeRequest)
    assert made.nodes == hosts("c1-gx-[0-2]")
    assert made.job == 60


def test_two_jobs_have_two_requests() -> None:
    acts = decide(
        world(
            node("c1-gx-[0-3]", "alloc#"),
            job(51, nodes="c1-gx-[0-1]"),
            job(52, nodes="c1-gx-[2-3]"),
        )
    )
    assert sorted(asked(acts)) == [hosts("c1-gx-[0-1]"), hosts("c1-gx-[2-3]")]


def test_an_array_of_tasks_is_asked_for_task_by_task() -> None:
    """Scenario 9, as far as a FLEX_START pool goes: each task starts as its own VM comes."""
    acts = decide(
        world(
            pool("gx", size=50),
            *(node(f"c1-gx-{n}", "alloc#") for n in range(50)),
            *(job(100 + n, nodes=f"c1-gx-{n}") for n in range(50)),
        )
    )
    assert sorted(asked(acts)) == sorted((f"c1-gx-{n}",) for n in range(50))


def test_a_duration_below_ten_minutes_is_asked_for_as_ten_minutes() -> None:
    """Scenario 77: the floor of a resize request."""
    acts = decide(
        world(pool("gx", duration="30s"), node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0"))
    )
    assert acts.one(MakeRequest).run_duration == timedelta(seconds=600)


def test_a_jobs_own_duration_may_be_asked_for() -> None:
    """run_duration = "job": the time limit, plus boot_timeout and job_margin, clamped."""
    acts = decide(
        world(
            node("c1-gx-[0-1]", "alloc#"),
            job(51, nodes="c1-gx-0", limit="2h"),
            job(52, nodes="c1-gx-1", limit=None),
            settings={"run_duration": "job"},
        )
    )
    durations = {one.job: one.run_duration for one in acts.of(MakeRequest)}
    assert durations == {51: timedelta(hours=2, minutes=25), 52: timedelta(days=7)}


@pytest.mark.parametrize("model", ["ON_DEMAND", "SPOT"])
def test_pools_that_dont_queue_create_their_instances_by_name(model: str) -> None:
    acts = decide(
        world(pool("gx", model=model), node("c1-gx-[0-1]", "alloc#"), job(51, nodes="c1-gx-[0-1]"))
    )
    assert not acts.of(MakeRequest)
    assert acts.nodes(CreateInstances) == {"c1-gx-0", "c1-gx-1"}


def test_a_missing_group_is_made_when_a_job_needs_it() -> None:
    acts = decide(world(no_group("gx"), node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0")))
    assert acts.one(CreateGroup).pool == "gx"
    assert not decide(world(no_group("gx"))).changes


def test_a_paused_pool_is_asked_for_nothing() -> None:
    acts = decide(world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0"), paused=["gx"]))
    assert not acts.of(MakeRequest)


def test_names_with_dashes_are_found_in_the_table() -> None:
    """Scenario 90: names are never split."""
    acts = decide(
        world(
            pool("a3-u-1", size=2),
            pool("a3-u", size=12),
            node("c1-a3-u-1-0", "alloc#"),
            node("c1-a3-u-10", "alloc#"),
            job(51, nodes="c1-a3-u-1-0", partition="a3-u-1"),
            job(52, nodes="c1-a3-u-10", partition="a3-u"),
        )
    )
    assert {(one.pool, one.nodes) for one in acts.of(MakeRequest)} == {
        ("a3-u-1", ("c1-a3-u-1-0",)),
        ("a3-u", ("c1-a3-u-10",)),
    }


def test_a_node_that_slurm_knows_and_the_cluster_file_doesnt_is_not_asked_for() -> None:
    """Scenario 15: the others go on."""
    acts = decide(
        world(
            node("c1-gx-0", "alloc#"),
            node("login-7", "alloc#"),
            job(51, nodes="c1-gx-0"),
            job(52, nodes="login-7"),
        )
    )
    assert asked(acts) == [("c1-gx-0",)]
