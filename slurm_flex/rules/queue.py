"""Every request followed to its answer: failed, cancelled, too long in the queue, or unwanted.

A request is one entry in Google's queue for all of a job's nodes. It is cancelled only when none of
its nodes is wanted any more (or when a heir needs so few of them that its own request is better);
what failed is released with the reason, and its job comes again after the back-off.
"""

from __future__ import annotations

from collections.abc import Iterator

from slurm_flex.actions import Action, CancelRequest, DeleteRequest, Event
from slurm_flex.cluster.model import Pool
from slurm_flex.durations import humanize
from slurm_flex.member import RISING, Member, Phase
from slurm_flex.model import CloudError, Request
from slurm_flex.rules.failure import capacity_back_off, tell_failure
from slurm_flex.rules.release import delay_job, give_back, release_job, release_nodes
from slurm_flex.world import World

CANCELLED = CloudError("CANCELLED", "the request was cancelled")


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        for request in world.requests(pool):
            if not request.is_own or not _members(world, request):
                continue  # somebody else's, or of nodes that are gone: see `orphans`
            if request.is_failed or request.is_cancelled:
                yield from _failed(world, pool, request)
            elif request.is_succeeded:
                yield from _succeeded(world, pool, request)
            elif request.is_live:
                yield from _live(world, pool, request)


# --- requests that are over


def _failed(world: World, pool: Pool, request: Request) -> Iterator[Action]:
    waiting = [m for m in _waiting_for(world, request) if not _has_other_request(m, request)]
    error = request.error or (CANCELLED if request.is_cancelled else CloudError())
    key = f"{request.name}@{request.created.isoformat() if request.created else ''}"
    if request.is_cancelled:
        yield from tell_cancelled(world, pool.id, request, "was cancelled")
    else:
        yield from tell_failure(world, pool, key, error, nodes=request.nodes, job=request.job_id)
    if not waiting:
        yield DeleteRequest(
            pool=pool.id, name=request.name, why=f"{request.state.lower()}, and nobody waits for it"
        )
        return
    yield from give_back(world, pool, waiting, key, error)


def _waiting_for(world: World, request: Request) -> list[Member]:
    """Its nodes that power up without a VM, and did so before the request was made."""
    members = (world.members.get(name) for name in request.nodes)
    return [
        m
        for m in members
        if m is not None
        and not world.is_settled(m)
        and m.phase in (Phase.ASKED, Phase.QUEUED)
        and world.was_made_for(request, m)
    ]


def _has_other_request(member: Member, request: Request) -> bool:
    return member.request is not None and member.request.name != request.name


def _succeeded(world: World, pool: Pool, request: Request) -> Iterator[Action]:
    """The record is worth keeping while one of its VMs lives: it names them."""
    members = [world.members[name] for name in request.nodes if name in world.members]
    if any(_may_be_its_vm(member, request) for member in members):
        return
    if any(m.phase in RISING and world.was_made_for(request, m) for m in members):
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
    seen = world.recall.see(f"in-queue/{pool.id}/{request.name}")
    waited = world.now - (request.created or seen.first)
    rival = _rival(world, request)
    if rival is not None:
        yield from cancel(world, pool.id, request, f"{rival.name} asks for the same nodes")
        return
    wanted = world.wanted_nodes(request)
    if not wanted:
        yield from cancel(world, pool.id, request, "nobody wants its nodes any more")
        leftover = [m for m in _members(world, request) if m.phase in RISING]
        yield from release_nodes(world, leftover, f"request {request.name} is not wanted")
    elif _is_better_asked_anew(world, request, wanted):
        yield from cancel(world, pool.id, request, "a heir needs only some of its nodes")
        heirless = [
            m for m in _members(world, request) if m.phase in RISING and m.name not in wanted
        ]
        yield from release_nodes(world, heirless, f"request {request.name} is not wanted")
        world.settle(_members(world, request))
    elif waited > world.settings.max_queue_wait:
        why = f"no answer for {humanize(world.settings.max_queue_wait)}"
        yield from _take_back(world, pool, request, CloudError("MAX_QUEUE_WAIT", why))


def _members(world: World, request: Request) -> list[Member]:
    return [world.members[name] for name in request.nodes if name in world.members]


def cancel(world: World, pool: str, request: Request, why: str) -> Iterator[Action]:
    if request.state == "SENT":
        return  # it has to be listed before it can be cancelled
    yield CancelRequest(pool=pool, name=request.name, why=why)
    yield from tell_cancelled(world, pool, request, why)


def tell_cancelled(world: World, pool: str, request: Request, why: str) -> Iterator[Action]:
    """In the journal, once."""
    if world.recall.once(f"cancelled/{pool}/{request.name}"):
        yield Event(
            event="REQUEST_CANCELLED",
            pool=pool,
            nodes=request.nodes,
            job=request.job_id,
            text=f"{request.name}: {why}",
            why=why,
        )


def _rival(world: World, request: Request) -> Request | None:
    """An older live request for one of its nodes: the same node never has two.

    One whose job is gone is no rival of the job that has the node now: it is the one to go.
    """
    older = [
        m.request
        for m in _members(world, request)
        if m.request is not None
        and m.request != request
        and (_is_held_by_its_job(m, m.request) or not _is_held_by_its_job(m, request))
    ]
    return min(older, key=lambda other: other.name, default=None)


def _is_held_by_its_job(member: Member, request: Request) -> bool:
    return any(job.group == request.job_id for job in member.jobs)


def _is_better_asked_anew(world: World, request: Request, wanted: list[str]) -> bool:
    """Wanted by half or fewer, by others than its own job, and no VM yet."""
    if len(wanted) * 2 > len(request.nodes) or world.keeps_place(request):
        return False
    members = _members(world, request)
    if any(m.instance is not None for m in members):
        return False
    own = {job.group for m in members for job in m.jobs}
    return request.job_id is not None and request.job_id not in own


def _take_back(world: World, pool: Pool, request: Request, error: CloudError) -> Iterator[Action]:
    """Cancel it, send its jobs back for a while: they ask for the whole again."""
    yield from cancel(world, pool.id, request, error.message)
    waiting = [m for m in _members(world, request) if m.phase in RISING]
    groups = sorted({job.group for member in waiting for job in member.jobs})
    capacity_back_off(world, pool.id, error.message)
    for group in groups:
        back_off = capacity_back_off(world, f"j{group}", error.message)
        yield from release_job(world, group, error.message)
        yield from delay_job(world, group, back_off.until - world.now, error.message)
    yield from release_nodes(world, waiting, error.message)
