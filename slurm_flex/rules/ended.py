"""An up node whose VM is gone, dying or dead: expired if its time had come, else lost.

Expired is nobody's fault: the jobs it ran are remembered, and started again as soon as nothing of
their old VMs is left (two copies of a job must never run, and slurmctld 22.05 crashes when a job
restarts on a node that isn't off yet; facts: slurm.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from slurm_flex.actions import (
    Action,
    DeleteInstances,
    Event,
    JobHold,
    JobStart,
    NodeDown,
    NodePowerDown,
    SaveConsole,
)
from slurm_flex.cluster.model import Pool
from slurm_flex.member import Member, Phase
from slurm_flex.model import Job
from slurm_flex.model.memory import Restart
from slurm_flex.rules import maintenance
from slurm_flex.rules.maintenance import HOST_MAINTENANCE
from slurm_flex.rules.release import release_job
from slurm_flex.rules.reserved import first_reserved_end
from slurm_flex.rules.telling import (
    LIMIT_REACHED,
    down_keeping_reason,
    last_words,
    tell_the_cut,
    tell_the_end,
)
from slurm_flex.world import REQUEUE_PENALTY, World

EXPIRED = "slurm-flex: expired"
LOST = "slurm-flex: lost"
_SLACK = REQUEUE_PENALTY / 8
"""Slurm counts its 120 s from when our scontrol arrived, which is a little later than the plan."""


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        ended = [m for m in world.undecided(Phase.ENDING, Phase.HELD) if m.pool.id == pool.id]
        expired: list[Member] = []
        maintained: list[Member] = []
        lost: list[Member] = []
        for member in ended:
            if member.node is None or not _is_counted_on(member):
                continue
            if maintenance.has_begun(world, member):
                maintained.append(member)
                continue
            ends = _known_end(world, member)
            at_end = ends is not None and world.now >= ends - world.settings.clock_skew
            (expired if at_end else lost).append(member)
        yield from _expire(world, expired)
        yield from _expire(world, maintained, HOST_MAINTENANCE)
        yield from _lose(world, pool, lost)
    yield from _cut_short(world)
    yield from _restart(world)


def _is_counted_on(member: Member) -> bool:
    """Slurm believes the node up; a held one matters only while a job hangs on it."""
    node = member.node
    if node is None or not node.is_believed_up or not member.has_ended_instance:
        return False
    if node.is_down and node.has_own_reason:
        return False  # half done by an earlier pass: `stuck` finishes it
    return member.phase is not Phase.HELD or (member.is_busy and not node.is_down)


def _known_end(world: World, member: Member) -> datetime | None:
    """The end of the VM that is or was here: its own word, else what we last knew or reserved."""
    if (ends := maintenance.announced(world, member) or world.end_of(member)) is not None:
        return ends
    known = world.recall.instances.get(member.name)
    if known is not None and known.ends is not None:
        return known.ends
    return first_reserved_end(world, member.name)


def _expire(world: World, members: list[Member], what: str = LIMIT_REACHED) -> Iterator[Action]:
    held = [member for member in members if member.phase is Phase.HELD]
    ours = [member for member in members if member.phase is not Phase.HELD]
    yield from down_keeping_reason(held)
    if not ours:
        world.settle(held)
        return
    names = tuple(member.name for member in ours)
    for member in ours:
        world.recall.power_ups.pop(member.name, None)  # a static node comes back at once
    world.settle(members)
    yield from _remember(world, ours, what)
    world.put_down.update(names)
    world.cut_jobs_on(ours)
    reason = f"{EXPIRED}: {what}" if what == HOST_MAINTENANCE else EXPIRED
    yield NodeDown(nodes=names, reason=reason, why=f"the VM has ended: {what}")
    yield NodePowerDown(nodes=names, how="plain", reason=reason, why="its VM has ended")
    yield Event(event="NODE_EXPIRED", nodes=names, text=what, why="end of life")


def _remember(world: World, members: list[Member], what: str) -> Iterator[Action]:
    """Enter the jobs that the end cuts, for their restart, and tell them why."""
    gone = {member.name: _last_id(world, member) for member in members}
    cut = _jobs_on(members)
    for job in cut:
        if not job.is_requeueable or job.is_completing:
            continue
        if str(job.id) not in world.recall.restarts:  # else it was sent away, and is still there
            count = world.recall.expiries.get(str(job.id), 0)
            world.recall.expiries[str(job.id)] = count + 1
        for component in world.components(job.group):
            world.recall.restarts[str(component.id)] = Restart(
                nodes=component.nodes,
                instances={name: gone[name] for name in component.nodes if name in gone},
                at=world.now,
            )
            world.recall.delays.pop(str(component.id), None)  # of a try before this one
    for job in cut:
        ends = [e for m in members if job in m.jobs and (e := _known_end(world, m)) is not None]
        yield from tell_the_end(world, job, what, min(ends, default=world.now))
    yield from _send_back_components(world, cut, "another component's node expired")


def _jobs_on(members: list[Member]) -> list[Job]:
    jobs = {job.id: job for member in members for job in member.jobs}
    return [jobs[number] for number in sorted(jobs)]


def _send_back_components(world: World, cut: list[Job], why: str) -> Iterator[Action]:
    """Slurm requeues the component alone while the others wait on: they start together."""
    for group in sorted({job.group for job in cut}):
        if any(job.is_configuring and job not in cut for job in world.components(group)):
            yield from release_job(world, group, why)


def _last_id(world: World, member: Member) -> str | None:
    known = world.recall.instances.get(member.name)
    return member.instance.id if member.instance else (known.id if known else None)


def _lose(world: World, pool: Pool, members: list[Member]) -> Iterator[Action]:
    """Before its time: believed on the second look, on the third if a whole crowd is gone."""
    if not members:
        return
    up = [m for m in world.members_of(pool) if m.node is not None and m.node.is_believed_up]
    vanished = [member for member in members if member.instance is None]
    crowd = len(vanished) >= world.settings.vanish_minimum and len(
        vanished
    ) * 100 > world.settings.vanish_percent * len(up)
    looks = 3 if crowd else 2
    if crowd and world.recall.once(f"crowd/{pool.id}"):
        yield Event(
            event="POOL_VANISHED",
            pool=pool.id,
            text=f"{len(vanished)} of {len(up)} VMs vanished at once: looking again first",
            why="a listing may be wrong",
        )
    if not crowd:
        world.recall.told.pop(f"crowd/{pool.id}", None)
    believed = [m for m in members if world.recall.see(f"lost/{pool.id}/{m.name}").passes >= looks]
    world.settle(members)
    if not believed:
        return
    yield from down_keeping_reason([m for m in believed if m.phase is Phase.HELD])
    ours = [member for member in believed if member.phase is not Phase.HELD]
    if not ours:
        return
    names = tuple(member.name for member in ours)
    leftovers = tuple(m.name for m in ours if m.instance is not None and m.instance.is_dead)
    if leftovers:
        yield SaveConsole(pool=pool.id, nodes=leftovers, why="the VM died before its time")
    world.put_down.update(names)
    world.cut_jobs_on(ours)
    cut = _jobs_on(ours)
    yield from tell_the_cut(
        world, cut, "its node lost its VM", "restarts after Slurm's two minutes"
    )
    yield from _send_back_components(world, cut, "another component lost its node")
    yield NodeDown(nodes=names, reason=LOST, why="the VM is gone before its time")
    yield NodePowerDown(nodes=names, how="plain", reason=LOST, why="its VM is gone")
    yield Event(event="VM_LOST", nodes=names, text="the VM is gone before its time", why="lost")


def _cut_short(world: World) -> Iterator[Action]:
    """A VM that got 600 s for a shorter configured duration, and has had that."""
    due = [
        member
        for member in world.undecided(Phase.UP, Phase.SICK)
        if member.pool.is_flex_start
        and member.instance is not None
        and (member.instance.terminates is None or world.now < member.instance.terminates)
        and (ends := world.life_end_of(member)) is not None
        and ends != member.instance.terminates
        and member.pool.run_duration.total_seconds() < 600
        and world.now >= ends
    ]
    yield from _expire(world, due)
    for pool in world.pools:
        names = tuple(member.name for member in due if member.pool.id == pool.id)
        if names:
            yield DeleteInstances(pool=pool.id, nodes=names, why="the configured duration is over")


def _restart(world: World) -> Iterator[Action]:
    """Lift Slurm's 120 s from jobs whose nodes expired, once nothing of the old VMs is left."""
    listed = {str(job.id): job for job in world.jobs}
    for key, restart in sorted(world.recall.restarts.items(), key=lambda item: int(item[0])):
        job = listed.get(key)
        if job is None or _is_over(job, restart):
            del world.recall.restarts[key]
            continue
        if job.is_completing:  # Slurm counts its 120 s from the end of the last step
            world.recall.restarts[key] = replace(restart, at=world.now)
        if not job.is_pending or job.is_completing or job.was_just_requeued:
            continue
        if not _is_all_gone(world, restart):
            continue
        if _can_never_finish(world, job):
            yield from _hold(world, job)  # in each pass until Slurm shows it held
            continue
        del world.recall.restarts[key]
        if job.waits_for_begin_time:
            world.recall.delays.pop(key, None)
            yield JobStart(job=job.id, why="its nodes expired: nobody's fault, so no penalty")


def _hold(world: World, job: Job) -> Iterator[Action]:
    cut = world.recall.expiries[str(job.id)]
    yield JobHold(job=job.id, why="it needs longer than a node lives and saved nothing")
    told = f"held: cut {cut} times by the end of its node; it needs checkpoints or a shorter --time"
    yield from last_words(world, job, told, why="the user must act")


def _is_over(job: Job, restart: Restart) -> bool:
    """It runs again, or waits for a later time that somebody chose, or for another reason."""
    if job.is_pending:
        if job.reason not in (None, "None", "BeginTime", "NodeDown", "Resources", "Priority"):
            return True
        latest = restart.at + REQUEUE_PENALTY + _SLACK
        return job.start_time is not None and job.waits_for_begin_time and job.start_time > latest
    if not job.holds_nodes:
        return False
    moved = not set(restart.instances) & set(job.nodes)
    return moved or (job.start_time is not None and job.start_time > restart.at)


def _is_all_gone(world: World, restart: Restart) -> bool:
    """All nodes that expired under it have gone down, and their old VMs are gone or dead."""
    for name, old_id in restart.instances.items():
        member = world.members.get(name)
        if member is None or member.phase in (Phase.UNKNOWN, Phase.LEAVING):
            return False
        if _was_left_in_order(world, member, old_id):
            continue
        if member.node is None or member.node.is_believed_up:
            return False
        instance = member.instance
        if instance is None or instance.is_dead:
            continue
        if instance.is_dying or member.phase is Phase.OFF or instance.id == old_id:
            return False
    return True


def _was_left_in_order(world: World, member: Member, old_id: str | None) -> bool:
    """It was requeued before its node ends, and the slurmd there has cleaned up after it.

    Slurm sees to that itself while the slurmd answers: the job is COMPLETING until it has. Our
    reservation keeps it off what is about to end.
    """
    node, instance = member.node, member.instance
    if node is None or not node.is_believed_up or node.is_down or node.is_not_responding:
        return False
    if instance is None or not instance.is_running or instance.id != old_id:
        return False
    ends = world.end_of(member)
    if ends is None or ends - world.now > world.settings.expiry_grace:
        return True
    return any(
        reservation.is_for_an_end
        and member.name in reservation.nodes
        and reservation.is_active(world.now)
        for reservation in world.own_reservations
    )


def _can_never_finish(world: World, job: Job) -> bool:
    limit = world.settings.max_expiries
    if not limit or world.recall.expiries.get(str(job.id), 0) < limit:
        return False
    lives = [
        pool.run_duration
        for pool in world.pools
        for partition in world.cluster.partitions_of(pool)
        if partition.id == job.partition and pool.is_flex_start
    ]
    return bool(lives) and (job.time_limit is None or job.time_limit > max(lives))
