"""What is done to a group's instances: resize, deleteInstances, createInstances, and the lists
of managed instances and errors."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from slurm_flex.emulator.core import groups, members, operations, queue, templates
from slurm_flex.emulator.core.errors import ApiError, Problem, invalid, required
from slurm_flex.emulator.core.records import Group, Member, Operation
from slurm_flex.emulator.core.scopes import last_segment
from slurm_flex.emulator.core.wire import Wire
from slurm_flex.emulator.core.world import World

Json = dict[str, Any]


def resize(world: World, group: Group, size: int, request_id: str = "") -> Operation:
    """Set the target size. Raises 400, 412 while a resize request is active."""
    if again := operations.repeated(world, group.project, request_id):
        return again
    if size < 0:
        raise invalid("size", size, "Must be greater than or equal to 0.")
    groups.refuse_while_requested(world, group)
    if size > queue.group_limit(world, group):
        raise invalid("size", size, f"Must be at most {queue.group_limit(world, group)}.")
    operation = start(world, group, "resize", request_id)
    present = [m for m in world.members.under(group.path) if m.action != "DELETING"]
    surplus = present[size:] if size < len(present) else []
    members.delete(world, group, surplus, shrink=True)
    group.target_size = size
    groups.fill(world, group)
    return operation


def delete_instances(world: World, group: Group, body: Json, request_id: str = "") -> Operation:
    """Delete named members; targetSize goes down at once. Raises 400.

    Members of a request that waits have no URL and can be named only, not mixed with URLs; whether
    they can be deleted at all is a knob."""
    if again := operations.repeated(world, group.project, request_id):
        return again
    chosen = choose(world, group, body)
    operation = start(world, group, "deleteInstances", request_id)
    if chosen.problem:
        operations.fail(world, operation, chosen.problem)
        return operation
    members.delete(world, group, chosen.members, shrink=True)
    return operation


def create_instances(world: World, group: Group, body: Json, request_id: str = "") -> Operation:
    """Make members with these names, each on its own. Raises 400; a taken name fails it."""
    if again := operations.repeated(world, group.project, request_id):
        return again
    wanted = body.get("instances") or []
    if not wanted:
        raise required("instances")
    _limit(world, len(wanted))
    names = [
        templates.check_name(item.get("name"), f"instances[{index}].name")
        for index, item in enumerate(wanted)
    ]
    operation = start(world, group, "createInstances", request_id)
    zones = queue.candidate_zones(world, group)
    taken = [name for name in names if f"{group.path}/members/{name}" in world.members]
    if taken or len(set(names)) != len(names):
        path = f"projects/{group.project}/{group.scope.path}/instances/{(taken or names)[0]}"
        operations.fail(
            world, operation,
            Problem("RESOURCE_ALREADY_EXISTS", f"The resource '{path}' already exists", 409),
        )  # fmt: skip
        return operation
    if group.target_size + len(names) > queue.group_limit(world, group):
        limit = float(queue.group_limit(world, group))
        operations.fail(
            world, operation,
            Problem("LIMIT_EXCEEDED", "Exceeded limit 'MAX_INSTANCES_IN_INSTANCE_GROUP' on "
                    f"resource '{group.name}'. Limit: {limit}"),
        )  # fmt: skip
        return operation
    group.target_size += len(names)
    for number, name in enumerate(names):
        member = members.add(world, group, name, zone=zones[number % len(zones)])
        members.attempt(world, member)
    return operation


def listed_errors(group: Group, wire: Wire) -> list[Json]:
    """The group's recent errors, the newest first."""
    return [
        {
            "timestamp": wire.time(datetime.fromisoformat(entry["timestamp"])),
            "instanceActionDetails": {
                "action": entry["action"],
                "instance": wire.link(entry["instance"]),
                "version": {"instanceTemplate": wire.link(entry["template"])},
            },
            "error": {"code": entry["code"], "message": entry["message"]},
        }
        for entry in reversed(group.errors)
    ]


class Chosen:
    """Members that were named, or the problem that fails the operation."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.problem: Problem | None = None


def choose(world: World, group: Group, body: Json) -> Chosen:
    """The members that a body names, or the problem. Raises 400 for what is malformed."""
    named = [str(item) for item in body.get("instances") or ()]
    if not named:
        raise required("instances")
    _limit(world, len(named))
    urls = [item for item in named if "/" in item]
    if urls and len(urls) != len(named):
        raise invalid("instances", named[0], "Cannot specify both URLs and names.")
    for url in urls:
        _check_url(group, url)
    chosen = Chosen()
    skip = bool(body.get("skipInstancesOnValidationError"))
    for item in dict.fromkeys(named):
        member = world.members.get(f"{group.path}/members/{last_segment(item)}")
        problem = _cannot(world, group, member, item)
        if problem is None and member is not None:
            chosen.members.append(member)
        elif problem and not skip:
            chosen.problem = problem
            return chosen
    return chosen


def _cannot(world: World, group: Group, member: Member | None, item: str) -> Problem | None:
    if member is None or member.action == "DELETING":
        return Problem(
            "INVALID_ARGUMENT",
            f"Instance '{item}' is not a member of the instance group manager '{group.path}'.",
        )
    request = world.requests.get(member.request) if member.request else None
    waits = request is not None and request.is_active and not member.instance
    if waits and world.knobs.delete_queued_member == "refuse":
        return Problem(
            "CONDITION_NOT_MET",
            f"Instance '{item}' belongs to a resize request that is being processed. Cancel the "
            "resize request instead.",
            412,
        )
    return None


def _check_url(group: Group, url: str) -> None:
    parts = url.rstrip("/").split("/")
    if len(parts) < 4 or parts[-2] != "instances" or parts[-4] != "zones":
        raise invalid("instances", url, "The URL is malformed.")
    zone = parts[-3]
    inside = zone.startswith(group.scope.name) if group.scope.is_regional else (
        zone == group.scope.name
    )  # fmt: skip
    if not inside:
        raise invalid("instances", url, "The instance is not in the group's zone or region.")


def _limit(world: World, count: int) -> None:
    most = world.knobs.instances_per_call
    if count > most:
        raise ApiError(
            400, "invalid",
            f"Invalid value for field 'instances': '{count}'. Must be at most {most}.",
        )  # fmt: skip


def start(world: World, group: Group, verb: str, request_id: str) -> Operation:
    """Begin the operation of a verb of groups."""
    return operations.start(
        world, groups.kind(group, verb), group.scope, group, project=group.project,
        request_id=request_id,
    )  # fmt: skip
