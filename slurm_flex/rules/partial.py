"""A job of which only a part came: some of its VMs, or some of its components."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from slurm_flex.actions import Action, DeleteInstances
from slurm_flex.cluster.model import Pool
from slurm_flex.durations import humanize
from slurm_flex.member import Member
from slurm_flex.rules.failure import capacity_back_off
from slurm_flex.rules.queue import cancel
from slurm_flex.rules.release import delay_job, release_job
from slurm_flex.world import World


def plan(world: World) -> Iterator[Action]:
    yield from _partly_arrived(world)
    yield from _left_behind(world)


def _left_behind(world: World) -> Iterator[Action]:
    """Slurm requeues a component alone, and the others wait for it for ever: together again."""
    for group in sorted({job.group for job in world.jobs if job.het_job_id}):
        jobs = world.components(group)
        waiting = [job for job in jobs if job.is_configuring and job.holds_nodes]
        requeued = any(job.waits_for_begin_time or job.was_just_requeued for job in jobs)
        if not waiting or not requeued or any(job.is_running for job in jobs):
            continue
        if world.recall.see(f"left-behind//{group}").passes >= 2:
            yield from release_job(world, group, "another component of this job went back")


def _partly_arrived(world: World) -> Iterator[Action]:
    """Some of a job's VMs came and are billed while the rest waits: give back, ask for the whole.

    Static nodes are there anyway. The rest may queue, stand in line, or wait out a back-off.
    """
    for group in sorted({job.group for job in world.jobs if job.holds_nodes}):
        members = world.members_held_by(world.components(group))
        waiting = [m for m in members if m.waits_for_vm and not world.is_settled(m)]
        arrived = [m for m in members if m.has_live_instance and not m.static]
        if not waiting or not arrived:
            continue
        since = _waits_for_the_rest_since(world, group, waiting, arrived)
        if world.now - since <= world.settings.partial_wait:
            continue
        why = f"part of its nodes waited {humanize(world.settings.partial_wait)} for the rest"
        for pool in world.pools:
            mine = [m for m in waiting if m.pool.id == pool.id]
            yield from _withdraw(world, pool, group, mine, why)
        back_off = capacity_back_off(world, f"j{group}", why)
        yield from release_job(world, group, why)
        yield from delay_job(world, group, back_off.until - world.now, why)


def _waits_for_the_rest_since(
    world: World, group: int, waiting: list[Member], arrived: list[Member]
) -> datetime:
    """When the rest was asked for, or when the first VM came if that was later."""
    seen = world.recall.see(f"partial/{waiting[0].pool.id}/{group}").first
    asked = [m.request.created for m in waiting if m.request is not None and m.request.created]
    came = [m.instance.created for m in arrived if m.instance is not None and m.instance.created]
    if not asked or not came:
        return seen
    return min(seen, max(min(asked), min(came)))


def _withdraw(
    world: World, pool: Pool, group: int, waiting: list[Member], why: str
) -> Iterator[Action]:
    """Take back what was asked for these nodes: the job's own request, or its named instances."""
    names = {m.name for m in waiting}
    for request in world.requests(pool):
        mine = request.job_id == group or set(request.nodes) <= names
        if request.is_live and request.is_own and mine and set(request.nodes) & names:
            yield from cancel(world, pool.id, request, why)
    places = {instance.name for instance in world.groups[pool.id].instances}
    if not pool.is_flex_start and names & places:
        yield DeleteInstances(pool=pool.id, nodes=tuple(sorted(names & places)), why=why)
