"""A pending job that would fit a fresh node, and finds only nodes with too little life left.

As many idle nodes as it needs, those with the least life first, go home and come back fresh: never
one that runs something, once a job until it starts, and not for a job that waits for another
reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from slurm_flex.actions import Action, NodePowerDown
from slurm_flex.member import Member, Phase
from slurm_flex.model import Job
from slurm_flex.world import World

RENEWED = "slurm-flex: renewed for a job that needs a longer life"


def renew(world: World) -> Iterator[Action]:
    waiting = {str(job.id) for job in world.jobs if job.is_pending}
    for key in [k for k in world.recall.told if k.startswith("renewed/")]:
        if key.split("/")[1] not in waiting:
            del world.recall.told[key]
    if not world.settings.renew_on_demand:
        return
    for job in sorted(world.jobs, key=lambda j: (-j.priority, j.submit_time or world.now, j.id)):
        if not job.lacks_nodes or job.reservation or f"renewed/{job.id}" in world.recall.told:
            continue
        tired = _too_old_for(world, job)
        if not tired:
            continue
        world.recall.once(f"renewed/{job.id}")
        yield NodePowerDown(
            nodes=tuple(member.name for member in tired),
            how="asap",
            reason=RENEWED,
            why=f"job {job.id} fits only a fresh node",
        )
        world.send_home(tired)


def _too_old_for(world: World, job: Job) -> list[Member]:
    """The idle nodes to send home for it: none if it fits somewhere, or if they wouldn't do."""
    candidates = [m for m in world.members.values() if _could_run_on(world, job, m)]
    fresh = sum(1 for m in candidates if _will_be_fresh(m))
    fitting = sum(1 for m in candidates if _is_idle(m) and _outlives(world, m, job))
    old = [
        m
        for m in candidates
        if _is_idle(m) and not world.is_settled(m) and not _outlives(world, m, job)
    ]
    missing = job.num_nodes - fresh - fitting
    if missing <= 0 or missing > len(old):
        return []
    return sorted(old, key=lambda m: (_end(world, m), m.index, m.name))[:missing]


def _could_run_on(world: World, job: Job, member: Member) -> bool:
    node, pool = member.node, member.pool
    if node is None or not pool.is_flex_start or member.phase in (Phase.UNKNOWN, Phase.HELD):
        return False
    if member.name in job.exclude_nodes or world.is_reserved_by_others(member):
        return False
    if job.required_nodes and member.name not in job.required_nodes:
        return False
    if (
        job.time_limit is not None
        and job.time_limit + world.settings.end_margin > pool.run_duration
    ):
        return False
    if pool.id in world.paused or pool.id in world.recall.breakers:
        return False
    return _in_partition(world, job, member) and _has_features(world, job, member)


def _in_partition(world: World, job: Job, member: Member) -> bool:
    names = set((job.partition or "").split(","))
    listed = [p for p in world.slurm.partitions if p.name in names]
    if listed:
        return any(p.state == "UP" and member.name in p.nodes for p in listed)
    return any(spec.id in names for spec in world.cluster.partitions_of(member.pool))


def _has_features(world: World, job: Job, member: Member) -> bool:
    """Features are looked up in the cluster file; an expression that isn't plain is not ours."""
    if not job.features:
        return True
    wanted = [word for word in re.split(r"[&,]", job.features) if word]
    if any(not re.fullmatch(r"[A-Za-z0-9_.-]+", word) for word in wanted):
        return False
    has: set[str] = {member.pool.id}
    for node_set in world.cluster.slurm.node_sets:
        if node_set.node_pool_id == member.pool.id:
            for key, value in node_set.config.items():
                if key.lower() in ("feature", "features"):
                    has.update(value.split(","))
    return set(wanted) <= has


def _is_idle(member: Member) -> bool:
    node = member.node
    return (
        member.phase is Phase.UP
        and node is not None
        and not member.is_busy
        and not node.is_down
        and not node.is_drained
        and not node.is_power_down_requested
    )


def _will_be_fresh(member: Member) -> bool:
    """Off, on its way down, or powering up for nobody: it comes with a new VM when it is needed."""
    if member.phase in (Phase.OFF, Phase.LEAVING):
        return member.node is not None and not member.node.is_down
    return member.phase in (Phase.ASKED, Phase.QUEUED, Phase.BOOTING) and not member.is_allocated


def _end(world: World, member: Member) -> datetime:
    return world.end_of(member) or world.now + timedelta(days=3650)


def _outlives(world: World, member: Member, job: Job) -> bool:
    """Whether the job fits before the reservation; one without a limit fits no node that lived."""
    ends = world.end_of(member)
    if ends is None:
        return True
    if job.time_limit is None:
        return False
    return world.now + job.time_limit <= ends - world.settings.end_margin
