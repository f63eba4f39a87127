"""Managed instance groups: made, mended, taken down; their verbs are in ``group_verbs.py``."""

from __future__ import annotations

from typing import Any

from slurm_flex.emulator.core import group_view, members, operations, queue, templates
from slurm_flex.emulator.core.errors import (
    ApiError,
    already_exists,
    condition_not_met,
    invalid,
    not_found,
    required,
)
from slurm_flex.emulator.core.records import Group, Operation
from slurm_flex.emulator.core.scopes import Scope
from slurm_flex.emulator.core.world import World, on_event

Json = dict[str, Any]
_OUTPUT = (
    "kind", "id", "creationTimestamp", "selfLink", "region", "zone", "status", "currentActions",
    "instanceGroup", "fingerprint", "targetSize", "satisfiesPzi", "satisfiesPzs",
)  # fmt: skip


def insert(world: World, project: str, scope: Scope, body: Json, request_id: str = "") -> Operation:
    """Make a group. Raises 400, 404, 409."""
    if again := operations.repeated(world, project, request_id):
        return again
    name = templates.check_name(body.get("name"))
    if "targetSize" not in body:
        raise required("resource.targetSize")
    size = int(body["targetSize"])
    if size < 0:
        raise invalid("resource.targetSize", size, "Must be greater than or equal to 0.")
    kept = {key: value for key, value in body.items() if key not in _OUTPUT}
    group = Group(project, name, world.new_id(), world.now, scope, kept, target_size=size)
    if group.path in world.groups:
        raise already_exists(group.path)
    _check_templates(world, group)
    _check_policy(group)
    world.groups.add(group)
    fill(world, group)
    return operations.start(
        world, kind(group, "insert"), scope, group, project=project, request_id=request_id
    )


def get(world: World, project: str, scope: Scope, name: str) -> Group:
    """A group by name or numeric id. Raises 404."""
    path = f"projects/{project}/{scope.path}/instanceGroupManagers/{name}"
    found = world.groups.get(path)
    if found is None and name.isdigit():
        siblings = world.groups.under(f"{project}/{scope.path}")
        found = next((item for item in siblings if item.id == name), None)
    if found is None:
        raise not_found(path)
    return found


def patch(world: World, group: Group, body: Json, request_id: str = "") -> Operation:
    """Change what is named. Raises 400, 404, 412 where the fingerprint is an old one."""
    if again := operations.repeated(world, group.project, request_id):
        return again
    if "fingerprint" in body and body["fingerprint"] != group_view.fingerprint(group):
        raise condition_not_met("Invalid fingerprint.")
    if "targetSize" in body and int(body["targetSize"]) != group.target_size:
        refuse_while_requested(world, group)
    changed = {key: value for key, value in body.items() if key not in _OUTPUT and key != "name"}
    before = group.body
    group.body = merge(before, changed)
    try:
        _check_templates(world, group)
        _check_policy(group)
    except ApiError:
        group.body = before
        raise
    group.revision += 1
    if "targetSize" in body:
        group.target_size = int(body["targetSize"])
        fill(world, group)
    return operations.start(
        world, kind(group, "patch"), group.scope, group, project=group.project,
        request_id=request_id,
    )  # fmt: skip


def delete(world: World, group: Group, request_id: str = "") -> Operation:
    """Take down the group with its requests and VMs; it waits for one that is provisioned."""
    if again := operations.repeated(world, group.project, request_id):
        return again
    operation = operations.start(
        world, kind(group, "delete"), group.scope, group, project=group.project,
        request_id=request_id, held=True,
    )  # fmt: skip
    group.deleting = True
    group.delete_operation = operation.path
    _continue_delete(world, group)
    return operation


def fill(world: World, group: Group) -> None:
    """Make new places until there are as many as the target size says."""
    zones = queue.candidate_zones(world, group)
    present = [m for m in world.members.under(group.path) if m.action != "DELETING"]
    for number in range(len(present), group.target_size):
        member = members.add(
            world, group, unique_name(world, group), zone=zones[number % len(zones)]
        )
        members.attempt(world, member)


def unique_name(world: World, group: Group) -> str:
    """A generated name that no place of the group has."""
    letters = "0123456789bcdfghjklmnpqrstvwxz"
    base = group.body.get("baseInstanceName") or group.name
    while True:
        name = f"{base}-{''.join(world.random.choices(letters, k=4))}"
        if f"{group.path}/members/{name}" not in world.members:
            return name


def refuse_while_requested(world: World, group: Group) -> None:
    """The target size is not changed by hand while a resize request is active. Raises 412."""
    if queue.active(world.requests.under(group.path)):
        raise condition_not_met(
            "Changing target size is not possible while a resize request is being processed."
        )


def kind(group: Group, verb: str) -> str:
    """The operationType of a verb of groups."""
    region = group.scope.is_regional
    return f"compute.{'regionInstanceGroupManagers' if region else 'instanceGroupManagers'}.{verb}"


def provisioning_model(world: World, group: Group) -> str:
    """The provisioningModel of the group's template; STANDARD where it says nothing."""
    for path in sorted(templates.used_templates(group.project, group.body)):
        if template := world.templates.get(path):
            return str(templates.scheduling(template).get("provisioningModel", "STANDARD"))
    return "STANDARD"


def merge(old: Json, new: Json) -> Json:
    """JSON merge patch: objects are merged, lists and values replaced, null removes."""
    merged = dict(old)
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


@on_event("group.member_gone")
@on_event("group.request_ended")
def _continue_delete(world: World, group: Group) -> None:
    if not group.deleting:
        return
    requests = world.requests.under(group.path)
    if world.knobs.group_delete_waits and any(item.provisioning for item in requests):
        return
    for request in requests:
        if request.state in ("CREATING", "ACCEPTED"):
            queue.end(world, request, "CANCELLED")
            operations.release(world, request.operation)
    members.delete(world, group, world.members.under(group.path), shrink=True)
    if world.members.count_under(group.path):
        return
    for request in world.requests.under(group.path):
        world.requests.remove(request)
    world.groups.remove(group)
    operations.release(world, group.delete_operation)


def _check_templates(world: World, group: Group) -> None:
    named = [group.body.get("instanceTemplate")] if group.body.get("instanceTemplate") else []
    named += [item.get("instanceTemplate") for item in group.body.get("versions", ())]
    if not named:
        raise required("resource.instanceTemplate")
    for url in named:
        templates.by_url(world, group.project, str(url), "resource.instanceTemplate")


def _check_policy(group: Group) -> None:
    policy = group.body.get("updatePolicy", {})
    shape = group.body.get("distributionPolicy", {}).get("targetShape")
    if shape == "ANY_SINGLE_ZONE" and policy.get("instanceRedistributionType") == "PROACTIVE":
        raise invalid(
            "resource.updatePolicy.instanceRedistributionType", "PROACTIVE",
            "Must be NONE with target shape ANY_SINGLE_ZONE.",
        )  # fmt: skip
    if not group.scope.is_regional and group.body.get("distributionPolicy"):
        raise invalid(
            "resource.distributionPolicy", "", "Only regional groups have a distribution policy."
        )
