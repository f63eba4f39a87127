"""A node that our own health check drained: replaced once it runs nothing.

A drain older than the VM is stale and lifted. While a crowd of a pool is sick nothing is replaced,
since the cause is then the check or the image; a job that meets sick nodes again and again is held.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from datetime import datetime

from slurm_flex.actions import (
    Action,
    DeleteInstances,
    Event,
    JobHold,
    JobRelease,
    NodePowerDown,
    NodeResume,
    NodeUndrain,
    ReportHost,
    SaveConsole,
)
from slurm_flex.cluster.model import Pool
from slurm_flex.health.verdict import is_of_a_part, is_of_gpus
from slurm_flex.member import Member, Phase
from slurm_flex.model import Job
from slurm_flex.rules.release import force_down
from slurm_flex.rules.telling import last_words
from slurm_flex.text import one_line
from slurm_flex.world import World

REPLACED = "slurm-flex: replaced after a failed health check"
_CHECK = re.compile(r"slurm-flex:\s*health:?\s*([A-Za-z0-9_.-]+)")


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        sick = [m for m in world.undecided(Phase.SICK) if m.pool.id == pool.id]
        stale = [member for member in sick if _is_older_than_its_vm(member)]
        if stale:
            names = tuple(member.name for member in stale)
            yield NodeResume(nodes=names, why="the drain is older than the VM")
            world.settle(stale)
        fresh = [member for member in sick if member not in stale]
        yield from _judge(world, pool, fresh)
        yield from _clear_off_nodes(world, pool)
        yield from _clear_rising_nodes(world, pool)
    yield from _let_go_again(world)


def _judge(world: World, pool: Pool, sick: list[Member]) -> Iterator[Action]:
    if not sick:
        world.recall.told.pop(f"crowd-sick/{pool.id}", None)
        return
    for member in sick:
        _note_failure(world, pool, member)
    shared = {m.name for m in sick if _is_shared(world, m)}
    held = yield from _hold_jobs_at_their_limit(world, sick)
    if _is_crowd(world, pool, sick):
        if world.recall.once(f"crowd-sick/{pool.id}"):
            yield Event(
                event="POOL_SICK",
                pool=pool.id,
                text=f"{len(sick)} nodes are sick at once: none is replaced, a person must look",
                why="the cause is probably the check or the image",
            )
        world.settle(sick)
        return
    world.recall.told.pop(f"crowd-sick/{pool.id}", None)
    kept = held if world.settings.health_partial_node == "replace" else held | shared
    idle = [m for m in sick if not m.is_busy and m.name not in kept]
    world.settle(sick)
    yield from _keep_consoles(pool, [m for m in idle if not _is_reported(world, m)])
    if world.settings.report_faulty_hosts:
        idle = yield from _report_hosts(world, pool, idle)
    if not idle:
        return
    names = tuple(member.name for member in idle)
    yield DeleteInstances(pool=pool.id, nodes=names, why="a health check failed")
    yield from force_down(world, idle, REPLACED, "its VM is replaced")
    yield Event(
        event="VM_REPORT_AND_REPLACEMENT",
        nodes=names,
        text=one_line("; ".join(sorted({_reason(m) for m in idle}))),
        why="a health check failed",
    )


def _keep_consoles(pool: Pool, members: list[Member]) -> Iterator[Action]:
    if members:
        names = tuple(member.name for member in members)
        yield SaveConsole(pool=pool.id, nodes=names, why="a health check failed")


def _report_hosts(
    world: World, pool: Pool, idle: list[Member]
) -> Generator[Action, None, list[Member]]:
    """Report hosts of broken GPUs, and tell whose VMs may go now.

    A report is for a VM that runs, and fails if the VM is deleted meanwhile (facts:
    compute-engine.md): so a pass lies between, or less where the report ends the VM.
    """
    running = [
        m
        for m in idle
        if m.instance is not None and m.instance.is_running and is_of_gpus(_failed_check(m))
    ]
    new = [m for m in running if not _is_reported(world, m)]
    for member in new:
        yield ReportHost(pool=pool.id, nodes=(member.name,), why=one_line(_reason(member)))
    may_go = []
    for member in idle:
        passes = 0
        if member in new or _is_reported(world, member):
            passes = world.recall.see(_report(member)).passes
        if member not in running or passes > 2:
            may_go.append(member)
    return may_go


def _is_reported(world: World, member: Member) -> bool:
    return _report(member) in world.recall.last.sightings


def _report(member: Member) -> str:
    incarnation = member.instance.id if member.instance else None
    return f"reported/{member.pool.id}/{member.name}/{incarnation}"


def _clear_off_nodes(world: World, pool: Pool) -> Iterator[Action]:
    """A drain of ours on a node that is off would survive the replacement."""
    drained = [
        m
        for m in world.undecided(Phase.OFF)
        if m.pool.id == pool.id and m.node is not None and m.node.has_own_drain
        and not m.node.is_down
    ]  # fmt: skip
    if drained:
        names = tuple(member.name for member in drained)
        yield NodePowerDown(
            nodes=names, how="force", reason=REPLACED, why="the drain was for a VM that is gone"
        )
        world.settle(drained)


def _clear_rising_nodes(world: World, pool: Pool) -> Iterator[Action]:
    """Its VM is yet to come, so the drain was for another; drained it would wait for ever."""
    drained = [
        m
        for m in world.undecided(Phase.ASKED, Phase.QUEUED, Phase.BOOTING)
        if m.pool.id == pool.id
        and m.node is not None
        and m.node.has_health_drain
        and not m.node.is_power_down_requested
        and (m.instance is None or _is_older_than_its_vm(m))
    ]
    if drained:
        names = tuple(member.name for member in drained)
        yield NodeUndrain(nodes=names, why="the drain was for a VM that is gone")


def _is_older_than_its_vm(member: Member) -> bool:
    """Only the creation makes a new incarnation: a reboot keeps the VM and its broken GPU."""
    node, instance = member.node, member.instance
    if node is None or instance is None or node.reason_time is None:
        return False
    born = instance.created or node.boot_time
    return born is not None and node.reason_time < born


def _let_go_again(world: World) -> Iterator[Action]:
    """Without nohold_on_prolog_fail Slurm holds a job whose prolog failed on a broken node."""
    limit = world.settings.max_health_restarts
    for job in world.jobs:
        met = world.recall.health_restarts.get(str(job.id), 0)
        held_by_slurm = job.is_pending and (job.reason or "").startswith(
            ("launch failed requeued held", "launch_failed_requeued_held")
        )
        if held_by_slurm and met and not (limit and met >= limit):
            yield JobRelease(job=job.id, why="its prolog failed on a broken node, not by its fault")


def _is_shared(world: World, member: Member) -> bool:
    """The job that met the fault had only a part of the node (facts: cluster-json.md).

    By the drain's own word; or else several jobs were on it when it fell ill. Judged when it is
    first seen ill, by jobs of which one is still there: those that had all left before have nothing
    to do with it.
    """
    if is_of_a_part(_reason(member)):
        return True
    where = f"{member.pool.id}/{member.name}"
    fell_ill_now = world.recall.see(f"ill/{where}").passes == 1
    was_shared = f"shared/{where}" in world.recall.last.sightings
    is_shared = len(who_met_it(world, member)) > 1 and bool(member.jobs)
    if not (was_shared or (fell_ill_now and is_shared)):
        return False
    world.recall.see(f"shared/{where}")
    return True


def who_met_it(world: World, member: Member) -> set[int]:
    """The jobs that are on it, and those seen there together with one of them or at the last."""
    before = set(world.recall.last.occupants.get(member.name, ()))
    now = {job.id for job in member.jobs}
    return now if now and not now & before else now | before


def _is_crowd(world: World, pool: Pool, sick: list[Member]) -> bool:
    up = [m for m in world.members_of(pool) if m.node is not None and m.node.is_believed_up]
    return len(sick) >= world.settings.sick_minimum and len(
        sick
    ) * 100 > world.settings.sick_percent * len(up)


def _note_failure(world: World, pool: Pool, member: Member) -> None:
    """Count the check's failures in the window, and the restart of the jobs that met it, once."""
    incarnation = member.instance.id if member.instance else None
    if not world.recall.once(f"sick/{member.name}/{incarnation}"):
        return
    for job_id in sorted(who_met_it(world, member)):
        key = str(job_id)
        world.recall.health_restarts[key] = world.recall.health_restarts.get(key, 0) + 1
    key = f"{pool.id}/{_failed_check(member)}"
    since = world.now - world.settings.health_breaker_window
    recent = [
        entry
        for entry in world.recall.check_failures.get(key, ())
        if datetime.fromisoformat(entry.split(" ")[0]) > since
    ]
    world.recall.check_failures[key] = (*recent, f"{world.now.isoformat()} {member.name}")


def _failed_check(member: Member) -> str:
    match = _CHECK.match(_reason(member))
    return match[1] if match else "unnamed"


def _reason(member: Member) -> str:
    return (member.node.reason if member.node else None) or ""


def _hold_jobs_at_their_limit(
    world: World, sick: list[Member]
) -> Generator[Action, None, set[str]]:
    """Past the restart limit the job is held; its node is replaced when Slurm shows it so.

    Once: whoever releases it then knows what for.
    """
    limit = world.settings.max_health_restarts
    kept: set[str] = set()
    asked: set[int] = set()
    for member in sick:
        for job in _jobs_that_met(world, member):
            if not limit or not job.is_pending or _health_restarts(world, job) < limit:
                continue
            mark = f"held/{job.id}/{job.restarts}"
            if job.is_held:
                world.recall.once(mark)
            if mark in world.recall.told:
                continue
            kept.add(member.name)
            if job.id not in asked:
                asked.add(job.id)
                yield JobHold(job=job.id, why=f"restarted {limit} times by failed health checks")
                reason = _reason(member) or "a health check"
                told = f"held after {limit} restarts, last: {member.name} {reason}"
                yield from last_words(world, job, told, why="the user must look")
    return kept


def _health_restarts(world: World, job: Job) -> int:
    """What we counted; should memory have been lost, Slurm's own count less the expiries."""
    key = str(job.id)
    counted = world.recall.health_restarts.get(key, 0)
    return max(counted, job.restarts - world.recall.expiries.get(key, 0))


def _jobs_that_met(world: World, member: Member) -> list[Job]:
    ids = who_met_it(world, member)
    return [job for job in world.jobs if job.id in ids or member.name in job.required_nodes]
