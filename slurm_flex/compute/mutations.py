"""What is changed in Compute Engine: one call each, sent and not waited for.

A requestId is made of the action and of what makes it unrepeatable, so that the same call may be
sent again after a lost answer or a crash, while a second deletion of the same name within Google's
memory is a new one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from google.cloud import compute_v1

from slurm_flex.actions import (
    CancelRequest,
    CreateInstances,
    DeleteInstances,
    DeleteRequest,
    MakeRequest,
    ReportHost,
)
from slurm_flex.cluster import Cluster, Pool
from slurm_flex.compute.calls import Caller
from slurm_flex.compute.clients import Clients
from slurm_flex.compute.errors import AlreadyExists, ComputeError, NotFound
from slurm_flex.compute.fleet import Operation, Verdict
from slurm_flex.compute.operations import is_already, started
from slurm_flex.compute.templates import run_duration_of
from slurm_flex.compute.translate import UNMANAGED
from slurm_flex.model.cloud import Group, Instance
from slurm_flex.text import one_line

MOST_NAMES: Final = 1000
"""Names in one call (createInstances, deleteInstances, a request)."""
CONSOLE_BYTES: Final = 64 * 1024

_NAMESPACE: Final = uuid.UUID("5b1c7e0e-6a3f-5d0b-9a51-0f3f5c2d8e77")


def request_id(*parts: str) -> str:
    """A UUID that is the same for the same parts, and for no others."""
    return str(uuid.uuid5(_NAMESPACE, "\0".join(parts)))


class Mutations:
    """Changes the groups of one cluster; see Fleet for each method."""

    def __init__(self, cluster: Cluster, clients: Clients, call: Caller) -> None:
        self._cluster = cluster
        self._clients = clients
        self._call = call

    def request(
        self,
        pool: Pool,
        name: str,
        nodes: Sequence[str],
        run_duration: timedelta,
        *,
        nonce: str,
        description: str = "",
    ) -> Operation:
        granted = run_duration_of(run_duration)
        body = compute_v1.InstanceGroupManagerResizeRequest(
            name=name,
            description=one_line(description),
            instances=[{"name": node} for node in nodes],
            requested_run_duration={"seconds": int(granted.total_seconds())},
        )
        request = compute_v1.InsertInstanceGroupManagerResizeRequestRequest(
            **self._group(pool),
            instance_group_manager_resize_request_resource=body,
            request_id=self._request_id(MakeRequest.KIND, pool, name, *nodes, nonce),
        )
        handle = Operation(pool.id, MakeRequest.KIND, (name,), scope=pool.zone)
        try:
            return self._send(handle, self._clients.requests.insert_unary, request)
        except AlreadyExists as error:
            if not self._is_there(pool, name, nodes):
                raise
            return replace(handle, verdict=Verdict.ALREADY, error=error.error)

    def _is_there(self, pool: Pool, name: str, nodes: Sequence[str]) -> bool:
        """Whether the very request exists: a refusal may be about its name or one of its nodes."""
        request = compute_v1.GetInstanceGroupManagerResizeRequestRequest(
            **self._group(pool), resize_request=name
        )
        try:
            found = self._call(self._clients.requests.get, request, where=f"request {name}")
        except NotFound:
            return False
        return {item.name for item in found.instances} == set(nodes)

    def cancel_request(self, pool: Pool, name: str, *, nonce: str) -> Operation:
        request = compute_v1.CancelInstanceGroupManagerResizeRequestRequest(
            **self._group(pool),
            resize_request=name,
            request_id=self._request_id(CancelRequest.KIND, pool, name, nonce),
        )
        handle = Operation(pool.id, CancelRequest.KIND, (name,), scope=pool.zone)
        return self._send(handle, self._clients.requests.cancel_unary, request)

    def delete_request(self, pool: Pool, name: str, *, nonce: str) -> Operation:
        request = compute_v1.DeleteInstanceGroupManagerResizeRequestRequest(
            **self._group(pool),
            resize_request=name,
            request_id=self._request_id(DeleteRequest.KIND, pool, name, nonce),
        )
        handle = Operation(pool.id, DeleteRequest.KIND, (name,), scope=pool.zone)
        return self._send(handle, self._clients.requests.delete_unary, request)

    def create_instances(
        self, pool: Pool, nodes: Sequence[str], *, nonce: str
    ) -> tuple[Operation, ...]:
        return tuple(self._create_members(pool, names, nonce) for names, _ in _chunks(nodes, nodes))

    def _create_members(self, pool: Pool, names: Sequence[str], nonce: str) -> Operation:
        request = compute_v1.CreateInstancesInstanceGroupManagerRequest(
            **self._group(pool),
            instance_group_managers_create_instances_request_resource={
                "instances": [{"name": node} for node in names]
            },
            request_id=self._request_id(CreateInstances.KIND, pool, *names, nonce),
        )
        handle = Operation(pool.id, CreateInstances.KIND, tuple(names), scope=pool.zone)
        return self._sent(handle, self._clients.groups.create_instances_unary, request)

    def delete_instances(
        self, pool: Pool, nodes: Sequence[str], *, nonce: str, group: Group | None = None
    ) -> tuple[Operation, ...]:
        seen = {item.name: item for item in (group.instances if group else ())}
        queued = [node for node in nodes if node in seen and not seen[node].is_real]
        real = [node for node in nodes if node not in queued]
        strays = [node for node in real if node in seen and self._is_own_stray(seen[node])]
        urls = [f"zones/{pool.zone}/instances/{node}" for node in real]
        # Names and URLs are never mixed in one call: members without a VM have no URL.
        calls = (*_chunks(real, urls), *_chunks(queued, queued))
        return (
            *(self._delete_members(pool, names, members, nonce) for names, members in calls),
            *(self._delete_vm(pool, node, nonce) for node in strays),
        )

    def _is_own_stray(self, item: Instance) -> bool:
        return item.action == UNMANAGED and item.is_labelled(self._cluster.id)

    def _delete_members(
        self, pool: Pool, names: Sequence[str], members: Sequence[str], nonce: str
    ) -> Operation:
        request = compute_v1.DeleteInstancesInstanceGroupManagerRequest(
            **self._group(pool),
            instance_group_managers_delete_instances_request_resource={
                "instances": list(members),
                "skip_instances_on_validation_error": True,
            },
            request_id=self._request_id(DeleteInstances.KIND, pool, *members, nonce),
        )
        handle = Operation(pool.id, DeleteInstances.KIND, tuple(names), scope=pool.zone)
        return self._sent(handle, self._clients.groups.delete_instances_unary, request)

    def _delete_vm(self, pool: Pool, node: str, nonce: str) -> Operation:
        """A VM that is in no group: the group can't end it."""
        request = compute_v1.DeleteInstanceRequest(
            project=self._cluster.project,
            zone=pool.zone,
            instance=node,
            request_id=self._request_id("delete_vm", pool, node, nonce),
        )
        handle = Operation(pool.id, DeleteInstances.KIND, (node,), scope=pool.zone)
        return self._sent(handle, self._clients.instances.delete_unary, request)

    def report_host(self, pool: Pool, node: str, *, reason: str, nonce: str) -> Operation:
        fault = {"behavior": "UNRECOVERABLE_GPU_ERROR", "description": one_line(reason)}
        request = compute_v1.ReportHostAsFaultyInstanceRequest(
            project=self._cluster.project,
            zone=pool.zone,
            instance=node,
            instances_report_host_as_faulty_request_resource={
                "disruption_schedule": "IMMEDIATE",
                "fault_reasons": [fault],
            },
            request_id=self._request_id(ReportHost.KIND, pool, node, nonce),
        )
        handle = Operation(pool.id, ReportHost.KIND, (node,), scope=pool.zone)
        return self._send(handle, self._clients.instances.report_host_as_faulty_unary, request)

    def console(self, pool: Pool, node: str) -> str:
        request = compute_v1.GetSerialPortOutputInstanceRequest(
            project=self._cluster.project, zone=pool.zone, instance=node, start=-CONSOLE_BYTES
        )
        where = f"console of {node}"
        answer = self._call(self._clients.instances.get_serial_port_output, request, where=where)
        return answer.contents[-CONSOLE_BYTES:]

    def _send(
        self, handle: Operation, method: Callable[..., compute_v1.Operation], request: Any
    ) -> Operation:
        shown = ", ".join(handle.target[:3])
        more = f" and {len(handle.target) - 3} more" if len(handle.target) > 3 else ""
        try:
            return started(
                handle, self._call(method, request, where=f"{handle.kind} {shown}{more}")
            )
        except ComputeError as error:
            if is_already(handle.kind, handle.target, error.error):
                return replace(handle, verdict=Verdict.ALREADY, error=error.error)
            raise

    def _sent(
        self, handle: Operation, method: Callable[..., compute_v1.Operation], request: Any
    ) -> Operation:
        """One of several calls: its failure is an outcome, and the others go on."""
        try:
            return self._send(handle, method, request)
        except ComputeError as error:
            return replace(handle, verdict=Verdict.FAILED, error=error.error)

    def _group(self, pool: Pool) -> dict[str, str]:
        return {
            "project": self._cluster.project,
            "zone": pool.zone,
            "instance_group_manager": self._cluster.group_name(pool),
        }

    def _request_id(self, kind: str, pool: Pool, *parts: str) -> str:
        group = self._cluster.group_name(pool)
        return request_id(kind, self._cluster.project, pool.zone, group, *parts)


def _chunks(
    names: Sequence[str], members: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    for start in range(0, len(names), MOST_NAMES):
        part = slice(start, start + MOST_NAMES)
        yield names[part], members[part]
