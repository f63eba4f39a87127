"""Worlds in a few words, for tests of the planner.

`world(node("c1-gx-0", "mix#"), job(51, nodes="c1-gx-0"), request("j51-1", "c1-gx-0"))` is a whole
snapshot: a cluster c1 with a FLEX_START pool gx of eight dynamic nodes, every node that isn't
named off and idle, Slurm's configuration as the project renders it, and the clock at NOON.

Times are offsets from NOON ("-20m", "+6d23h30m") or aware datetimes. Hostlists are expanded here,
on their own, so that a fault in the project's own expansion shows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from slurm_flex.cluster import Cluster, Pool
from slurm_flex.cluster.settings import Settings
from slurm_flex.model import (
    CLUSTER_LABEL,
    CloudError,
    Group,
    Instance,
    Job,
    Node,
    Partition,
    Request,
    Reservation,
    Slurm,
    Snapshot,
)
from tests.acts import Acts, Played, decide, describe, passes
from tests.clusters import make_cluster, pool, slurm_config
from tests.notation import (
    NO_PERMISSION,
    NOON,
    QUOTA,
    STOCKOUT,
    Span,
    When,
    at,
    full_state,
    hosts,
    maybe,
    span,
)

__all__ = [
    "NOON",
    "NO_PERMISSION",
    "OWN_FLAGS",
    "QUOTA",
    "STOCKOUT",
    "Acts",
    "Away",
    "InPool",
    "Played",
    "Span",
    "Thing",
    "When",
    "at",
    "decide",
    "describe",
    "full_state",
    "half_seen",
    "hosts",
    "instance",
    "job",
    "later",
    "make_cluster",
    "no_group",
    "node",
    "passes",
    "pool",
    "repeat",
    "request",
    "reservation",
    "slurm_config",
    "some_id",
    "span",
    "world",
]


def node(
    names: str,
    state: str = "idle~",
    *,
    reason: str | None = None,
    since: When | None = None,
    user: str | None = None,
    instance_id: str | None = None,
    boot_time: When | None = None,
    comment: str | None = None,
) -> tuple[Node, ...]:
    """One node, or each node of a hostlist. `since` is when the reason was written."""
    return tuple(
        Node(
            name=name,
            state=full_state(state),
            reason=reason,
            reason_time=maybe(since),
            reason_user=user,
            instance_id=instance_id,
            boot_time=maybe(boot_time),
            comment=comment,
        )
        for name in hosts(names)
    )


_JOB_STATES = {"PD": "PENDING", "CF": "CONFIGURING", "R": "RUNNING", "CG": "COMPLETING"}


def job(
    number: int,
    state: str | None = None,
    *,
    nodes: str = "",
    needs: str = "",
    size: int | None = None,
    reason: str | None = None,
    partition: str | None = None,
    limit: Span | None = "1h",
    submitted: When = "-1h",
    starts: When | None = None,
    ends: When | None = None,
    **more: Any,
) -> Job:
    """A job; CONFIGURING where it has nodes, else PENDING. `needs` are the nodes it insists on."""
    has, wants = hosts(nodes), hosts(needs)
    word = state or ("CONFIGURING" if has else "PENDING")
    word = _JOB_STATES.get(word, word)
    return Job(
        id=number,
        state=word,
        reason=reason or ("Resources" if word == "PENDING" else "None"),
        partition=partition or "gx",
        nodes=has,
        required_nodes=wants,
        num_nodes=size or len(has) or len(wants) or 1,
        time_limit=None if limit is None else span(limit),
        submit_time=at(submitted),
        start_time=maybe(starts),
        end_time=maybe(ends),
        **{"priority": 1000, "exclusive": True, "user": "ada", **more},
    )


@dataclass(frozen=True)
class InPool:
    """An instance or a request, and the pool whose group lists it (None: by its node's name)."""

    value: Instance | Request
    pool: str | None


def some_id(name: str, salt: object = "") -> str:
    return str(zlib.crc32(f"{name}/{salt}".encode()))


def instance(
    names: str,
    status: str | None = "RUNNING",
    *,
    action: str = "NONE",
    created: When | None = "-1h",
    ends: When | None = "+6d23h",
    number: str | None = None,
    cluster: str | None = "c1",
    pool: str | None = None,
    error: tuple[str, str] | None = None,
    maintenance: When | None = None,
) -> tuple[InPool, ...]:
    """The VM behind a node. `status=None` is a place in the queue. `cluster=""` has no label of
    ours; with None the labels aren't known."""
    return tuple(
        InPool(
            Instance(
                name=name,
                id=None if status is None else number or some_id(name),
                status=status,
                action="CREATING" if status is None and action == "NONE" else action,
                created=maybe(created) if status is not None else None,
                terminates=maybe(ends) if status is not None else None,
                labels=None if cluster is None else {CLUSTER_LABEL: cluster} if cluster else {},
                error=None if error is None else CloudError(*error),
                maintenance=maybe(maintenance),
            ),
            pool,
        )
        for name in hosts(names)
    )


def request(
    name: str,
    nodes: str,
    state: str = "ACCEPTED",
    *,
    created: When | None = "-1m",
    duration: Span | None = "7d",
    error: tuple[str, str] | None = None,
    last: tuple[str, str] | None = None,
    pool: str | None = None,
) -> InPool:
    return InPool(
        Request(
            name=name,
            state=state,
            nodes=hosts(nodes),
            created=maybe(created),
            run_duration=None if duration is None else span(duration),
            error=None if error is None else CloudError(*error),
            last_attempt=None if last is None else CloudError(*last),
        ),
        pool,
    )


def reservation(
    name: str, nodes: str, *, start: When, end: When, flags: tuple[str, ...] = ("MAINT",)
) -> Reservation:
    return Reservation(name=name, nodes=hosts(nodes), start=at(start), end=at(end), flags=flags)


OWN_FLAGS = ("MAINT", "IGNORE_JOBS", "SPEC_NODES")


@dataclass(frozen=True)
class Away:
    """A pool whose group is not as it should be."""

    pool: str
    complete: bool = True
    exists: bool = True
    looked_at: bool = True


def half_seen(pool: str) -> Away:
    """The listing of that pool failed or was partial."""
    return Away(pool, complete=False)


def no_group(pool: str) -> Away:
    return Away(pool, exists=False)


Thing: TypeAlias = (
    Node | Job | InPool | Reservation | Pool | Away | tuple[Node, ...] | tuple[InPool, ...]
)


def _flat(things: Iterable[Thing]) -> Iterator[Node | Job | InPool | Reservation | Pool | Away]:
    for thing in things:
        if isinstance(thing, tuple):
            yield from thing
        else:
            yield thing


def world(
    *things: Thing,
    now: When = "now",
    settings: Mapping[str, Any] | None = None,
    partitions: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    version: str = "24.11.5",
    responding: bool = True,
    primary: bool = True,
    paused: Iterable[str] = (),
    fill: bool = True,
    cluster: Cluster | None = None,
) -> Snapshot:
    """A snapshot. Nodes that aren't named are idle and off, unless `fill` is False."""
    parts = list(_flat(things))
    pools = tuple(each for each in parts if isinstance(each, Pool)) or (pool("gx"),)
    cluster = cluster or make_cluster(*pools, partitions=partitions)
    nodes = {each.name: each for each in parts if isinstance(each, Node)}
    if fill:
        for each in cluster.compute_pools:
            for name in cluster.node_names(each):
                nodes.setdefault(name, node(name)[0])
    away = {each.pool: each for each in parts if isinstance(each, Away)}
    cloud: dict[str, Group] = {}
    for each in cluster.compute_pools:
        mine = [
            item.value for item in parts if isinstance(item, InPool) and _in(item, each, cluster)
        ]
        seen = away.get(each.id, Away(each.id))
        cloud[each.id] = Group(
            complete=seen.complete,
            exists=seen.exists,
            target_size=None,
            instances=tuple(item for item in mine if isinstance(item, Instance)),
            requests=tuple(item for item in mine if isinstance(item, Request)),
        )
    jobs = tuple(each for each in parts if isinstance(each, Job))
    return Snapshot(
        now=at(now),
        settings=Settings(**(settings or {})),
        cluster=cluster,
        slurm=Slurm(
            version=version,
            responding=responding,
            primary=primary,
            config=slurm_config(cluster, **(config or {})),
            nodes=tuple(nodes.values()),
            jobs=jobs,
            partitions=tuple(
                Partition(
                    part.id,
                    nodes=tuple(
                        name for each in part.node_pool_ids for name in cluster.node_names(each)
                    ),
                )
                for part in cluster.partitions
            ),
            reservations=tuple(each for each in parts if isinstance(each, Reservation)),
        ),
        cloud=cloud,
        paused_pools=frozenset(paused),
    )


def _in(item: InPool, pool: Pool, cluster: Cluster) -> bool:
    if item.pool is not None:
        return item.pool == pool.id
    names = (item.value.name,) if isinstance(item.value, Instance) else item.value.nodes
    place = cluster.locate(names[0]) if names else None
    return place is not None and place.pool_id == pool.id


def later(snapshot: Snapshot, wait: Span) -> Snapshot:
    """The same world, some time on."""
    return replace(snapshot, now=snapshot.now + span(wait))


def repeat(snapshot: Snapshot, times: int, every: Span = "30s") -> tuple[Snapshot, ...]:
    """The same world seen several times, `every` so often; the last one is at its own `now`."""
    gap = span(every)
    return tuple(
        replace(snapshot, now=snapshot.now - gap * back) for back in range(times - 1, -1, -1)
    )
