"""What a pass saw, put together for people: the content of the status file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from slurm_flex.cluster.model import Pool
from slurm_flex.member import Member, Phase
from slurm_flex.memory import Entry
from slurm_flex.model import CloudError, Job, Memory, Request, Snapshot
from slurm_flex.recall import Recall
from slurm_flex.snapshot.times import format_time
from slurm_flex.snapshot.write import written_names
from slurm_flex.status_file import FORMAT
from slurm_flex.world import World


@dataclass(frozen=True)
class Health:
    """How the daemon is. `heartbeat` is the start of the last pass in which nothing failed."""

    version: str
    pid: int
    started: datetime
    heartbeat: datetime | None
    next_pass: timedelta
    errors: Sequence[str] = ()
    notices: Sequence[str] = ()
    acting: bool = True


def digest(
    snapshot: Snapshot, memory: Memory, health: Health, events: Iterable[Entry]
) -> dict[str, Any]:
    """All that the reading commands show, as JSON values; times RFC 3339, durations in seconds."""
    world = World(snapshot, Recall(memory, snapshot.now))
    return {
        "format": FORMAT,
        "time": format_time(snapshot.now),
        "cluster": snapshot.cluster.id,
        "daemon": _daemon(health, snapshot),
        "end_margin": snapshot.settings.end_margin.total_seconds(),
        "pools": [_pool(pool_id, world, snapshot, memory) for pool_id in _pool_ids(snapshot)],
        "nodes": [_node(member, world, memory) for member in _members(world)],
        "requests": [
            _request(pool.id, request) for pool in world.pools for request in world.requests(pool)
        ],
        "jobs": [_job(job, world, memory) for job in snapshot.slurm.jobs],
        "events": [entry_as_json(entry) for entry in events],
    }


def entry_as_json(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "time": format_time(entry.at),
        "kind": entry.kind,
        "nodes": written_names(entry.nodes),
        "job": entry.job,
        "pool": entry.pool,
        "text": entry.text,
    }


def _daemon(health: Health, snapshot: Snapshot) -> dict[str, Any]:
    slurm = snapshot.slurm
    return {
        "version": health.version,
        "pid": health.pid,
        "started": format_time(health.started),
        "heartbeat": _time(health.heartbeat),
        "next_pass": health.next_pass.total_seconds(),
        "acting": health.acting,
        "errors": list(health.errors),
        "notices": list(health.notices),
        "slurm": {
            "version": slurm.version,
            "responding": slurm.responding,
            "primary": slurm.primary,
        },
    }


def _pool_ids(snapshot: Snapshot) -> list[str]:
    return [pool.id for pool in snapshot.cluster.compute_pools]


def _pool(pool_id: str, world: World, snapshot: Snapshot, memory: Memory) -> dict[str, Any]:
    group = snapshot.cloud.get(pool_id)
    pool = snapshot.cluster.pool(pool_id)
    phases = Counter(str(m.phase) for m in world.members.values() if m.pool.id == pool_id)
    breaker = memory.breakers.get(pool_id)
    return {
        "pool": pool_id,
        "model": pool.provisioning_model.value if pool else None,
        "zone": pool.zone if pool else None,
        "nodes": pool.max_node_count if pool else 0,
        "static": pool.min_node_count if pool else 0,
        "partitions": [part.id for part in snapshot.cluster.partitions_of(pool_id)],
        "run_duration": pool.run_duration.total_seconds() if pool and pool.is_flex_start else None,
        "complete": bool(group and group.complete),
        "exists": bool(group and group.exists),
        "target_size": group.target_size if group else None,
        "vms": sum(1 for one in group.instances if one.is_real) if group else None,
        "paused": pool_id in snapshot.paused_pools,
        "phases": dict(sorted(phases.items())),
        "breaker": None
        if breaker is None
        else {
            "failure": breaker.failure,
            "why": breaker.why,
            "since": format_time(breaker.since),
            "retry_at": format_time(breaker.retry_at),
        },
        "back_offs": [
            {"failure": key.partition("/")[2], "why": wait.why, "until": format_time(wait.until)}
            for key, wait in sorted(memory.back_offs.items())
            if key.partition("/")[0] == pool_id and wait.until > snapshot.now
        ],
    }


def _members(world: World) -> Iterator[Member]:
    """Every configured node; where the pool couldn't be read, only what Slurm says of it."""
    for pool in world.cluster.compute_pools:
        for index, name in enumerate(world.cluster.node_names(pool)):
            yield world.members.get(name) or Member(
                name=name,
                pool=pool,
                index=index,
                static=pool.is_static(index),
                node=world.nodes.get(name),
                instance=None,
                request=None,
                jobs=tuple(job for job in world.jobs if job.holds_nodes and name in job.nodes),
                phase=Phase.UNKNOWN,
                stranger=False,
            )
        yield from _left_the_file(world, pool)


def _left_the_file(world: World, pool: Pool) -> Iterator[Member]:
    """Nodes that the file has no more and that still have a VM: billed, so they are shown."""
    group = world.groups.get(pool.id)
    for instance in group.instances if group is not None else ():
        name = instance.name
        if name not in world.nodes or world.cluster.locate(name) is not None:
            continue
        if instance.is_real and instance.is_labelled(world.cluster.id):
            yield Member(
                name=name,
                pool=pool,
                index=-1,
                static=False,
                node=world.nodes[name],
                instance=instance,
                request=None,
                jobs=tuple(job for job in world.jobs if job.holds_nodes and name in job.nodes),
                phase=Phase.LEAVING,
                stranger=False,
            )


def _node(member: Member, world: World, memory: Memory) -> dict[str, Any]:
    node, instance = member.node, member.instance
    ends = world.end_of(member)
    return {
        "node": member.name,
        "pool": member.pool.id,
        "static": member.static,
        "phase": str(member.phase),
        "slurm": node.state if node else None,
        "reason": node.reason if node else None,
        "reason_user": node.reason_user if node else None,
        "reason_time": _time(node.reason_time if node else None),
        "reason_is_ours": bool(node and node.has_own_reason),
        "comment": node.comment if node else None,
        "vm": instance.status if instance else None,
        "vm_id": instance.id if instance else None,
        "vm_action": instance.action if instance else None,
        "vm_created": _time(instance.created if instance else None),
        "vm_error": _error(instance.error if instance else None),
        "stranger": member.stranger,
        "ends": _time(ends),
        "maintenance": _time(world.maintenance_of(member)),
        "request": member.request.name if member.request else None,
        "launches": len(memory.asked.get(member.name, ())),
        "jobs": [job.id for job in member.jobs],
    }


def _request(pool_id: str, request: Request) -> dict[str, Any]:
    return {
        "request": request.name,
        "pool": pool_id,
        "job": request.job_id,
        "state": request.state,
        "live": request.is_live,
        "nodes": written_names(request.nodes),
        "count": len(request.nodes),
        "created": _time(request.created),
        "run_duration": request.run_duration.total_seconds() if request.run_duration else None,
        "error": _error(request.error),
        "last_attempt": _error(request.last_attempt),
    }


def _job(job: Job, world: World, memory: Memory) -> dict[str, Any]:
    key = str(job.id)
    delay = memory.delays.get(key) or memory.delays.get(str(job.group))
    return {
        "job": job.id,
        "het_job": job.het_job_id,
        "state": job.state,
        "reason": job.reason,
        "partition": job.partition,
        "nodes": written_names(job.nodes),
        "required_nodes": written_names(job.required_nodes),
        "num_nodes": job.num_nodes,
        "priority": job.priority,
        "submitted": _time(job.submit_time),
        "starts": _time(job.start_time),
        "ends": _time(job.end_time),
        "time_limit": job.time_limit.total_seconds() if job.time_limit else None,
        "restarts": job.restarts,
        "requeueable": job.is_requeueable,
        "expiries": memory.expiries.get(key, 0),
        "health_restarts": memory.health_restarts.get(key, 0),
        "delay": None
        if delay is None or delay.until <= world.now
        else {"until": format_time(delay.until), "why": delay.why},
        "story": job.admin_comment,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def _error(error: CloudError | None) -> dict[str, str] | None:
    return None if error is None else {"code": error.code, "message": error.message}
