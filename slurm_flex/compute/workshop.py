"""Makes and mends templates and groups, and takes them down: the hands of `slurm-flex apply`.

`carry_out` waits for each step, because the next one needs it; `ensure_group`, which the daemon
uses for the first job of a pool, doesn't wait and is repeated instead.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any, Final

from google.cloud import compute_v1

from slurm_flex.actions import CancelRequest, CreateGroup, DeleteInstances
from slurm_flex.cluster import Cluster, Pool
from slurm_flex.cluster.settings import Settings
from slurm_flex.compute.calls import Caller
from slurm_flex.compute.clients import Clients
from slurm_flex.compute.errors import ComputeError, InUse, NotFound, Unreachable, error_of_operation
from slurm_flex.compute.fleet import Operation, Outcome, Verdict
from slurm_flex.compute.groups import group_of
from slurm_flex.compute.inspector import take_inventory
from slurm_flex.compute.inventory import Inventory
from slurm_flex.compute.mutations import Mutations
from slurm_flex.compute.operations import is_already, poll, started
from slurm_flex.compute.provision import (
    Blueprint,
    ProvisionPlan,
    Step,
    StepKind,
    plan_apply,
    plan_destroy,
)
from slurm_flex.compute.templates import template_of
from slurm_flex.durations import format_duration
from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.model.cloud import CloudError

PATIENCE: Final = timedelta(minutes=20)
"""How long one step may take. A group that is filling is deleted only once it is full."""
_FIRST_LOOK: Final = 0.2
_BETWEEN_LOOKS: Final = 2.0
_PATCH: Final = "patch_group"


class Stage(str, Enum):
    """How far a step is."""

    STARTED = "started"
    DONE = "done"
    KEPT = "kept"
    """Not done, and nothing lost: something else still uses it."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not tried, because an earlier step of its pool failed."""


@dataclass(frozen=True)
class StepResult:
    """Where a step stands; `error` with FAILED and KEPT."""

    step: Step
    stage: Stage
    error: FlexError | None = None


Progress = Callable[[StepResult], None]


class Workshop:
    """Works on the templates and groups of one cluster.

    startup_script: gives the whole startup script of a pool's VMs.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        clients: Clients,
        call: Caller,
        startup_script: Callable[[Pool], str],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._clients = clients
        self._call = call
        self._startup_script = startup_script
        self._sleep = sleep
        self._members = Mutations(cluster, clients, call)

    def blueprint(self, pool: Pool) -> Blueprint:
        """What the pool needs. Raises FlexError for what a template can't be made from."""
        script = self._startup_script(pool)
        template = template_of(self._cluster, self._settings, pool, script)
        return Blueprint(pool, template, group_of(self._cluster, pool, template))

    def blueprints(self) -> Mapping[str, Blueprint]:
        """One for each pool. Raises InputErrors with what is wrong with any of them, once each."""
        drawn: dict[str, Blueprint] = {}
        errors: dict[str, FlexError] = {}
        for pool in self._cluster.pools:
            try:
                drawn[pool.id] = self.blueprint(pool)
            except InputErrors as several:
                errors |= {str(error): error for error in several.errors}
            except FlexError as error:
                errors[str(error)] = error
        if errors:
            raise InputErrors(list(errors.values()))
        return drawn

    def inventory(self) -> Inventory:
        """Everything of ours in the project. Raises ComputeError if a part can't be seen."""
        return take_inventory(self._cluster, self._clients, self._call)

    def plan(self) -> ProvisionPlan:
        """What `apply` would do now. Empty after it was done: so `apply` verifies itself."""
        drawn = self.blueprints()
        return plan_apply(self._cluster, drawn, self.inventory())

    def plan_destroy(self) -> ProvisionPlan:
        """What `apply --destroy` would do now."""
        return plan_destroy(self.inventory())

    def carry_out(
        self, plan: ProvisionPlan, progress: Progress, *, patience: timedelta = PATIENCE
    ) -> tuple[StepResult, ...]:
        """Do the steps in order, each to its end. A failed step stops the later ones of its pool,
        and of no other; errors are in the results."""
        results: list[StepResult] = []
        broken: set[str] = set()
        for step in plan.steps:
            if step.pool and step.pool in broken:
                result = StepResult(step, Stage.SKIPPED)
            else:
                progress(StepResult(step, Stage.STARTED))
                result = self._carry_out(step, patience)
            if result.stage is Stage.FAILED:
                broken.add(step.pool)
            progress(result)
            results.append(result)
        return tuple(results)

    def ensure_group(self, pool: Pool) -> Operation:
        """One step towards the pool's group: its template, then itself, then ALREADY."""
        try:
            return self._ensure_group(self.blueprint(pool))
        except ComputeError as error:
            if is_already(CreateGroup.KIND, (), error.error):
                done = Operation(pool.id, CreateGroup.KIND, (), scope=pool.zone)
                return replace(done, verdict=Verdict.ALREADY, error=error.error)
            raise

    def _ensure_group(self, wanted: Blueprint) -> Operation:
        name = wanted.group.name
        done = Operation(wanted.pool.id, CreateGroup.KIND, (name,), scope=wanted.pool.zone)
        if self._there(self._clients.groups.get, self._get_group(wanted), f"group {name}"):
            return replace(done, verdict=Verdict.ALREADY)
        template = wanted.template
        get = compute_v1.GetInstanceTemplateRequest(
            project=self._cluster.project, instance_template=template.name
        )
        if self._there(self._clients.templates.get, get, f"template {template.name}"):
            body = dict(wanted.group.body)
            return self._create_group(wanted.pool.id, wanted.pool.zone, name, body)
        return self._create_template(wanted.pool.id, template.name, template.body)

    def _get_group(self, wanted: Blueprint) -> compute_v1.GetInstanceGroupManagerRequest:
        return compute_v1.GetInstanceGroupManagerRequest(
            project=self._cluster.project,
            zone=wanted.pool.zone,
            instance_group_manager=wanted.group.name,
        )

    def _there(self, method: Any, request: Any, where: str) -> bool:
        try:
            self._call(method, request, where=where)
        except NotFound:
            return False
        return True

    def _carry_out(self, step: Step, patience: timedelta) -> StepResult:
        try:
            self._wait(self._begin(step), step, patience)
        except InUse as error:
            return StepResult(step, Stage.KEPT, error)
        except ComputeError as error:
            if is_already(_already_kind(step.kind), (), error.error):
                return StepResult(step, Stage.DONE)
            return StepResult(step, Stage.FAILED, error)
        return StepResult(step, Stage.DONE)

    def _wait(self, operations: tuple[Operation, ...], step: Step, patience: timedelta) -> None:
        """Until all are over. Raises the ComputeError of the first that failed."""
        end = time.monotonic() + patience.total_seconds()
        pause = _FIRST_LOOK
        waiting = operations
        while waiting:
            outcomes = poll(
                self._clients, self._call, self._cluster.project, waiting,
                within=self._settings.observe_deadline,
            )  # fmt: skip
            for outcome in outcomes:
                _raise_if_failed(outcome, step)
            waiting = tuple(item.operation for item in outcomes if not item.is_over)
            if waiting and time.monotonic() > end:
                late = f"not done within {format_duration(patience)}; it may still be"
                raise Unreachable(CloudError("timeout", late), where=step.text)
            if waiting:
                self._sleep(pause)
                pause = min(2 * pause, _BETWEEN_LOOKS)

    def _begin(self, step: Step) -> tuple[Operation, ...]:
        project, kind = self._cluster.project, step.kind
        request_id = str(uuid.uuid4())
        handle = Operation(step.pool, _already_kind(kind), (step.name,), scope=step.zone)
        group = {"project": project, "zone": step.zone, "instance_group_manager": step.name}
        request: Any
        if kind is StepKind.CREATE_TEMPLATE:
            return (self._create_template(step.pool, step.name, step.body),)
        if kind is StepKind.CREATE_GROUP:
            return (self._create_group(step.pool, step.zone, step.name, step.body),)
        if kind is StepKind.CREATE_LOGIN:
            return self._members.create_instances(self._pool(step), step.nodes, nonce=request_id)
        if kind is StepKind.DELETE_LOGIN:
            return self._members.delete_instances(self._pool(step), step.nodes, nonce=request_id)
        if kind is StepKind.PATCH_GROUP:
            request = compute_v1.PatchInstanceGroupManagerRequest(
                **group,
                instance_group_manager_resource=dict(step.body),
                request_id=request_id,
            )
            return (self._send(handle, self._clients.groups.patch_unary, request),)
        if kind is StepKind.CANCEL_REQUEST:
            request = compute_v1.CancelInstanceGroupManagerResizeRequestRequest(
                project=project,
                zone=step.zone,
                instance_group_manager=step.group,
                resize_request=step.name,
                request_id=request_id,
            )
            return (self._send(handle, self._clients.requests.cancel_unary, request),)
        if kind is StepKind.DELETE_GROUP:
            request = compute_v1.DeleteInstanceGroupManagerRequest(**group, request_id=request_id)
            return (self._send(handle, self._clients.groups.delete_unary, request),)
        if kind is StepKind.DELETE_INSTANCE:
            request = compute_v1.DeleteInstanceRequest(
                project=project, zone=step.zone, instance=step.name, request_id=request_id
            )
            return (self._send(handle, self._clients.instances.delete_unary, request),)
        request = compute_v1.DeleteInstanceTemplateRequest(
            project=project, instance_template=step.name, request_id=request_id
        )
        return (self._send(handle, self._clients.templates.delete_unary, request),)

    def _create_template(self, pool: str, name: str, body: Mapping[str, Any]) -> Operation:
        request = compute_v1.InsertInstanceTemplateRequest(
            project=self._cluster.project,
            instance_template_resource=dict(body),
            request_id=str(uuid.uuid4()),
        )
        handle = Operation(pool, CreateGroup.KIND, (name,))
        return self._send(handle, self._clients.templates.insert_unary, request)

    def _create_group(self, pool: str, zone: str, name: str, body: Mapping[str, Any]) -> Operation:
        request = compute_v1.InsertInstanceGroupManagerRequest(
            project=self._cluster.project,
            zone=zone,
            instance_group_manager_resource=dict(body),
            request_id=str(uuid.uuid4()),
        )
        handle = Operation(pool, CreateGroup.KIND, (name,), scope=zone)
        return self._send(handle, self._clients.groups.insert_unary, request)

    def _send(self, handle: Operation, method: Any, request: Any) -> Operation:
        return started(handle, self._call(method, request, where=", ".join(handle.target)))

    def _pool(self, step: Step) -> Pool:
        pool = self._cluster.pool(step.pool)
        if pool is None:
            raise FlexError(f"there is no pool {step.pool}", where=step.text)
        return pool


def _already_kind(kind: StepKind) -> str:
    """The action whose errors mean that nothing was left to do."""
    if kind in (StepKind.CREATE_TEMPLATE, StepKind.CREATE_GROUP, StepKind.CREATE_LOGIN):
        return CreateGroup.KIND
    if kind is StepKind.CANCEL_REQUEST:
        return CancelRequest.KIND
    return _PATCH if kind is StepKind.PATCH_GROUP else DeleteInstances.KIND


def _raise_if_failed(outcome: Outcome, step: Step) -> None:
    if outcome.verdict is Verdict.FAILED:
        raise error_of_operation(outcome.error or CloudError(), where=step.text)
