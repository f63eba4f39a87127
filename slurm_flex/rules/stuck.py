"""Nodes that Slurm leaves in a state from which nothing leads back by itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Literal

from slurm_flex.actions import Action, Event, JobStart, NodeIdle, NodePowerDown, NodeResume
from slurm_flex.cluster.model import Pool
from slurm_flex.member import Member, Phase
from slurm_flex.rules.ended import EXPIRED, LOST
from slurm_flex.rules.sick import REPLACED
from slurm_flex.world import World

COMPLETING_FOR = timedelta(minutes=15)
SHOWN_EVERY = timedelta(minutes=10)
RESET = "slurm-flex: back to idle"
_NOBODYS_FAULT = (EXPIRED, LOST, RESET, REPLACED)


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        yield from _give_nodes_back_to_their_job(world, pool)
        yield from _reset(world, pool)
        yield from _finish_power_down(world, pool)
        yield from _cure_silence(world, pool)
        yield from _point_out_endless_completion(world, pool)
    yield from _show_to_backfill(world)


def _failed_to_resume(world: World, pool: Pool) -> list[Member]:
    """DOWN and off, by our word or by ResumeTimeout's; somebody else's DOWN stays."""
    return [
        m
        for m in world.members_of(pool)
        if not world.is_settled(m)
        and m.node is not None
        and m.phase is Phase.OFF
        and m.node.is_down
        and (m.node.has_own_reason or m.node.timed_out_resuming)
    ]


def _give_nodes_back_to_their_job(world: World, pool: Pool) -> Iterator[Action]:
    """ResumeTimeout ran out while the request lives: keep the place, give the same nodes back."""
    failed = {m.name: m for m in _failed_to_resume(world, pool)}
    for request in world.requests(pool):
        kept = [failed[name] for name in request.nodes if name in failed]
        if not kept or not (request.is_live or _has_arrived(kept)):
            continue
        jobs = [] if request.job_id is None else world.components(request.job_id)
        waiting = [
            job for job in jobs if job.waits_for_begin_time and not _is_delayed(world, job.id)
        ]
        static = all(world.is_static_and_free(m) for m in kept)
        if not waiting and not static:
            continue
        names = tuple(m.name for m in kept)
        yield NodeResume(nodes=names, why=f"request {request.name} is still in the queue for them")
        for job in waiting:
            yield JobStart(
                job=job.id, why="it gets the same nodes back, and its place in the queue"
            )
        world.settle(kept)
        for member in kept:
            failed.pop(member.name)


def _has_arrived(members: list[Member]) -> bool:
    return all(member.has_live_instance for member in members)


def _is_delayed(world: World, job: int) -> bool:
    return str(job) in world.recall.delays


def _reset(world: World, pool: Pool) -> Iterator[Action]:
    due = [m for m in _failed_to_resume(world, pool) if not _back_off_runs(world, m)]
    if due:
        names = tuple(member.name for member in due)
        yield NodePowerDown(nodes=names, how="force", reason=RESET, why="its back-off is over")
        world.settle(due)


def _back_off_runs(world: World, member: Member) -> bool:
    """Its launch failed and is waited out, or its pool is; an end of life is nobody's fault.

    Without memory the reason tells when that was, and the first wait of all is assumed.
    """
    node = member.node
    breaker = world.recall.breakers.get(member.pool.id)
    if breaker is not None and breaker.probe is None and world.now < breaker.retry_at:
        return True
    if (until := world.recall.node_waits.get(member.name)) is not None:
        return world.now < until
    if node is None or node.reason_time is None or not node.has_own_reason:
        return False
    if (node.reason or "").startswith(_NOBODYS_FAULT):
        return False
    return world.now < node.reason_time + world.settings.capacity_backoff


def _finish_power_down(world: World, pool: Pool) -> Iterator[Action]:
    """Set down by us and left there (a crash between down and power_down); asked down and stuck."""
    half = [
        m
        for m in world.undecided(Phase.UP, Phase.ENDING, Phase.SICK, Phase.LEAVING)
        if m.pool.id == pool.id
        and m.node is not None
        and m.node.is_down
        and m.node.has_own_reason
        and not m.node.is_power_down_requested
        and not m.node.is_powering_down
    ]
    for member in half:
        how: Literal["plain", "force"] = "plain"
        if member.node is not None and member.node.is_powering_up:
            how = "force"
        reason = (member.node.reason if member.node else None) or RESET
        why = "it was set down by us"
        yield NodePowerDown(nodes=(member.name,), how=how, reason=reason, why=why)
    world.settle(half)
    hanging = [
        m
        for m in world.undecided(Phase.ASKED, Phase.QUEUED, Phase.BOOTING)
        if m.pool.id == pool.id
        and m.node is not None
        and m.node.is_power_down_requested
        and m.node.is_powering_up
        and not m.is_busy
    ]
    if hanging:
        names = tuple(member.name for member in hanging)
        yield NodePowerDown(
            nodes=names,
            how="force",
            reason=RESET,
            why="a plain power_down hangs while it powers up",
        )
        world.settle(hanging)


def _cure_silence(world: World, pool: Pool) -> Iterator[Action]:
    """Off and NOT_RESPONDING: Slurm schedules it all the same, so only when a job waits in vain.

    Two passes beyond SuspendTimeout, or this cure and node_resume fight each other (facts:
    slurm.md).
    """
    silent = []
    for member in world.undecided(Phase.OFF):
        node = member.node
        if member.pool.id != pool.id or node is None or not node.is_not_responding or node.is_down:
            continue
        seen = world.recall.see(f"off-silent/{pool.id}/{member.name}")
        if not _is_wanted_by_a_job(world, member):
            continue
        if world.now - seen.first <= world.suspend_timeout:
            continue
        if world.recall.see(f"off-silent-long/{pool.id}/{member.name}").passes >= 2:
            silent.append(member)
    if silent:
        names = tuple(member.name for member in silent)
        yield NodePowerDown(nodes=names, how="force", reason=RESET, why="off and not responding")
        world.settle(silent)


def _show_to_backfill(world: World) -> Iterator[Action]:
    """Off, and a job that has nodes enough to choose from waits all the same.

    What went off by `down` or `power_down_force` backfill doesn't see until the node has registered
    or is set idle: a heterogeneous job, which backfill alone starts, would never get it, nor would
    jobs behind one (R 22.05.8, 24.11.5, 26.05). Slurm doesn't show which nodes these are. On any
    other node that is off `state=idle` changes nothing, and on one with a job it is refused.
    """
    in_vain = _waited_for_in_vain(world)
    hidden = []
    for member in world.undecided(Phase.OFF):
        if member.name not in in_vain:
            continue
        key = f"in-vain/{member.pool.id}/{member.name}"
        seen, shown = world.recall.see(key), world.recall.told.get(key)
        if seen.passes <= 2:
            continue
        if shown is None or shown < seen.first or world.now - shown >= SHOWN_EVERY:
            world.recall.told[key] = world.now
            hidden.append(member.name)
    if hidden:
        yield NodeIdle(nodes=tuple(hidden), why="a job waits for nodes though it could have these")


def _waited_for_in_vain(world: World) -> set[str]:
    """Nodes that are free, and jobs wait for no more than there are of them."""
    waiting = [job for job in world.jobs if job.waits_for_nodes]
    if not waiting:
        return set()
    free = _free_by_partition(world)
    found: set[str] = set()
    for job in waiting:
        for partition in (job.partition or "").split(","):
            fit = free.get(partition, set())
            if job.required_nodes or job.exclude_nodes:
                fit = fit & set(job.required_nodes or fit) - set(job.exclude_nodes)
            if len(fit) >= (len(job.required_nodes) or job.num_nodes):
                found |= fit
    return found


def _free_by_partition(world: World) -> dict[str, set[str]]:
    """In each partition of Slurm and of the cluster file."""
    free: dict[str, set[str]] = {}
    by_pool: dict[str, set[str]] = {}
    for member in world.undecided(Phase.OFF, Phase.UP):
        node = member.node
        if node is None or node.is_down or node.is_drained or node.is_not_responding:
            continue
        if not member.is_busy:
            by_pool.setdefault(member.pool.id, set()).add(member.name)
    everywhere = set().union(*by_pool.values())
    for shown in world.slurm.partitions:
        free[shown.name] = everywhere.intersection(shown.nodes)
    for pool in world.pools:
        for partition in world.cluster.partitions_of(pool):
            free.setdefault(partition.id, set()).update(by_pool.get(pool.id, ()))
    return free


def _is_wanted_by_a_job(world: World, member: Member) -> bool:
    parts = _partitions_of(world, member)
    return any(
        job.waits_for_nodes
        and member.name not in job.exclude_nodes
        and (member.name in job.required_nodes or set((job.partition or "").split(",")) & parts)
        for job in world.jobs
    )


def _partitions_of(world: World, member: Member) -> set[str]:
    return {p.name for p in world.slurm.partitions if member.name in p.nodes} | {
        p.id for p in world.cluster.partitions_of(member.pool)
    }


def _point_out_endless_completion(world: World, pool: Pool) -> Iterator[Action]:
    """COMPLETING without end is waited for, and said once (scenario 33)."""
    for member in world.undecided():
        if member.pool.id != pool.id or member.node is None or not member.node.is_completing:
            continue
        seen = world.recall.see(f"completing/{pool.id}/{member.name}").first
        if world.now - seen > COMPLETING_FOR and world.recall.once(
            f"completing/{member.name}/{seen.isoformat()}"
        ):
            yield Event(
                event="NODE_COMPLETING",
                nodes=(member.name,),
                text="a job's end has taken over 15 minutes here",
                why="its processes may hang",
            )
