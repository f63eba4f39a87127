"""Google's messages in our words: translated here, once.

What is missing or can't be read becomes None, never a guess: a clock without a zone could be read
in two ways, and an end of life read wrongly kills a job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Final, Protocol

from google.cloud import compute_v1

from slurm_flex.cluster import Cluster, Pool
from slurm_flex.compute.templates import POOL_LABEL
from slurm_flex.model.cloud import CLUSTER_LABEL, CloudError, Instance, Request

UNMANAGED: Final = "UNMANAGED"
"""The action of an instance that bears a node's name or our labels and is in no group of ours."""

# Only digits up to the seconds, any fraction, and a zone: 2026-12-01T04:00:00.123-08:00.
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:?\d\d)?\Z", re.ASCII
)

_NO_ZONE: Final = "a timestamp of Compute Engine has no zone; such a time counts as absent"
_UNREADABLE: Final = "a timestamp of Compute Engine can't be read; such a time counts as absent"

Warn = Callable[[str], None]
"""Takes a text that is worth saying once."""


class _Error(Protocol):
    code: str
    message: str


_NEVER: Final = 3000
"""Google writes "not known" as a moment in the year 9999."""


def time_of(text: str, warn: Warn) -> datetime | None:
    """A timestamp of the API as aware UTC. Without a zone, or unreadable: None, and a warning."""
    if not text:
        return None
    match = _TIME.match(text)
    if match is None or match[4] is None:
        warn(_NO_ZONE if match else _UNREADABLE)
        return None
    day, clock, fraction, zone = match.groups()
    zone = "+0000" if zone in "Zz" else zone.replace(":", "")
    micros = (fraction or "0")[:6].ljust(6, "0")
    try:
        read = datetime.strptime(f"{day} {clock}.{micros}{zone}", "%Y-%m-%d %H:%M:%S.%f%z")
        moment = read.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        warn(_UNREADABLE)
        return None
    return moment if moment.year < _NEVER else None


def first_error(errors: Iterable[_Error]) -> CloudError | None:
    """The first error that says anything. Google lists the cause first; parts may be missing."""
    said = (CloudError(one.code, one.message) for one in errors if one.code or one.message)
    return next(said, None)


def request_of(item: compute_v1.InstanceGroupManagerResizeRequest, warn: Warn) -> Request:
    """A resize request. One that was made by number alone has no nodes."""
    status = item.status
    seconds = int(item.requested_run_duration.seconds)
    return Request(
        name=item.name,
        state=item.state or "CREATING",
        nodes=tuple(member.name for member in item.instances),
        created=time_of(item.creation_timestamp, warn),
        run_duration=timedelta(seconds=seconds) if seconds else None,
        error=first_error(status.error.errors),
        last_attempt=first_error(status.last_attempt.error.errors),
    )


def member_of(
    item: compute_v1.ManagedInstance, instance: compute_v1.Instance | None, warn: Warn
) -> Instance:
    """A managed instance; `instance` is its VM as the zone lists it, where it does.

    The zone is listed after the group, so that of two incarnations the zone's is the newer.
    """
    member = Instance(
        name=name_of(item),
        id=str(item.id) if item.id else None,
        status=item.instance_status or None,
        action=item.current_action or "NONE",
        terminates=time_of(item.scheduling.termination_timestamp, warn),
        error=first_error(item.last_attempt.errors.errors),
    )
    if instance is None:
        return member
    seen = stray_of(instance, warn)
    same = member.id in (seen.id, None)
    return replace(
        seen,
        action=member.action,
        terminates=(member.terminates if same else None) or seen.terminates,
        error=member.error,
    )


def stray_of(instance: compute_v1.Instance, warn: Warn) -> Instance:
    """A VM that is in no group of ours: abandoned, made by hand, or on its way out."""
    return Instance(
        name=instance.name,
        id=str(instance.id) if instance.id else None,
        status=instance.status or None,
        action=UNMANAGED,
        created=time_of(instance.creation_timestamp, warn),
        terminates=time_of(instance.resource_status.scheduling.termination_timestamp, warn),
        labels=dict(instance.labels),
        maintenance=maintenance_of(instance, warn),
    )


def maintenance_of(instance: compute_v1.Instance, warn: Warn) -> datetime | None:
    """When an announced maintenance of its host ends the VM; None for one that moves elsewhere."""
    if instance.scheduling.on_host_maintenance == "MIGRATE":
        return None
    return time_of(instance.resource_status.upcoming_maintenance.window_start_time, warn)


def join(
    cluster: Cluster,
    pool: Pool,
    members: Sequence[compute_v1.ManagedInstance],
    instances: Iterable[compute_v1.Instance],
    warn: Warn,
) -> tuple[Instance, ...]:
    """The pool's instances: the group's members with the labels of their VMs, and strays.

    A stray has exactly the name of one of the pool's nodes, or our labels with this pool. Names
    are taken as they are: an FQDN or another case is another name.
    """
    by_name = {item.name: item for item in instances}
    joined = [member_of(item, by_name.pop(name_of(item), None), warn) for item in members]
    nodes = frozenset(cluster.node_names(pool))
    joined += (
        stray_of(item, warn)
        for name, item in by_name.items()
        if name in nodes or _is_labelled(item, cluster, pool)
    )
    return tuple(joined)


def name_of(item: compute_v1.ManagedInstance) -> str:
    """A member's name; it is in the URL of its VM, too."""
    return item.name or item.instance.rpartition("/")[2]


def _is_labelled(item: compute_v1.Instance, cluster: Cluster, pool: Pool) -> bool:
    return bool(
        item.labels.get(CLUSTER_LABEL) == cluster.id and item.labels.get(POOL_LABEL) == pool.id
    )
