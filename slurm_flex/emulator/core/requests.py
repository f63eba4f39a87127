"""Resize requests, as their callers see them: insert, get, cancel, delete. What happens to one
in between is in ``queue.py``.

CREATING -(checked)-> ACCEPTED -(room for all of it)-> [instances start] -> SUCCEEDED; ACCEPTED
-> CANCELLED; any active state -> FAILED. While instances start, the state still reads ACCEPTED
and a cancel is refused (read in Google's cluster-autoscaler)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from slurm_flex.emulator.core import members, operations, queue, templates
from slurm_flex.emulator.core.errors import (
    ApiError,
    Problem,
    already_exists,
    condition_not_met,
    invalid,
    not_found,
    required,
)
from slurm_flex.emulator.core.records import Group, Operation, Request
from slurm_flex.emulator.core.wire import Wire
from slurm_flex.emulator.core.world import World

Json = dict[str, Any]
TOO_LATE: Final = "Cancelling resize request that has reached a final state is not possible."


def insert(world: World, group: Group, body: Json, request_id: str = "") -> Operation:
    """Ask for VMs. Raises 400, 404, 409, 412; what takes longer to find out fails the operation."""
    if again := operations.repeated(world, group.project, request_id):
        return again
    name = templates.check_name(body.get("name"))
    names = _names(world, group, body)
    request = Request(
        project=group.project,
        name=name,
        id=world.new_id(),
        created=world.now,
        group=group.path,
        scope=group.scope,
        names=names,
        by_size="resizeBy" in body,
        run_duration=_duration(body),
        description=str(body.get("description", "")),
    )
    if request.path in world.requests:
        raise already_exists(request.path)
    _check_group(world, group)
    operation = operations.start(
        world,
        _kind(group, "insert"),
        group.scope,
        request,
        project=group.project,
        request_id=request_id,
        held=True,
    )
    request.operation = operation.path
    world.requests.add(request)
    group.target_size += len(names)
    for place in names:
        members.add(world, group, place, request=request.path)
    world.after(world.knobs.accept_delay, "request.check", request.path, request.id)
    return operation


def get(world: World, group: Group, name: str) -> Request:
    """A resize request by name or numeric id. Raises 404."""
    path = f"{group.path}/resizeRequests/{name}"
    found = world.requests.get(path)
    if found is None and name.isdigit():
        found = next((item for item in world.requests.under(group.path) if item.id == name), None)
    if found is None:
        raise not_found(path)
    return found


def cancel(world: World, group: Group, name: str, request_id: str = "") -> Operation:
    """Cancel a request that is ACCEPTED and not yet being provisioned. Raises 404, 412."""
    if again := operations.repeated(world, group.project, request_id):
        return again
    request = get(world, group, name)
    race = world.fault("cancel_race", **queue.places(world, request))
    if race and request.state == "ACCEPTED" and not request.provisioning:
        queue.provision(world, request, forced=True)
    late = request.state != "ACCEPTED" or request.provisioning
    shape = race.text("shape", world.knobs.cancel_race) if race else world.knobs.cancel_race
    if late and shape == "http":
        raise condition_not_met(TOO_LATE)
    operation = operations.start(
        world,
        _kind(group, "cancel"),
        group.scope,
        request,
        project=group.project,
        request_id=request_id,
    )
    if late:
        operations.fail(world, operation, Problem("CONDITION_NOT_MET", TOO_LATE, 412))
    else:
        queue.end(world, request, "CANCELLED")
    return operation


def delete(world: World, group: Group, name: str, request_id: str = "") -> Operation:
    """Forget a finished request; its VMs stay. Raises 404, 412."""
    if again := operations.repeated(world, group.project, request_id):
        return again
    request = get(world, group, name)
    if request.is_active:
        raise condition_not_met(
            "Deleting resize request that has not reached a final state is not possible."
        )
    operation = operations.start(
        world,
        _kind(group, "delete"),
        group.scope,
        request,
        project=group.project,
        request_id=request_id,
    )
    world.requests.remove(request)
    return operation


def body(request: Request, wire: Wire) -> Json:
    """The request as the API writes it."""
    answer: Json = {
        "kind": "compute#instanceGroupManagerResizeRequest",
        "id": request.id,
        "creationTimestamp": wire.time(request.created),
        "name": request.name,
        "state": request.state,
        "status": _status(request),
        "selfLink": wire.link(request.path),
        "selfLinkWithId": wire.link(f"{request.group}/resizeRequests/{request.id}"),
        request.scope.kind: wire.link(f"projects/{request.project}/{request.scope.path}"),
    }
    if request.by_size:
        answer["resizeBy"] = len(request.names)
    else:
        answer["instances"] = [{"name": name} for name in request.names]
    if request.run_duration is not None:
        answer["requestedRunDuration"] = {"seconds": str(int(request.run_duration.total_seconds()))}
    if request.description:
        answer["description"] = request.description
    return answer


def _status(request: Request) -> Json:
    status: Json = {}
    if request.error:
        status["error"] = {"errors": request.error}
    if request.last_attempt:
        status["lastAttempt"] = {"error": {"errors": request.last_attempt}}
    return status


def _names(world: World, group: Group, body: Json) -> list[str]:
    if ("resizeBy" in body) == bool(body.get("instances")):
        raise ApiError(
            400,
            "invalid",
            "Exactly one of the fields 'resizeBy' and 'instances' must be specified.",
        )
    if "resizeBy" in body:
        count = int(body["resizeBy"])
        if count < 1:
            raise invalid("resource.resizeBy", count, "Must be greater than or equal to 1.")
        names = [_generated(world, group) for _ in range(count)]
    else:
        names = [
            templates.check_name(item.get("name"), f"resource.instances[{index}].name")
            for index, item in enumerate(body["instances"])
        ]
    most = world.knobs.instances_per_request
    if len(names) > most:
        raise invalid("resource.instances", len(names), f"Must be less than or equal to {most}.")
    if len(set(names)) != len(names):
        raise invalid("resource.instances", "", "Instance names must be unique.")
    for name in names:
        if f"{group.path}/members/{name}" in world.members:
            raise already_exists(f"projects/{group.project}/{group.scope.path}/instances/{name}")
    return names


def _generated(world: World, group: Group) -> str:
    letters = "0123456789bcdfghjklmnpqrstvwxz"
    base = group.body.get("baseInstanceName") or group.name
    return f"{base}-{''.join(world.random.choices(letters, k=4))}"


def _duration(body: Json) -> timedelta | None:
    given = body.get("requestedRunDuration")
    if given is None:
        return None
    if "seconds" not in given:
        raise required("resource.requestedRunDuration.seconds")
    return timedelta(seconds=int(given["seconds"]))


def _check_group(world: World, group: Group) -> None:
    if group.deleting:
        raise ApiError(400, "resourceNotReady", f"The resource '{group.path}' is not ready")
    if not world.knobs.strict_groups:
        return
    if len(group.body.get("versions", ())) > 1:
        raise condition_not_met("Resize requests are not supported with multiple versions.")
    policy = group.body.get("instanceLifecyclePolicy", {})
    if policy.get("defaultActionOnFailure", "REPAIR") != "DO_NOTHING":
        raise condition_not_met(
            "Resize requests require instanceLifecyclePolicy.defaultActionOnFailure to be "
            "set to DO_NOTHING."
        )
    if group.scope.is_regional:
        shape = group.body.get("distributionPolicy", {}).get("targetShape", "EVEN")
        if shape != "ANY_SINGLE_ZONE":
            raise condition_not_met(
                "Resize requests in regional managed instance groups require target shape "
                "ANY_SINGLE_ZONE."
            )


def _kind(group: Group, verb: str) -> str:
    region = group.scope.is_regional
    word = "regionInstanceGroupManager" if region else "instanceGroupManager"
    return f"compute.{word}ResizeRequests.{verb}"
