"""Verbs of groups that change members in place: recreate, abandon, apply updates.

Flex-start VMs can't be stopped, suspended or recreated (documented); the group then says so in the
operation."""

from __future__ import annotations

from typing import Any

from slurm_flex.emulator.core import group_verbs, groups, instances, members, operations, templates
from slurm_flex.emulator.core.errors import Problem
from slurm_flex.emulator.core.records import Group, Member, Operation
from slurm_flex.emulator.core.world import World

Json = dict[str, Any]


def recreate(world: World, group: Group, body: Json, request_id: str = "") -> Operation:
    """Make members' instances anew under their names. Raises 400."""
    if again := operations.repeated(world, group.project, request_id):
        return again
    chosen = group_verbs.choose(world, group, body)
    operation = group_verbs.start(world, group, "recreateInstances", request_id)
    problem = chosen.problem or _no_recreation(world, group)
    if problem:
        operations.fail(world, operation, problem)
        return operation
    for member in chosen.members:
        renew(world, member)
    return operation


def abandon(world: World, group: Group, body: Json, request_id: str = "") -> Operation:
    """Take members out of the group; their instances stay, on their own. Raises 400."""
    if again := operations.repeated(world, group.project, request_id):
        return again
    chosen = group_verbs.choose(world, group, body)
    operation = group_verbs.start(world, group, "abandonInstances", request_id)
    if chosen.problem:
        operations.fail(world, operation, chosen.problem)
        return operation
    for member in chosen.members:
        instance = world.instances.get(member.instance) if member.instance else None
        if instance and instance.id == member.id:
            instance.group = ""
            instance.request = ""
        world.members.remove(member)
        group.target_size = max(0, group.target_size - 1)
    world.tell("group.member_gone", group)
    return operation


def apply_updates(world: World, group: Group, body: Json) -> Operation:
    """Bring members to the group's present template, by recreating those that differ."""
    everyone = bool(body.get("allInstances"))
    chosen = group_verbs.Chosen()
    if everyone:
        chosen.members = world.members.under(group.path)
    else:
        chosen = group_verbs.choose(world, group, body)
    operation = group_verbs.start(world, group, "applyUpdatesToInstances", "")
    allowed = body.get("mostDisruptiveAllowedAction", "REPLACE")
    wanted = sorted(templates.used_templates(group.project, group.body))
    outdated = [m for m in chosen.members if wanted and m.template not in wanted]
    problem = chosen.problem or (_no_recreation(world, group) if outdated else None)
    if problem is None and outdated and allowed != "REPLACE":
        problem = Problem(
            "CONDITION_NOT_MET", f"The update needs REPLACE, but at most {allowed} is allowed.", 412
        )
    if problem:
        operations.fail(world, operation, problem)
        return operation
    for member in outdated:
        member.template = wanted[0]
        renew(world, member)
    return operation


def renew(world: World, member: Member) -> None:
    """End a member's instance and make a new one in its place."""
    if member.action != "NONE":
        return
    member.action = "RECREATING"
    member.request = ""
    instance = world.instances.get(member.instance) if member.instance else None
    if instance and instance.id == member.id:
        instances.stop(world, instance)
    else:
        member.instance, member.id = "", ""
        members.attempt(world, member)


def _no_recreation(world: World, group: Group) -> Problem | None:
    if groups.provisioning_model(world, group) != "FLEX_START":
        return None
    return Problem(
        "UNSUPPORTED_OPERATION", "Recreating instances is not supported for Flex-start instances."
    )
