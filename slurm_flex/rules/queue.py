"""Every request followed to its answer: failed, cancelled, too long in the queue, or unwanted.

A request is one entry in Google's queue for all of a job's nodes. It is cancelled only when none of
its nodes is wanted any more (or when a heir needs so few of them that its own request is better);
what failed is released with the reason, and its job comes again after the back-off.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from slurm_flex.actions import (
    Action,
    CancelRequest,
    DeleteInstances,
    DeleteRequest,
    Event,
    JobStart,
    NodePowerDown,
    NodePowerUp,
    NodeUndrain,
)
from slurm_flex.cluster.model import Pool
from slurm_flex.durations import humanize
from slurm_flex.failures import Failure, classify
from slurm_flex.model import CloudError, Request
from slurm_flex.model.memory import Answer, BackOff
from slurm_flex.rules.failure import describe, note_failure
from slurm_flex.rules.release import delay_job, release_job, release_nodes
from slurm_flex.world import Member, Phase, World

_WAITING = (Phase.ASKED, Phase.QUEUED, Phase.BOOTING)
_YOUNG = timedelta(minutes=2)
_DELAY_SLACK = timedelta(seconds=30)
CANCELLED = CloudError("CANCELLED", "the request was cancelled")


def plan(world: World) -> Iterator[Action]:
    yield from _partly_arrived(world)
    for pool in world.pools:
        yield from _finish_releases(world, pool)
        yield from _hear_answers(world, pool)
        for request in world.requests(pool):
            if not request.is_own:
                continue
            if request.is_failed or request.is_cancelled:
                yield from _failed(world, pool, request)
            elif request.is_succeeded:
                yield from _succeeded(world, pool, request)
            elif request.is_live:
                yield from _live(world, pool, request)
        yield from _creations(world, pool)
        yield from _abandoned(world, pool)
        yield from _rearm(world, pool)
    yield from _keep_delays(world)


# --- requests that are over


def _failed(world: World, pool: Pool, request: Request) -> Iterator[Action]:
    waiting = [m for m in _waiting_for(world, request) if not _has_other_request(m, request)]
    if not waiting:
        yield DeleteRequest(
            pool=pool.id, name=request.name, why=f"{request.state.lower()}, and nobody waits for it"
        )
        return
    error = request.error or (CANCELLED if request.is_cancelled else CloudError())
    key = f"{request.name}@{request.created.isoformat() if request.created else ''}"
    yield from _give_back(world, pool, waiting, key, error)


def _give_back(
    world: World, pool: Pool, waiting: list[Member], key: str, error: CloudError
) -> Iterator[Action]:
    """Release the nodes of a launch that failed; each of their jobs gets its back-off."""
    groups = sorted({job.group for member in waiting for job in member.jobs})
    failure, back_off = note_failure(world, pool, key, groups[0] if groups else None, error)
    why = describe(failure, error)
    yield Event(
        event="REQUEST_FAILED",
        pool=pool.id,
        nodes=tuple(member.name for member in waiting),
        text=why,
        why="a launch failed",
    )
    for group in groups:
        yield from release_job(world, group, why)
        yield from delay_job(world, group, back_off.until - world.now, why)
    yield from release_nodes(world, waiting, why)


def _waiting_for(world: World, request: Request) -> list[Member]:
    """Its nodes that power up without a VM, and did so before the request was made."""
    members = (world.members.get(name) for name in request.nodes)
    return [
        m
        for m in members
        if m is not None
        and not world.is_settled(m)
        and m.phase in (Phase.ASKED, Phase.QUEUED)
        and was_made_for(world, request, m)
    ]


def was_made_for(world: World, request: Request, member: Member) -> bool:
    """The node was given out before the request was made; a later job has its own request."""
    if request.created is None:
        return True
    if member.jobs:
        starts = [job.start_time for job in member.jobs if job.start_time is not None]
        if not starts:
            return any(job.group == request.job_id for job in member.jobs)
        return min(starts) <= request.created + world.settings.clock_skew / 3
    first = world.recall.see(f"power-up/{member.pool.id}/{member.name}").first
    return first <= request.created or first == world.now


def _has_other_request(member: Member, request: Request) -> bool:
    return member.request is not None and member.request.name != request.name


def _succeeded(world: World, pool: Pool, request: Request) -> Iterator[Action]:
    """The record is worth keeping while one of its VMs lives: it names them."""
    members = [world.members[name] for name in request.nodes if name in world.members]
    if any(_may_be_its_vm(member, request) for member in members):
        return
    if any(m.phase in _WAITING and was_made_for(world, request, m) for m in members):
        return
    if world.recall.see(f"spent/{pool.id}/{request.name}").passes >= 2:
        yield DeleteRequest(pool=pool.id, name=request.name, why="its last instance is gone")


def _may_be_its_vm(member: Member, request: Request) -> bool:
    instance = member.instance
    if instance is None:
        return False
    if instance.created is None or request.created is None:
        return True
    return instance.created >= request.created


# --- requests in the queue


def _live(world: World, pool: Pool, request: Request) -> Iterator[Action]:
    waited = world.now - request.created if request.created else timedelta(0)
    rival = _rival(world, request)
    if rival is not None:
        yield from _cancel(world, pool, request, f"{rival.name} asks for the same nodes")
        return
    wanted = world.wanted_nodes(request)
    if not wanted:
        yield from _cancel(world, pool, request, "nobody wants its nodes any more")
        leftover = [m for m in _members(world, request) if m.phase in _WAITING]
        yield from release_nodes(world, leftover, f"request {request.name} is not wanted")
    elif _is_better_asked_anew(world, request, wanted):
        yield from _cancel(world, pool, request, "a heir needs only some of its nodes")
        heirless = [
            m for m in _members(world, request) if m.phase in _WAITING and m.name not in wanted
        ]
        yield from release_nodes(world, heirless, f"request {request.name} is not wanted")
        world.settle(_members(world, request))
    elif waited > world.settings.max_queue_wait:
        why = f"no answer for {humanize(world.settings.max_queue_wait)}"
        yield from _take_back(world, pool, request, CloudError("MAX_QUEUE_WAIT", why))


def _members(world: World, request: Request) -> list[Member]:
    return [world.members[name] for name in request.nodes if name in world.members]


def _cancel(world: World, pool: Pool, request: Request, why: str) -> Iterator[Action]:
    if request.state == "SENT":
        return  # it has to be listed before it can be cancelled
    yield CancelRequest(pool=pool.id, name=request.name, why=why)
    if world.recall.once(f"cancelled/{pool.id}/{request.name}"):
        yield Event(event="REQUEST_CANCELLED", pool=pool.id, text=f"{request.name}: {why}", why=why)


def _rival(world: World, request: Request) -> Request | None:
    """An older live request for one of its nodes: the same node never has two."""
    members = _members(world, request)
    older = [m.request for m in members if m.request is not None and m.request != request]
    return min(older, key=lambda other: other.name, default=None)


def _is_better_asked_anew(world: World, request: Request, wanted: list[str]) -> bool:
    """Wanted by half or fewer, by others than its own job, and no VM yet."""
    if len(wanted) * 2 > len(request.nodes) or world.keeps_place(request):
        return False
    members = _members(world, request)
    if any(m.instance is not None for m in members):
        return False
    own = {job.group for m in members for job in m.jobs}
    return request.job_id is not None and request.job_id not in own


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
        back_off = _capacity_back_off(world, f"j{group}", why)
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
            yield from _cancel(world, pool, request, why)
    places = {instance.name for instance in world.groups[pool.id].instances}
    if not pool.is_flex_start and names & places:
        yield DeleteInstances(pool=pool.id, nodes=tuple(sorted(names & places)), why=why)


def _capacity_back_off(world: World, owner: str, why: str) -> BackOff:
    settings = world.settings
    first, longest = settings.capacity_backoff, settings.capacity_backoff_max
    return world.recall.back_off(f"{owner}/{Failure.CAPACITY}", first, longest, why)


def _take_back(world: World, pool: Pool, request: Request, error: CloudError) -> Iterator[Action]:
    """Cancel it, send its jobs back for a while: they ask for the whole again."""
    yield from _cancel(world, pool, request, error.message)
    waiting = [m for m in _members(world, request) if m.phase in _WAITING]
    groups = sorted({job.group for member in waiting for job in member.jobs})
    _capacity_back_off(world, pool.id, error.message)
    for group in groups:
        back_off = _capacity_back_off(world, f"j{group}", error.message)
        yield from release_job(world, group, error.message)
        yield from delay_job(world, group, back_off.until - world.now, error.message)
    yield from release_nodes(world, waiting, error.message)


# --- calls that failed before there was a request, and named instances


def _hear_answers(world: World, pool: Pool) -> Iterator[Action]:
    """Errors of inserts, as apply found them out: judged like a request that failed."""
    heard = [answer for answer in world.recall.answers if answer.pool == pool.id]
    if not heard:
        return
    world.recall.answers = tuple(a for a in world.recall.answers if a.pool != pool.id)
    for answer in heard:
        error = CloudError(answer.code, answer.message)
        world.recall.sent.pop(f"{pool.id}/{answer.request or answer.nodes[0]}", None)
        waiting = [
            m
            for name in answer.nodes
            if (m := world.members.get(name)) is not None
            and m.phase in (Phase.ASKED, Phase.QUEUED)
            and not world.is_settled(m)
            and not (m.request is not None and m.request.state not in ("SENT",))
        ]
        key = f"{answer.request or '+'.join(answer.nodes)}@{answer.at.isoformat()}"
        if classify(error) is Failure.ACTIVE_REQUESTS:
            note_failure(world, pool, key, None, error)
            _forget_the_launch(world, answer)
            world.settle(waiting)
        elif waiting:
            yield from _give_back(world, pool, waiting, key, error)


def _forget_the_launch(world: World, answer: Answer) -> None:
    """It left no record and was no launch: it stands in line, and its name is free again."""
    for name in answer.nodes:
        world.recall.asked[name] = world.recall.asked.get(name, ())[:-1]
    if answer.request is not None:
        stem, _, attempt = answer.request.rpartition("-")
        key = f"{answer.pool}/{stem}"
        if world.recall.attempts.get(key) == int(attempt):
            world.recall.attempts[key] -= 1


def _creations(world: World, pool: Pool) -> Iterator[Action]:
    """Named instances that Compute Engine couldn't make: give up the try, keep the reason."""
    if pool.is_flex_start:
        return
    errors = {
        instance.name: instance.error
        for instance in world.groups[pool.id].instances
        if instance.error is not None and not instance.is_alive
    }
    failed = [
        m
        for name in errors
        if (m := world.members.get(name)) is not None
        and m.phase in (Phase.ASKED, Phase.QUEUED)
        and not world.is_settled(m)
    ]
    if not failed:
        return
    names = tuple(sorted(m.name for m in failed))
    yield DeleteInstances(pool=pool.id, nodes=names, why="they could not be made")
    for member in failed:
        error = errors[member.name] or CloudError()
        key = f"{member.name}@{world.recall.see(f'power-up/{pool.id}/{member.name}').first}"
        yield from _give_back(world, pool, [member], key, error)


# --- nodes without a job


def _finish_releases(world: World, pool: Pool) -> Iterator[Action]:
    """Second look at nodes that were drained for release: idle goes down, taken comes back."""
    drained = [
        m
        for m in world.undecided(*_WAITING, Phase.UP)
        if m.pool.id == pool.id and m.node is not None and m.node.has_release_drain
    ]
    taken = [m for m in drained if m.is_busy]
    if taken:
        names = tuple(m.name for m in taken)
        yield NodeUndrain(nodes=names, why="a job was placed on them meanwhile")
    idle = [m for m in drained if not m.is_busy]
    if idle:
        reason = (idle[0].node.reason if idle[0].node else None) or "slurm-flex: release"
        names = tuple(m.name for m in idle)
        yield NodePowerDown(nodes=names, how="force", reason=reason, why="still idle: released")
        world.settle(idle)


def _abandoned(world: World, pool: Pool) -> Iterator[Action]:
    """Dynamic nodes that power up for a job which is gone before anything was asked for."""
    left = [
        m
        for m in world.undecided(Phase.ASKED)
        if m.pool.id == pool.id
        and not m.static
        and not m.is_allocated
        and m.node is not None
        and m.node.is_powering_up
        and f"occupied/{pool.id}/{m.name}" in world.recall.last.sightings
    ]
    for member in left:
        world.recall.see(f"occupied/{pool.id}/{member.name}")
    yield from release_nodes(world, left, "its job is gone")


# --- time


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
        if job is None or delay.until <= world.now:
            del world.recall.delays[key]
            continue
        if not job.is_pending or job.is_completing or _was_just_delayed(world, key):
            continue
        if job.is_held:
            continue  # somebody holds it: the start time is not what it waits for
        starts = job.start_time if job.waits_for_begin_time else None
        if starts is None or starts < delay.until - _DELAY_SLACK:
            yield JobStart(job=job.id, after=delay.until - world.now, why=delay.why)


def _was_just_delayed(world: World, key: str) -> bool:
    return world.recall.last.delays.get(key) != world.recall.delays[key]
