"""What is done to single instances: insert, delete, labels, metadata, maintenance, broken hosts."""

from __future__ import annotations

from typing import Any, Final

from slurm_flex.emulator.core import instance_view, instances, operations, templates
from slurm_flex.emulator.core.capacity import Need, refusal
from slurm_flex.emulator.core.errors import (
    ApiError,
    Problem,
    already_exists,
    condition_not_met,
    invalid,
    required,
)
from slurm_flex.emulator.core.records import Instance, Operation
from slurm_flex.emulator.core.scopes import Scope, zone_scope
from slurm_flex.emulator.core.world import World

Json = dict[str, Any]
_OUTPUT: Final = (
    "kind", "id", "creationTimestamp", "selfLink", "zone", "status", "statusMessage",
    "resourceStatus", "lastStartTimestamp", "lastStopTimestamp", "fingerprint", "labelFingerprint",
    "cpuPlatform", "startRestricted", "deletionProtection", "name",
)  # fmt: skip


def insert(  # noqa: PLR0917
    world: World, project: str, scope: Scope, body: Json, template: str, request_id: str = ""
) -> Operation:
    """Make one instance on its own, from a body, a template or both. Raises 400, 404, 409."""
    if again := operations.repeated(world, project, request_id):
        return again
    name = templates.check_name(body.get("name"))
    base: Json = {}
    if template:
        found = templates.by_url(world, project, template, "sourceInstanceTemplate")
        base = dict(found.body.get("properties", {}))
    merged = {**base, **{key: value for key, value in body.items() if key not in _OUTPUT}}
    if not merged.get("machineType"):
        raise required("resource.machineType")
    machine = str(merged["machineType"]).rsplit("/", 1)[-1]
    if world.machine_type(scope.name, machine) is None:
        raise invalid(
            "resource.machineType", merged["machineType"], "The referenced resource does not exist."
        )
    path = f"projects/{project}/{scope.path}/instances/{name}"
    if path in world.instances:
        raise already_exists(path)
    model = merged.get("scheduling", {}).get("provisioningModel", "STANDARD")
    need = Need(project, scope.name, machine, 1, model in ("FLEX_START", "SPOT"), since=world.now)
    operation = operations.start(
        world, "insert", scope, None, project=project, request_id=request_id, target_path=path
    )
    if problem := refusal(world, need):
        operations.fail(world, operation, problem)
        return operation
    duration = templates.max_run_duration(merged.get("scheduling", {}))
    instance = instances.create(world, project, scope.name, name, merged, run_duration=duration)
    operation.target_id = instance.id
    return operation


def delete(world: World, instance: Instance, request_id: str = "") -> Operation:
    """Delete an instance; the operation is done when it is gone. A group may make it anew."""
    if again := operations.repeated(world, instance.project, request_id):
        return again
    operation = _start(world, "delete", instance, request_id, held=True)
    if instance.delete_operation:
        operations.release(world, operation.path)
        return operation
    instance.delete_operation = operation.path
    if instance.status == "STOPPING":
        return operation
    instances.stop(world, instance)
    return operation


def set_labels(world: World, instance: Instance, body: Json, request_id: str = "") -> Operation:
    """Replace the labels. Raises 412 where the fingerprint is an old one."""
    if again := operations.repeated(world, instance.project, request_id):
        return again
    given = body.get("labelFingerprint")
    if given != instance_view.fingerprint(instance, "labels"):
        raise condition_not_met("Labels fingerprint either invalid or resource labels have changed")
    _change(instance, "labels", body.get("labels", {}))
    return _start(world, "setLabels", instance, request_id)


def set_metadata(world: World, instance: Instance, body: Json, request_id: str = "") -> Operation:
    """Replace the metadata. Raises 412 where the fingerprint is an old one."""
    if again := operations.repeated(world, instance.project, request_id):
        return again
    given = body.get("fingerprint")
    if given is not None and given != instance_view.fingerprint(instance, "metadata"):
        raise condition_not_met("Supplied fingerprint does not match current metadata fingerprint.")
    _change(instance, "metadata", {"items": body.get("items", [])})
    return _start(world, "setMetadata", instance, request_id)


def simulate_maintenance(world: World, instance: Instance, request_id: str = "") -> Operation:
    """Begin a maintenance now: a VM that can't migrate goes down."""
    if again := operations.repeated(world, instance.project, request_id):
        return again
    _must_run(instance)
    operation = _start(world, "simulateMaintenanceEvent", instance, request_id)
    instances.begin_maintenance(world, instance)
    return operation


def perform_maintenance(world: World, instance: Instance, request_id: str = "") -> Operation:
    """Have an announced maintenance done now. Raises 400 where none is announced."""
    if again := operations.repeated(world, instance.project, request_id):
        return again
    _must_run(instance)
    if not instance.maintenance:
        raise ApiError(
            400, "invalid", f"The instance '{instance.path}' has no upcoming maintenance."
        )
    operation = _start(world, "performMaintenance", instance, request_id)
    instance.maintenance = {}
    instances.host_error(world, instance)
    return operation


def report_faulty(world: World, instance: Instance, body: Json, request_id: str = "") -> Operation:
    """Report the host as broken. Refused for VMs without a reservation, so for Flex-start,
    unless the knob ``faulty_host_reports`` allows it; the operation carries Google's codes."""
    if again := operations.repeated(world, instance.project, request_id):
        return again
    operation = _start(world, "reportHostAsFaulty", instance, request_id)
    code = _refused_report(world, instance, body)
    if code:
        operations.fail(world, operation, Problem(code, _REPORT_MESSAGES[code]))
    else:
        instances.host_error(world, instance)
    return operation


_REPORT_MESSAGES: Final = {
    "FAULT_REASONS_EMPTY_SHOULD_BE_SPECIFIED": "Fault reasons must be specified.",
    "INSTANCE_SHOULD_BE_RUNNING": "The instance must be running.",
    "MACHINE_TYPE_NOT_SUPPORTED": "The machine type is not supported.",
    "INSTANCES_WITHOUT_RESERVATION_NOT_SUPPORTED": (
        "Instances without a reservation are not supported. For Flex-start or Spot instances "
        "contact your account team."
    ),
}


def _refused_report(world: World, instance: Instance, body: Json) -> str:
    if not body.get("faultReasons"):
        return "FAULT_REASONS_EMPTY_SHOULD_BE_SPECIFIED"
    if instance.status != "RUNNING":
        return "INSTANCE_SHOULD_BE_RUNNING"
    machine = world.catalog.machine_types.get(instance.machine_type)
    if machine is None or not machine.accelerator:
        return "MACHINE_TYPE_NOT_SUPPORTED"
    if world.knobs.faulty_host_reports == "refused":
        return "INSTANCES_WITHOUT_RESERVATION_NOT_SUPPORTED"
    return ""


def _change(instance: Instance, part: str, value: Json) -> None:
    instance.body = {**instance.body, part: value}
    instance.changes = {**instance.changes, part: instance.changes.get(part, 0) + 1}


def _must_run(instance: Instance) -> None:
    if instance.status != "RUNNING":
        raise ApiError(400, "resourceNotReady", f"The resource '{instance.path}' is not ready")


def _start(
    world: World, kind: str, instance: Instance, request_id: str, *, held: bool = False
) -> Operation:
    return operations.start(
        world,
        kind,
        zone_scope(instance.zone),
        instance,
        project=instance.project,
        request_id=request_id,
        held=held,
    )
