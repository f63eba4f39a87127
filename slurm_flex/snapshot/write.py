"""Write a snapshot: the format of DESIGN, every key present, what is absent as null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from slurm_flex.hostlist import HostlistError, expand, fold
from slurm_flex.model import (
    CloudError,
    Group,
    Instance,
    Job,
    Memory,
    Node,
    Partition,
    Request,
    Reservation,
    Slurm,
    SlurmConfig,
    Snapshot,
)
from slurm_flex.snapshot.memory import dump_memory
from slurm_flex.snapshot.read import FORMAT
from slurm_flex.snapshot.times import format_time


def dump_snapshot(snapshot: Snapshot, memory: Memory | None = None) -> dict[str, Any]:
    """JSON values that :func:`load_snapshot` reads back as the same snapshot and memory."""
    settings = snapshot.settings.differing()
    if snapshot.paused_pools:
        settings["paused_pools"] = sorted(snapshot.paused_pools)
    return {
        "format": FORMAT,
        "now": format_time(snapshot.now),
        "settings": settings,
        "cluster": snapshot.cluster.source,
        "slurm": _slurm(snapshot.slurm),
        "cloud": {pool: _group(group) for pool, group in sorted(snapshot.cloud.items())},
        "memory": dump_memory(memory or Memory()),
    }


def written_names(names: Iterable[str]) -> str | None:
    """A hostlist; None for no names. Names that no hostlist can hold stand bare, with commas."""
    listed = tuple(names)
    if not listed:
        return None
    try:
        return fold(listed)
    except HostlistError:
        return ",".join(listed)


def written_seconds(length: timedelta) -> int | float:
    seconds = length.total_seconds()
    return int(seconds) if seconds == int(seconds) else seconds


def _names(names: tuple[str, ...]) -> str | list[str] | None:
    """A hostlist where it says the same names in the same order, else a list."""
    if not names:
        return None
    try:
        folded = fold(names)
        return folded if expand(folded) == names else list(names)
    except HostlistError:
        return list(names)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def _seconds(length: timedelta | None) -> int | float | None:
    return None if length is None else written_seconds(length)


def _slurm(slurm: Slurm) -> dict[str, Any]:
    return {
        "version": slurm.version,
        "responding": slurm.responding,
        "primary": slurm.primary,
        "config": _config(slurm.config),
        "nodes": [_node(node) for node in slurm.nodes],
        "jobs": [_job(job) for job in slurm.jobs],
        "partitions": [_partition(partition) for partition in slurm.partitions],
        "reservations": [_reservation(reservation) for reservation in slurm.reservations],
    }


def _config(config: SlurmConfig) -> dict[str, Any]:
    return {
        "SuspendExcNodes": config.suspend_exc_nodes,
        "SuspendExcParts": config.suspend_exc_parts,
        "SuspendExcStates": config.suspend_exc_states,
        "SuspendTime": _seconds(config.suspend_time),
        "SuspendTimeout": _seconds(config.suspend_timeout),
        "ResumeTimeout": _seconds(config.resume_timeout),
        "SlurmctldParameters": config.slurmctld_parameters,
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "state": node.state,
        "reason": node.reason,
        "reason_time": _time(node.reason_time),
        "reason_user": node.reason_user,
        "instance_id": node.instance_id,
        "boot_time": _time(node.boot_time),
        "comment": node.comment,
    }


def _job(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "state": job.state,
        "reason": job.reason,
        "partition": job.partition,
        "user": job.user,
        "batch": job.batch,
        "nodes": _names(job.nodes),
        "required_nodes": _names(job.required_nodes),
        "exclude_nodes": _names(job.exclude_nodes),
        "features": job.features,
        "reservation": job.reservation,
        "num_nodes": job.num_nodes,
        "time_limit": _seconds(job.time_limit),
        "submit_time": _time(job.submit_time),
        "start_time": _time(job.start_time),
        "end_time": _time(job.end_time),
        "priority": job.priority,
        "exclusive": job.exclusive,
        "requeue": job.requeue,
        "restarts": job.restarts,
        "array_tasks": job.array_tasks,
        "het_job_id": job.het_job_id,
        "comment": job.comment,
        "extra": job.extra,
        "admin_comment": job.admin_comment,
    }


def _partition(partition: Partition) -> dict[str, Any]:
    return {
        "name": partition.name,
        "state": partition.state,
        "nodes": _names(partition.nodes),
        "max_time": _seconds(partition.max_time),
    }


def _reservation(reservation: Reservation) -> dict[str, Any]:
    return {
        "name": reservation.name,
        "nodes": _names(reservation.nodes),
        "start": _time(reservation.start),
        "end": _time(reservation.end),
        "flags": list(reservation.flags),
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "complete": group.complete,
        "group": group.exists,
        "target_size": group.target_size,
        "instances": [_instance(instance) for instance in group.instances],
        "requests": [_request(request) for request in group.requests],
    }


def _instance(instance: Instance) -> dict[str, Any]:
    """`maintenance` stands only where one is announced: the other keys are the format's first."""
    announced = {} if instance.maintenance is None else {"maintenance": _time(instance.maintenance)}
    return {
        "name": instance.name,
        "id": instance.id,
        "status": instance.status,
        "action": instance.action,
        "created": _time(instance.created),
        "terminates": _time(instance.terminates),
        "labels": _labels(instance.labels),
        "error": _error(instance.error),
        **announced,
    }


def _labels(labels: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if labels is None else dict(labels)


def _request(request: Request) -> dict[str, Any]:
    return {
        "name": request.name,
        "state": request.state,
        "nodes": _names(request.nodes),
        "created": _time(request.created),
        "run_duration": _seconds(request.run_duration),
        "error": _error(request.error),
        "last_attempt": _error(request.last_attempt),
    }


def _error(error: CloudError | None) -> dict[str, str] | None:
    return None if error is None else {"code": error.code, "message": error.message}
