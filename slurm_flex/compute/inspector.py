"""Look for all that is ours, everywhere in the project: for `apply` and `destroy`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.cloud import compute_v1

from slurm_flex.cluster import Cluster
from slurm_flex.compute.calls import Caller
from slurm_flex.compute.clients import Clients
from slurm_flex.compute.errors import UnexpectedAnswer
from slurm_flex.compute.inventory import (
    FoundGroup,
    FoundInstance,
    FoundTemplate,
    Inventory,
    templates_in,
)
from slurm_flex.compute.lists import PAGE, all_pages, scopes_of
from slurm_flex.compute.templates import POOL_LABEL
from slurm_flex.model.cloud import CLUSTER_LABEL, CloudError

_OVER: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})


def take_inventory(cluster: Cluster, clients: Clients, call: Caller) -> Inventory:
    """Look everywhere. Raises ComputeError if anything could not be seen as a whole."""
    return _Inspector(cluster, clients, call).look()


class _Inspector:
    def __init__(self, cluster: Cluster, clients: Clients, call: Caller) -> None:
        self._cluster = cluster
        self._clients = clients
        self._call = call
        self._named = f'name eq "{cluster.id}-.*"'

    def look(self) -> Inventory:
        templates = tuple(self._templates())
        own = {item.name for item in templates if item.is_own}
        groups = tuple(
            self._group(item, zone, own)
            for zone, scope in self._everywhere(self._clients.groups.aggregated_list, "groups",
                compute_v1.AggregatedListInstanceGroupManagersRequest)
            for item in scope.instance_group_managers
        )  # fmt: skip
        members = {(name, group.zone) for group in groups for name in group.members}
        strays = tuple(
            FoundInstance(item.name, zone, item.status)
            for zone, scope in self._everywhere(self._clients.instances.aggregated_list,
                "instances", compute_v1.AggregatedListInstancesRequest)
            for item in scope.instances
            if item.labels.get(CLUSTER_LABEL) == self._cluster.id
            and (item.name, zone) not in members
        )  # fmt: skip
        return Inventory(templates, groups, strays)

    def _templates(self) -> Iterator[FoundTemplate]:
        request = compute_v1.ListInstanceTemplatesRequest(
            project=self._cluster.project, filter=self._named, max_results=PAGE
        )
        method = self._clients.templates.list
        for item in all_pages(self._call, method, request, "items", "instance templates"):
            own = item.properties.labels.get(CLUSTER_LABEL) == self._cluster.id
            properties = compute_v1.InstanceProperties.to_dict(
                item.properties, always_print_fields_with_no_presence=False
            )
            yield FoundTemplate(item.name, own, properties)

    def _group(
        self, item: compute_v1.InstanceGroupManager, zone: str, own_templates: set[str]
    ) -> FoundGroup:
        body = compute_v1.InstanceGroupManager.to_dict(
            item, always_print_fields_with_no_presence=False
        )
        own = self._says_so(item.description) or bool(set(templates_in(body)) & own_templates)
        if not own:
            return FoundGroup(item.name, zone, own, body)
        return FoundGroup(
            item.name, zone, own, body, self._members(item, zone), self._waiting(item, zone)
        )

    def _says_so(self, description: str) -> bool:
        words = description.split()
        return f"{CLUSTER_LABEL}={self._cluster.id}" in words and any(
            word.startswith(f"{POOL_LABEL}=") for word in words
        )

    def _members(self, item: compute_v1.InstanceGroupManager, zone: str) -> tuple[str, ...]:
        request = compute_v1.ListManagedInstancesInstanceGroupManagersRequest(
            self._place(item, zone)
        )
        method = self._clients.groups.list_managed_instances
        where = f"managed instances of {item.name}"
        found = all_pages(self._call, method, request, "managed_instances", where)
        return tuple(member.name or member.instance.rpartition("/")[2] for member in found)

    def _waiting(self, item: compute_v1.InstanceGroupManager, zone: str) -> tuple[str, ...]:
        request = compute_v1.ListInstanceGroupManagerResizeRequestsRequest(self._place(item, zone))
        method = self._clients.requests.list
        found = all_pages(self._call, method, request, "items", f"requests of {item.name}")
        return tuple(request.name for request in found if request.state not in _OVER)

    def _place(self, item: compute_v1.InstanceGroupManager, zone: str) -> dict[str, Any]:
        return {
            "project": self._cluster.project,
            "zone": zone,
            "instance_group_manager": item.name,
            "max_results": PAGE,
        }

    def _everywhere(self, method: Any, what: str, kind: Any) -> Iterator[tuple[str, Any]]:
        """(zone, its part of an aggregated list) for every zone. Raises if one of the cluster's
        region didn't answer: what can't be seen must not count as absent."""
        request = kind(project=self._cluster.project, filter=self._named, max_results=PAGE)
        for scope, part in scopes_of(self._call, method, request, what):
            if not scope.startswith("zones/"):
                continue
            zone = scope.removeprefix("zones/")
            if part.warning.code == "UNREACHABLE" and zone.startswith(f"{self._cluster.region}-"):
                error = CloudError("UNREACHABLE", part.warning.message or "no answer")
                raise UnexpectedAnswer(error, where=f"{what} in {zone}")
            yield zone, part
