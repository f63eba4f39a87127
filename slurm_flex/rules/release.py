"""How nodes that wait for a VM are given back, so that no job is caught and none is left behind.

A node with a job: down, then power_down_force; the job goes back to PENDING. A node without one is
drained first and forced down in the next pass if it is still idle, since a job could be placed on
it in between, and power_down_force would requeue that job (facts: slurm.md). So would the drain
itself, since 24.11 at least: slurm/draining.py sees to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from slurm_flex.actions import (
    Action,
    JobNotify,
    JobRequeue,
    JobStart,
    NodeDown,
    NodeDrain,
    NodePowerDown,
)
from slurm_flex.cluster.model import Pool
from slurm_flex.member import Member, Phase
from slurm_flex.model import OWN_COMMENT, RELEASE_REASON, CloudError, Job
from slurm_flex.model.memory import Delay
from slurm_flex.rules.failure import describe, note_failure
from slurm_flex.rules.telling import down_keeping_reason, last_words
from slurm_flex.text import one_line
from slurm_flex.world import World


def release_nodes(world: World, members: Iterable[Member], why: str) -> Iterator[Action]:
    """Give back members that power up; `why` becomes part of the nodes' reason."""
    waiting = [m for m in members if m.node is not None and not world.is_settled(m)]
    world.settle(waiting)
    foreign = [m for m in waiting if m.node is not None and m.node.is_held]
    world.cut_jobs_on(waiting)
    yield from down_keeping_reason(foreign)
    waiting = [m for m in waiting if m not in foreign]
    held = tuple(m.name for m in waiting if m.is_allocated)
    idle = [m for m in waiting if not m.is_allocated]
    reason = one_line(f"slurm-flex: {why}")
    if held:
        yield NodeDown(nodes=held, reason=reason, why=why)
        yield NodePowerDown(nodes=held, how="force", reason=reason, why=why)
    drained = tuple(m.name for m in idle if m.node is not None and m.node.has_release_drain)
    if drained:
        yield NodePowerDown(nodes=drained, how="force", reason=reason, why=f"still idle: {why}")
    fresh = tuple(m.name for m in idle if m.node is not None and not m.node.is_drained)
    if fresh:
        yield NodeDrain(nodes=fresh, reason=one_line(f"{RELEASE_REASON} {why}"), why=why)


def release_job(world: World, group: int, why: str) -> Iterator[Action]:
    """Send a whole job back: what waits is released, what is up already goes home when idle.

    A job starts whole or not at all, and so do the components of a heterogeneous job.
    """
    jobs = world.components(group)
    members = [m for m in world.members_held_by(jobs) if not world.is_settled(m)]
    waiting = [m for m in members if m.phase in (Phase.ASKED, Phase.QUEUED, Phase.BOOTING)]
    arrived = tuple(
        m.name
        for m in members
        if m.phase is Phase.UP and not m.static and all(job.group == group for job in m.jobs)
    )
    yield from say_goodbye(world, jobs, why)
    for job in jobs:
        if job.holds_nodes and not any(job in m.jobs for m in waiting) and len(jobs) > 1:
            yield JobRequeue(job=job.id, why="the other components of this job go back")
    yield from release_nodes(world, waiting, why)
    if arrived:
        reason = one_line(f"slurm-flex: {why}")
        yield NodePowerDown(nodes=arrived, how="asap", reason=reason, why="its job went back")
        world.settle(m for m in members if m.name in arrived)


def say_goodbye(world: World, jobs: Iterable[Job], why: str) -> Iterator[Action]:
    """Slurm ends what it can't requeue: tell it before its node goes down."""
    for job in jobs:
        if job.is_requeueable or not (job.is_configuring or job.is_running):
            continue
        text = one_line(f"{why}; Slurm can't requeue this job and ends it")
        if job.id not in world.said:
            notice = one_line(f"{OWN_COMMENT}{text}")
            yield JobNotify(job=job.id, text=notice, why="an interactive job can't be requeued")
        yield from last_words(world, job, text)


def force_down(world: World, members: list[Member], reason: str, why: str) -> Iterator[Action]:
    """Send drained idle nodes off, drain and all, so that Slurm uses them again.

    Before 23.02 a node that is up and goes down by power_down_force looks clean and is never
    scheduled again; down, then power_down, leads back (R 22.05.8).
    """
    up = tuple(m.name for m in members if m.node is not None and m.node.is_believed_up)
    rest = tuple(m.name for m in members if m.name not in up)
    if up and world.release < (23, 2):
        yield NodeDown(nodes=up, reason=reason, why=why)
        yield NodePowerDown(nodes=up, how="plain", reason=reason, why=why)
    else:
        rest = (*up, *rest)
    if rest:
        yield NodePowerDown(nodes=rest, how="force", reason=reason, why=why)


def delay_job(world: World, group: int, wait: timedelta, why: str) -> Iterator[Action]:
    """Not before the back-off is over, and not before one that it waits for already.

    Repeated in the next passes until Slurm has taken it. Should a node of its have expired in this
    very pass, it still has this failure to wait out.
    """
    delay = Delay(world.now + max(wait, timedelta(0)), why)
    for job in world.components(group):
        if job.is_requeueable or job.is_pending:
            known = world.recall.delays.get(str(job.id), delay)
            longest = max(delay, known, key=lambda one: one.until)
            world.recall.delays[str(job.id)] = longest
            world.recall.restarts.pop(str(job.id), None)
            yield JobStart(job=job.id, after=longest.until - world.now, why=longest.why)


def give_back(
    world: World, pool: Pool, waiting: list[Member], key: str, error: CloudError
) -> Iterator[Action]:
    """Release the nodes of a launch that failed; each of their jobs gets its back-off."""
    groups = sorted({job.group for member in waiting for job in member.jobs})
    failure, back_off = note_failure(world, pool, key, groups[0] if groups else None, error)
    why = describe(failure, error)
    for member in waiting:
        world.recall.node_waits[member.name] = back_off.until
    for group in groups:
        yield from release_job(world, group, why)
        yield from delay_job(world, group, back_off.until - world.now, why)
    yield from release_nodes(world, waiting, why)
