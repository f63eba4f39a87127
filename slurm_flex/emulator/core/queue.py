"""What happens to a resize request while its caller waits: checked, accepted, tried, provisioned,
and ended. All of its instances or none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from slurm_flex.emulator.core import members, operations, templates
from slurm_flex.emulator.core.capacity import (
    Need,
    quota_exceeded,
    quota_problem,
    refusal,
    region_of,
    wait_left,
)
from slurm_flex.emulator.core.errors import Problem
from slurm_flex.emulator.core.records import Group, Instance, Member, Request
from slurm_flex.emulator.core.world import World, on_event, on_timer, problem_from

Json = dict[str, Any]
INFEASIBLE: Final = (
    "Could not create a queued resource due to insufficient capacity. Try different locations, "
    "different hardware, or a longer wait time."
)
IP_SPACE: Final = "IP space of the subnetwork is exhausted."


def places(world: World, request: Request) -> dict[str, str]:
    """Where it is, for faults."""
    group = world.groups.get(request.group)
    zones = candidate_zones(world, group) if group else []
    return {
        "project": request.project,
        "zone": zones[0] if zones else request.scope.name,
        "group": request.group.rsplit("/", 1)[-1],
        "request": request.name,
        "machine_type": machine_type(world, group) if group else "",
    }


def candidate_zones(world: World, group: Group) -> list[str]:
    """The zones in which a group may place VMs, in its order of preference."""
    if not group.scope.is_regional:
        return [group.scope.name]
    chosen = group.body.get("distributionPolicy", {}).get("zones", ())
    named = [str(item.get("zone", "")).rsplit("/", 1)[-1] for item in chosen]
    return named or list(world.catalog.regions.get(group.scope.name, ()))


def machine_type(world: World, group: Group) -> str:
    """The bare machine type of the group's template; empty when there is none."""
    properties = _template(world, group).get("properties", {})
    return str(properties.get("machineType", "")).rsplit("/", 1)[-1]


def provision(world: World, request: Request, *, forced: bool = False) -> None:
    """Try to place the request: start all of its instances, or note why that can't be."""
    group = world.groups.get(request.group)
    if group is None or request.state != "ACCEPTED" or request.provisioning:
        return
    refused = None if forced else _taken(world, group, request)
    need: Need | None = None
    for zone in candidate_zones(world, group):
        if refused and refused.code == "RESOURCE_ALREADY_EXISTS":
            break
        need = _need(world, group, request, zone)
        refused = None if forced else refusal(world, need)
        if refused is None:
            _launch(world, request, zone)
            return
    if refused is not None:
        request.last_attempt = [refused.body()]
    again = world.now + world.delay(world.knobs.capacity_retry)
    until = wait_left(world, need) if need else None
    at = min(again, until) if until and until > world.now else again
    world.at(at, "request.attempt", request.path, request.id)


def end(world: World, request: Request, state: str, *problems: Problem) -> None:
    """A final state. One that didn't succeed gives its places and its VMs back."""
    request.state = state
    request.provisioning = False
    request.finished = world.now
    request.last_attempt = []
    request.error = [problem.body() for problem in problems]
    group = world.groups.get(request.group)
    if state != "SUCCEEDED" and group:
        members.delete(world, group, own_members(world, request), shrink=True)
    world.at(world.now + world.knobs.request_retention, "request.forget", request.path, request.id)
    if group:
        world.tell("group.request_ended", group)


def own_members(world: World, request: Request) -> list[Member]:
    """The places that this request made and that still are there."""
    found = (world.members.get(f"{request.group}/members/{name}") for name in request.names)
    return [member for member in found if member and member.request == request.path]


def wake(world: World) -> None:
    """Something changed: look at all waiting requests again, the oldest first."""
    waiting = [item for item in world.requests if item.state == "ACCEPTED"]
    for request in sorted(waiting, key=lambda item: item.created):
        world.at(world.now, "request.attempt", request.path, request.id)
    for member in world.members:
        if member.action in ("CREATING", "RECREATING") and not member.instance:
            world.at(world.now, "member.attempt", member.path)


@on_timer("request.check")
def _check(world: World, path: str, id_: str) -> None:
    request = _alive(world, path, id_)
    group = world.groups.get(request.group) if request else None
    if request is None or group is None or request.state != "CREATING":
        return
    problem = _fault_problem(world, group, request) or _infeasible(world, group, request)
    operation = world.operations.get(request.operation)
    if problem is None:
        request.state = "ACCEPTED"
        request.accepted = world.now
        operations.release(world, request.operation)
        world.at(world.now, "request.attempt", path, id_)
        return
    if operation:
        operations.fail(world, operation, problem)
    end(world, request, "FAILED", problem)
    if world.knobs.failed_insert == "absent":
        world.requests.remove(request)
    operations.release(world, request.operation)


@on_timer("request.attempt")
def _attempt(world: World, path: str, id_: str) -> None:
    request = _alive(world, path, id_)
    if request is None or request.state != "ACCEPTED" or request.provisioning:
        return
    if fault := world.fault("request_fails", **places(world, request)):
        end(world, request, "FAILED", problem_from(fault, "IP_SPACE_EXHAUSTED", IP_SPACE))
        return
    provision(world, request)


@on_timer("request.break")
def _break(world: World, path: str, id_: str, code: str, message: str) -> None:
    request = _alive(world, path, id_)
    if request and request.state == "ACCEPTED":
        end(world, request, "FAILED", Problem(code, message))


@on_timer("request.forget")
def _forget(world: World, path: str, id_: str) -> None:
    request = _alive(world, path, id_)
    if request and not request.is_active:
        world.requests.remove(request)


@on_event("instance.running")
def _instance_running(world: World, instance: Instance) -> None:
    request = world.requests.get(instance.request) if instance.request else None
    if request and request.provisioning and world.knobs.succeeded_when == "running":
        world.soon("request.settle", request.path, request.id)


@on_event("instance.gone")
@on_event("instance.terminated")
def _instance_ended(world: World, instance: Instance) -> None:
    request = world.requests.get(instance.request) if instance.request else None
    if request and request.provisioning:
        world.soon("request.settle", request.path, request.id)
    world.soon("queue.wake")


@on_timer("queue.wake")
def _wake(world: World) -> None:
    wake(world)


@on_timer("request.settle")
def _settle(world: World, path: str, id_: str) -> None:
    request = _alive(world, path, id_)
    if request is None or not request.provisioning:
        return
    for member in own_members(world, request):
        instance = world.instances.get(member.instance)
        if instance is None or instance.status in ("PROVISIONING", "STAGING"):
            return
    end(world, request, "SUCCEEDED")


def _launch(world: World, request: Request, zone: str) -> None:
    request.provisioning = True
    request.last_attempt = []
    places_made = own_members(world, request)
    fault = world.fault("partial_provisioning", **places(world, request))
    if fault:
        count = int(fault.params.get("created", len(places_made) // 2))
        places_made = places_made[:count]
    for member in places_made:
        member.zone = zone
        members.launch(world, member, request.run_duration)
    if fault:
        code = fault.text("code", "QUOTA_EXCEEDED")
        message = fault.text(
            "message",
            f"Quota 'SSD_TOTAL_GB' exceeded.  Limit: 125.0 in region {region_of(world, zone)}.",
        )
        wait = world.knobs.provision_delay + world.knobs.boot_delay * 2
        world.after(wait, "request.break", request.path, request.id, code, message)
    elif world.knobs.succeeded_when == "created" or not places_made:
        end(world, request, "SUCCEEDED")


def _infeasible(world: World, group: Group, request: Request) -> Problem | None:
    """What the asynchronous check of an insert finds; first come the cheap ones."""
    knobs = world.knobs
    if request.run_duration is not None:
        if request.run_duration < knobs.min_run_duration:
            minutes = int(knobs.min_run_duration.total_seconds() // 60)
            return Problem(
                "INVALID_ARGUMENT",
                "Specified maxRunDuration is too short. Minimum value is equal to "
                f"{minutes} minutes.",
            )
        if request.run_duration > knobs.max_run_duration:
            days = int(knobs.max_run_duration.total_seconds() // 86400)
            return Problem(
                "INVALID_ARGUMENT",
                f"Specified maxRunDuration is too long. Maximum value is equal to {days} days.",
            )
    if over := _over_limit(world, group, request):
        return over
    template = _template(world, group)
    name = machine_type(world, group)
    offers = (world.machine_type(zone, name) for zone in candidate_zones(world, group))
    machine = next((offer for offer in offers if offer), None)
    if machine is None:
        return Problem("INVALID_MACHINE_TYPE", "Specified machine type is invalid.")
    for card in template.get("properties", {}).get("guestAccelerators", ()):
        kind = str(card.get("acceleratorType", "")).rsplit("/", 1)[-1]
        if kind not in world.catalog.accelerators:
            return Problem("INVALID_GPU_TYPE", "Specified accelerator type is invalid.")
    if not machine.offers_flex_start and knobs.flex_machine_types == "accelerators":
        return Problem("UNSUPPORTED_OPERATION", "Requests without accelerators are not supported.")
    schedule = template.get("properties", {}).get("scheduling", {})
    if knobs.strict_groups and schedule.get("instanceTerminationAction", "DELETE") != "DELETE":
        return Problem("INVALID_ARGUMENT", "Instance termination action must be DELETE.")
    return None


def _over_limit(world: World, group: Group, request: Request) -> Problem | None:
    region = group.scope.region
    active = [
        item
        for item in world.requests
        if item.is_active and item.scope.region == region and item.project == request.project
    ]
    limit = world.knobs.active_resize_requests
    if len(active) > limit:
        return quota_exceeded("ACTIVE_RESIZE_REQUESTS", float(limit), region)
    most = group_limit(world, group)
    if group.target_size > most:
        return Problem(
            "LIMIT_EXCEEDED",
            f"Exceeded limit 'MAX_INSTANCES_IN_INSTANCE_GROUP' on resource '{group.name}'. "
            f"Limit: {float(most)}",
        )
    return None


def group_limit(world: World, group: Group) -> int:
    """How many instances the group may have."""
    knobs = world.knobs
    paginated = group.body.get("listManagedInstancesResults") == "PAGINATED"
    if group.scope.is_regional:
        return knobs.regional_group_size_paginated if paginated else knobs.regional_group_size
    return knobs.zonal_group_size_paginated if paginated else knobs.zonal_group_size


def _fault_problem(world: World, group: Group, request: Request) -> Problem | None:
    where = places(world, request)
    if fault := world.fault("quota_on_insert", **where):
        need = _need(world, group, request, where["zone"])
        return quota_problem(world, need, fault)
    if fault := world.fault("active_requests_quota", **where):
        limit = float(fault.params.get("limit", world.knobs.active_resize_requests))
        return quota_exceeded("ACTIVE_RESIZE_REQUESTS", limit, group.scope.region)
    if fault := world.fault("insert_error", **where):
        return problem_from(fault, "QUEUING_INFEASIBLE_NO_CAPACITY", INFEASIBLE)
    return None


def _taken(world: World, group: Group, request: Request) -> Problem | None:
    for zone in candidate_zones(world, group):
        for name in request.names:
            path = f"projects/{group.project}/zones/{zone}/instances/{name}"
            if path in world.instances:
                return Problem(
                    "RESOURCE_ALREADY_EXISTS", f"The resource '{path}' already exists", 409
                )
    return None


def _need(world: World, group: Group, request: Request, zone: str) -> Need:
    return Need(
        request.project,
        zone,
        machine_type(world, group),
        len(request.names),
        True,
        group.name,
        request.name,
        request.accepted,
    )


def _template(world: World, group: Group) -> Json:
    for path in sorted(templates.used_templates(group.project, group.body)):
        if template := world.templates.get(path):
            return template.body
    return {}


def _alive(world: World, path: str, id_: str) -> Request | None:
    found = world.requests.get(path)
    return found if found and found.id == id_ else None


def active(requests: Iterable[Request]) -> list[Request]:
    """Those that are neither succeeded, failed nor cancelled."""
    return [item for item in requests if item.is_active]
