"""One reading of all groups, in few calls.

Per zone: one list of its groups and one of its instances. Per pool: its requests, then its managed
instances. In this order, so that no request looks fulfilled whose instances weren't listed yet,
and no member looks alive that had left before its VM was looked for.

A list that can't be had as a whole makes its pool (or its zone's pools) incomplete, never empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from google.cloud import compute_v1

from slurm_flex.cluster import Cluster, Pool
from slurm_flex.compute.calls import Caller
from slurm_flex.compute.clients import Clients
from slurm_flex.compute.errors import ComputeError, NotFound
from slurm_flex.compute.fleet import Survey
from slurm_flex.compute.gather import gather
from slurm_flex.compute.lists import PAGE, all_pages
from slurm_flex.compute.translate import Warn, join, request_of
from slurm_flex.model.cloud import Group, Request

T = TypeVar("T")
Items = Sequence[Any]


@dataclass(frozen=True)
class _Members:
    """What a pool's own two lists say."""

    requests: tuple[Request, ...]
    members: tuple[compute_v1.ManagedInstance, ...]


class Reader:
    """Reads the groups of one cluster."""

    def __init__(
        self, cluster: Cluster, clients: Clients, call: Caller, within: timedelta, warn: Warn
    ) -> None:
        self._cluster = cluster
        self._clients = clients
        self._call = call
        self._within = within
        self._warn = warn

    def read(self, pools: Iterable[Pool]) -> Survey:
        """A group for every pool; see Fleet.read."""
        wanted = {pool.id: pool for pool in pools}
        zones = list(dict.fromkeys(pool.zone for pool in wanted.values()))
        before = self._call.tries.total()
        until = time.monotonic() + self._within.total_seconds()
        first: dict[tuple[str, str], Callable[[], Any]] = {}
        first |= {("zone", zone): partial(self._groups, zone, until) for zone in zones}
        first |= {
            ("pool", key): partial(self._members, pool, until) for key, pool in wanted.items()
        }
        found = gather(first, within=self._left(until))
        instances = gather(
            {zone: partial(self._instances, zone, until) for zone in zones},
            within=self._left(until),
        )
        groups: dict[str, Group] = {}
        errors: dict[str, ComputeError] = {}
        for key, pool in wanted.items():
            try:
                groups[key] = self._assemble(
                    pool,
                    _got(found["zone", pool.zone]),
                    found["pool", key],
                    instances[pool.zone],
                    until,
                )
            except ComputeError as error:
                groups[key] = Group(complete=False)
                errors[key] = error
        return Survey(groups, errors, self._call.tries.total() - before)

    def _left(self, until: float) -> timedelta:
        return timedelta(seconds=max(0.0, until - time.monotonic()))

    def _assemble(
        self,
        pool: Pool,
        listed: Mapping[str, compute_v1.InstanceGroupManager],
        members: _Members | ComputeError,
        instances: Items | ComputeError,
        until: float,
    ) -> Group:
        """Put the lists together. Raises ComputeError if they don't make a whole."""
        group = listed.get(self._cluster.group_name(pool))
        if group is None:
            # A filtered list is a weak witness; nothing is believed gone but by a 404.
            group = self._group(pool, until)
        strays = join(self._cluster, pool, (), _got(instances), self._warn)
        if group is None:
            return Group(exists=False, instances=strays)
        both = _got(members)
        return Group(
            target_size=group.target_size,
            instances=join(self._cluster, pool, both.members, _got(instances), self._warn),
            requests=both.requests,
        )

    def _group(self, pool: Pool, until: float) -> compute_v1.InstanceGroupManager | None:
        request = compute_v1.GetInstanceGroupManagerRequest(
            project=self._cluster.project,
            zone=pool.zone,
            instance_group_manager=self._cluster.group_name(pool),
        )
        where = f"group {self._cluster.group_name(pool)}"
        try:
            return self._call(self._clients.groups.get, request, where=where, until=until)
        except NotFound:
            return None

    def _groups(self, zone: str, until: float) -> dict[str, compute_v1.InstanceGroupManager]:
        request = compute_v1.ListInstanceGroupManagersRequest(
            project=self._cluster.project,
            zone=zone,
            filter=f'name eq "{self._cluster.id}-.*"',
            max_results=PAGE,
        )
        items = all_pages(
            self._call,
            self._clients.groups.list,
            request,
            "items",
            f"groups in {zone}",
            until=until,
        )
        return {item.name: item for item in items}

    def _instances(self, zone: str, until: float) -> Items:
        request = compute_v1.ListInstancesRequest(
            project=self._cluster.project,
            zone=zone,
            filter=f'name eq "{self._cluster.id}-.*"',
            max_results=PAGE,
        )
        what = f"instances in {zone}"
        return all_pages(
            self._call, self._clients.instances.list, request, "items", what, until=until
        )

    def _members(self, pool: Pool, until: float) -> _Members:
        name = self._cluster.group_name(pool)
        place = {
            "project": self._cluster.project,
            "zone": pool.zone,
            "instance_group_manager": name,
            "max_results": PAGE,
        }
        requests: Items = ()
        if pool.is_flex_start:
            requests = all_pages(
                self._call,
                self._clients.requests.list,
                compute_v1.ListInstanceGroupManagerResizeRequestsRequest(place),
                "items",
                f"requests of {name}",
                until=until,
            )
        members = all_pages(
            self._call,
            self._clients.groups.list_managed_instances,
            compute_v1.ListManagedInstancesInstanceGroupManagersRequest(place),
            "managed_instances",
            f"managed instances of {name}",
            until=until,
        )
        return _Members(
            requests=tuple(request_of(item, self._warn) for item in requests),
            members=tuple(members),
        )


def _got(result: T | ComputeError) -> T:
    if isinstance(result, ComputeError):
        raise result
    return result
