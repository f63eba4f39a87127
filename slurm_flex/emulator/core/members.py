"""Managed instances: the places of a group, and how they follow their instances."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from slurm_flex.emulator.core import instances, templates
from slurm_flex.emulator.core.capacity import Need, refusal, wait_left
from slurm_flex.emulator.core.errors import Problem
from slurm_flex.emulator.core.records import Group, Instance, Member
from slurm_flex.emulator.core.scopes import zone_scope
from slurm_flex.emulator.core.wire import Wire
from slurm_flex.emulator.core.world import World, on_event, on_timer

Json = dict[str, Any]


def add(world: World, group: Group, name: str, *, zone: str = "", request: str = "") -> Member:
    """Make a place in the group; targetSize is the caller's."""
    template = templates.used_templates(group.project, group.body)
    return world.members.add(
        Member(
            project=group.project,
            name=name,
            id="",
            created=world.now,
            group=group.path,
            zone=zone or (group.scope.name if group.scope.kind == "zone" else ""),
            request=request,
            template=sorted(template)[0] if template else "",
        )
    )


def launch(world: World, member: Member, run_duration: timedelta | None) -> Instance | None:
    """Make the instance behind a place, from the group's template."""
    template = world.templates.get(member.template)
    group = world.groups.get(member.group)
    if template is None or group is None:
        return None
    instance = instances.create(
        world,
        member.project,
        member.zone,
        member.name,
        properties(group, template.body, template.path),
        group=member.group,
        request=member.request,
        run_duration=run_duration,
    )
    member.instance, member.id = instance.path, instance.id
    member.errors = []
    return instance


def properties(group: Group, body: Json, template_path: str) -> Json:
    """What an instance gets from its template, and the metadata that the group adds."""
    found = dict(body.get("properties", {}))
    metadata = dict(found.get("metadata", {}))
    items = [*metadata.get("items", ())]
    items.append({"key": "instance-template", "value": template_path})
    items.append({"key": "created-by", "value": group.path})
    found["metadata"] = {**metadata, "items": items}
    return found


def delete(world: World, group: Group, members: Iterable[Member], *, shrink: bool) -> None:
    """Begin the end of these places and of what is behind them."""
    for member in list(members):
        if member.action == "DELETING":
            continue
        if shrink:
            group.target_size = max(0, group.target_size - 1)
        instance = world.instances.get(member.instance) if member.instance else None
        if instance is None or instance.id != member.id:
            world.members.remove(member)
            continue
        member.action = "DELETING"
        instances.stop(world, instance)


def attempt(world: World, member: Member) -> None:
    """Try to make the instance of a single place; try again later where there is no room."""
    world.after(timedelta(), "member.attempt", member.path)


@on_timer("member.attempt")
def _attempt(world: World, path: str) -> None:
    member = world.members.get(path)
    group = world.groups.get(member.group) if member else None
    if member is None or group is None or member.instance or member.request:
        return
    if member.action not in ("CREATING", "RECREATING"):
        return
    template = world.templates.get(member.template)
    schedule = templates.scheduling(template) if template else {}
    need = _need(member, template.body if template else {}, schedule)
    problem = _taken(world, member) or refusal(world, need)
    if problem is None:
        launch(world, member, templates.max_run_duration(schedule))
        return
    note_error(world, group, member, problem)
    again = world.now + world.delay(world.knobs.capacity_retry)
    at = wait_left(world, need)
    world.at(min(again, at) if at and at > world.now else again, "member.attempt", path)


def note_error(world: World, group: Group, member: Member, problem: Problem) -> None:
    """Keep why an instance couldn't be made, at the place and in the group's errors."""
    member.errors = [problem.body()]
    entry = {
        "timestamp": world.now.isoformat(),
        "action": member.action,
        "instance": f"projects/{member.project}/zones/{member.zone}/instances/{member.name}",
        "template": member.template,
        "code": problem.code,
        "message": problem.message,
    }
    group.errors = [*group.errors[-99:], entry]


def of_instance(world: World, instance: Instance) -> Member | None:
    """The place that an instance stands on."""
    if not instance.group:
        return None
    member = world.members.get(f"{instance.group}/members/{instance.name}")
    return member if member and member.id == instance.id else None


@on_event("instance.running")
def _running(world: World, instance: Instance) -> None:
    member = of_instance(world, instance)
    if member and member.action != "DELETING":
        member.action = "NONE"


@on_event("instance.expiring")
def _expiring(world: World, instance: Instance) -> None:
    """The group itself ends an instance at its run duration, and doesn't replace it."""
    member = of_instance(world, instance)
    group = world.groups.get(instance.group)
    if member is None or group is None or member.action == "DELETING":
        return
    member.action = "DELETING"
    if world.knobs.target_size_drops_at_end_of_life:
        group.target_size = max(0, group.target_size - 1)


@on_event("instance.terminated")
def _terminated(world: World, instance: Instance) -> None:
    """Under REPAIR the group makes it anew; under DO_NOTHING it stays, or leaves (a knob)."""
    member = of_instance(world, instance)
    group = world.groups.get(instance.group)
    if member is None or group is None or member.action != "NONE":
        return
    if repairs(group):
        member.action = "RECREATING"
        instances.stop(world, instance)
    elif world.knobs.terminated_member == "leave":
        delete(world, group, [member], shrink=True)


@on_event("instance.gone")
def _gone(world: World, instance: Instance) -> None:
    member = of_instance(world, instance)
    group = world.groups.get(instance.group)
    if member is None or group is None:
        return
    unexpected = member.action in ("NONE", "CREATING", "VERIFYING")
    if member.action == "RECREATING" or (unexpected and repairs(group)):
        member.action = "RECREATING"
        member.request, member.instance, member.id = "", "", ""
        attempt(world, member)
        return
    world.members.remove(member)
    if unexpected and world.knobs.target_size_drops_when_lost:
        group.target_size = max(0, group.target_size - 1)
    world.tell("group.member_gone", group)


def repairs(group: Group) -> bool:
    """True where the group makes failed instances anew."""
    policy = group.body.get("instanceLifecyclePolicy", {})
    return bool(policy.get("defaultActionOnFailure", "REPAIR") == "REPAIR")


def _need(member: Member, body: Json, schedule: Json) -> Need:
    machine = str(body.get("properties", {}).get("machineType", "")).rsplit("/", 1)[-1]
    return Need(
        member.project,
        member.zone,
        machine,
        1,
        schedule.get("provisioningModel") in ("FLEX_START", "SPOT"),
        member.group.rsplit("/", 1)[-1],
        since=member.created,
    )


def _taken(world: World, member: Member) -> Problem | None:
    path = f"projects/{member.project}/zones/{member.zone}/instances/{member.name}"
    if path not in world.instances:
        return None
    return Problem("RESOURCE_ALREADY_EXISTS", f"The resource '{path}' already exists", 409)


def body(world: World, member: Member, wire: Wire) -> Json:
    """A managed instance as listManagedInstances writes it."""
    url = f"projects/{member.project}/{zone_scope(member.zone).path}/instances/{member.name}"
    answer: Json = {"name": member.name, "currentAction": member.action}
    if member.zone:
        answer["instance"] = wire.link(url)
    if member.template:
        answer["version"] = {"instanceTemplate": wire.link(member.template)}
    answer["targetStatus"] = "DELETED" if member.action == "DELETING" else "RUNNING"
    instance = world.instances.get(member.instance) if member.instance else None
    if instance and instance.id == member.id:
        answer["id"] = instance.id
        answer["instanceStatus"] = instance.status
        if instance.terminates and world.knobs.termination_timestamp != "never":
            answer["scheduling"] = {"terminationTimestamp": wire.time(instance.terminates)}
    if member.errors:
        answer["lastAttempt"] = {"errors": {"errors": member.errors}}
    return answer
