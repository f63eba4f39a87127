"""Slurm waits as long as we do, and a job no shorter than its back-off."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Final

from slurm_flex.actions import Action, JobStart, NodePowerUp
from slurm_flex.cluster.model import Pool
from slurm_flex.member import Member, Phase
from slurm_flex.model import Job
from slurm_flex.world import REQUEUE_PENALTY, World

_YOUNG: Final = timedelta(minutes=2)
_DELAY_SLACK: Final = timedelta(seconds=30)
_LATE: Final = timedelta(minutes=1)
_OVER: Final = "back-off-over/"


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        yield from _rearm(world, pool)
    yield from _keep_delays(world)
    yield from _lift_late_penalties(world)


def _rearm(world: World, pool: Pool) -> Iterator[Action]:
    """Start ResumeTimeout anew, so that Slurm waits as long as we do, srun and salloc included."""
    pace = world.resume_timeout / 3
    due = []
    for member in world.undecided(Phase.ASKED, Phase.QUEUED):
        if member.pool.id != pool.id or member.node is None or not member.node.is_powering_up:
            continue
        armed = world.recall.armed.setdefault(member.name, _last_armed(world, member))
        if world.now - armed >= pace:
            world.recall.armed[member.name] = world.now
            due.append(member)
    if due:
        yield NodePowerUp(
            nodes=tuple(member.name for member in due),
            why="still queued: its ResumeTimeout starts anew",
        )


def _last_armed(world: World, member: Member) -> datetime:
    """Memory lost means re-arm now; a request this young was made by a launch that armed it.

    What stands in line without a request was armed a third of ResumeTimeout ago at the most.
    """
    made = member.request.created if member.request is not None else None
    if made is None or world.now - made <= _YOUNG:
        return made or world.now
    return datetime.min.replace(tzinfo=timezone.utc)


def _keep_delays(world: World) -> Iterator[Action]:
    """A back-off that Slurm hasn't taken yet, or has shortened, is set again."""
    jobs = {str(job.id): job for job in world.jobs}
    for key, delay in sorted(world.recall.delays.items(), key=lambda item: int(item[0])):
        job = jobs.get(key)
        if job is None or _is_placed_again(world, job, key):
            del world.recall.delays[key]
            continue
        if delay.until <= world.now:
            del world.recall.delays[key]
            world.recall.told[f"{_OVER}{key}"] = delay.until
            continue
        if not job.is_pending or job.is_completing or _was_just_delayed(world, key):
            continue
        if job.is_held:
            continue  # somebody holds it: the start time is not what it waits for
        starts = job.start_time if job.waits_for_begin_time else None
        is_early = starts is None or starts < delay.until - _DELAY_SLACK
        if is_early or _is_slurms_own_penalty(world, delay.until, starts):
            yield JobStart(job=job.id, after=delay.until - world.now, why=delay.why)


def _lift_late_penalties(world: World) -> Iterator[Action]:
    """A node that is gone may keep the old run completing for longer than the back-off lasts."""
    jobs = {str(job.id): job for job in world.jobs}
    for key in [key for key in world.recall.told if key.startswith(_OVER)]:
        over = world.recall.told[key]
        job = jobs.get(key.removeprefix(_OVER))
        has_new_delay = key.removeprefix(_OVER) in world.recall.delays
        if job is None or has_new_delay or world.now - over > _LATE:
            del world.recall.told[key]
        elif job.is_completing:
            world.recall.told[key] = world.now
        elif job.holds_nodes:
            del world.recall.told[key]  # it runs again: a penalty from here on is for what comes
        elif job.waits_for_begin_time and _is_slurms_own_penalty(world, over, job.start_time):
            yield JobStart(job=job.id, why="its back-off is over")


def _is_placed_again(world: World, job: Job, key: str) -> bool:
    """Somebody let it start sooner: what it meets from here on is another story."""
    if not job.holds_nodes or job.is_completing or job.group in world.cut:
        return False
    return not _was_just_delayed(world, key) and world.recall.see(f"placed//{key}").passes >= 2


def _is_slurms_own_penalty(world: World, over: datetime, starts: datetime | None) -> bool:
    """Written when the last step of the old run ended, after our start; later is a user's wish."""
    return (
        starts is not None
        and starts > over + _DELAY_SLACK
        and starts <= world.now + REQUEUE_PENALTY + _DELAY_SLACK
    )


def _was_just_delayed(world: World, key: str) -> bool:
    return world.recall.last.delays.get(key) != world.recall.delays[key]
