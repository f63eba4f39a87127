"""The VM came, its slurmd didn't (DESIGN: rule `registration`)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from slurm_flex.actions import JobComment, JobNotify, JobStart, MakeRequest
from tests.builders import Acts, Thing, instance, job, later, node, passes, repeat, request, world

RELEASED = {"node_down", "node_power_down"}


def booting(*vm: Thing, state: str = "alloc#", asked: str = "-30m") -> tuple[Thing, ...]:
    return (
        node("c1-gx-0", state),
        job(51, nodes="c1-gx-0", starts=asked),
        request("j51-1", "c1-gx-0", "SUCCEEDED", created=asked),
        *vm,
    )


def failed(acts: Acts) -> bool:
    return bool(acts.of_kinds(*RELEASED))


def test_a_vm_within_boot_timeout_is_waited_for() -> None:
    """Scenario 17."""
    acts = passes(*repeat(world(*booting(instance("c1-gx-0", created="-10m"))), 3)).all
    assert not acts.beside("node_power_up", "reserve")


def test_a_vm_past_boot_timeout_has_failed_to_boot() -> None:
    """The console is kept, the VM deleted, the node released and the job delayed."""
    acts = passes(*repeat(world(*booting(instance("c1-gx-0", created="-16m"))), 2)).all
    assert acts.nodes("save_console") == {"c1-gx-0"}
    assert acts.nodes("delete_instances") == {"c1-gx-0"}
    assert failed(acts)
    assert all("boot" in getattr(one, "reason", "") for one in acts.of_kinds(*RELEASED))


@pytest.mark.parametrize(("status", "counted"), [("RUNNING", 1), ("REPAIRING", 0)])
def test_a_host_that_breaks_under_a_boot_is_no_fault_of_the_pools(
    status: str, counted: int
) -> None:
    played = passes(*repeat(world(*booting(instance("c1-gx-0", status, created="-16m"))), 2))
    assert played.all.nodes("delete_instances") == {"c1-gx-0"}
    assert len(played.memory.launches.get("gx", ())) == counted


def test_a_job_whose_node_failed_to_boot_is_delayed() -> None:
    bad = world(*booting(instance("c1-gx-0", created="-16m")))
    back = world(
        node("c1-gx-0", "down%", reason="slurm-flex: boot failed", since="now"),
        job(51, reason="BeginTime", starts="+2m", restarts=1),
        now="+20s",
    )
    played = passes(*repeat(bad, 2), back)
    delays = [one.after for one in played.all.of(JobStart)]
    assert delays
    assert all(delay > timedelta(seconds=60) for delay in delays)


def test_the_boot_is_timed_from_the_vms_creation_not_from_the_request() -> None:
    """A request may have queued for a day before."""
    acts = passes(*repeat(world(*booting(instance("c1-gx-0", created="-5m"), asked="-1d")), 3)).all
    assert not acts.beside("node_power_up", "reserve")


@pytest.mark.parametrize("status", ["TERMINATED", "STOPPING"])
def test_a_vm_that_dies_while_booting_fails_now(status: str) -> None:
    """Scenario 19: not at the timeout."""
    acts = passes(
        *repeat(world(*booting(instance("c1-gx-0", status, created="-3m", ends="-10s"))), 3)
    ).all
    assert failed(acts)


@pytest.mark.parametrize("before", ["j50-1", "j51-1"])
def test_the_vm_before_that_is_still_being_deleted_is_no_boot_failure(before: str) -> None:
    """Slurm powered it down and up again, faster than Compute Engine deletes: it is waited for."""
    leaving = world(
        node("c1-gx-0", "idle%"),
        instance("c1-gx-0", created="-2h"),
        request(before, "c1-gx-0", "SUCCEEDED", created="-2h"),
    )
    placed = world(
        node("c1-gx-0", "alloc#"),
        job(51, nodes="c1-gx-0", starts="+55s"),
        instance("c1-gx-0", "STOPPING", action="DELETING", created="-2h"),
        request(before, "c1-gx-0", "SUCCEEDED", created="-2h"),
        now="+1m",
    )
    gone = world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0", starts="+55s"), now="+3m")
    played = passes(leaving, placed, later(placed, "30s"), later(placed, "60s"), gone)
    assert not failed(Acts(one for acts in played.passes[1:] for one in acts))
    assert [one.nodes for one in played.all.of(MakeRequest)] == [("c1-gx-0",)]
    assert not played.memory.launches.get("gx")


def test_a_vm_deleted_by_somebody_while_booting_is_looked_at_twice() -> None:
    """Scenario 20."""
    before = world(*booting(instance("c1-gx-0", created="-3m")))
    gone = world(*booting())
    played = passes(before, later(gone, "30s"), later(gone, "60s"), later(gone, "90s"))
    assert not failed(played[0])
    assert not failed(played[1])
    assert failed(Acts((*played[2], *played[3])))


def test_a_resume_timeout_with_the_vm_alive_is_a_boot_failure() -> None:
    """Scenario 18: DOWN+POWERED_DOWN+NOT_RESPONDING, the VM runs and is billed."""
    bad = world(
        node("c1-gx-0", "down~*", reason="ResumeTimeout reached", since="-10s", user="slurm"),
        job(51, reason="BeginTime", starts="+110s", restarts=1),
        request("j51-1", "c1-gx-0", "SUCCEEDED", created="-6h"),
        instance("c1-gx-0", created="-50m"),
    )
    acts = passes(*repeat(bad, 3)).all
    assert acts.nodes("delete_instances") == {"c1-gx-0"}


def test_a_launch_counts_once_over_many_passes() -> None:
    played = passes(*repeat(world(*booting(instance("c1-gx-0", created="-16m"))), 6, "5s"))
    assert len(played.memory.launches.get("gx", ())) == 1
    assert played.memory.launches["gx"][0].outcome != "good"


def test_a_launch_is_good_once_its_node_registers() -> None:
    up = world(
        node("c1-gx-0", "alloc"),
        job(51, "R", nodes="c1-gx-0", starts="-1m"),
        request("j51-1", "c1-gx-0", "SUCCEEDED", created="-5m"),
        instance("c1-gx-0", created="-4m"),
    )
    played = passes(world(*booting(instance("c1-gx-0", created="-3m"))), later(up, "30s"))
    assert [one.outcome for one in played.memory.launches.get("gx", ())] == ["good"]


def test_a_job_that_cant_be_requeued_is_told_before_its_node_goes_down() -> None:
    bad = world(
        node("c1-gx-0", "alloc#"),
        job(51, nodes="c1-gx-0", starts="-30m", batch=False),
        request("j51-1", "c1-gx-0", "SUCCEEDED", created="-30m"),
        instance("c1-gx-0", created="-16m"),
    )
    acts = passes(bad).all
    assert "boot failed" in acts.one(JobNotify).text
    kinds = [one.KIND for one in acts]
    assert kinds.index("job_notify") < kinds.index("node_down")
    assert acts.one(JobComment).last_words
