"""Instance templates: kept as they were sent, and looked into by groups."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

from slurm_flex.emulator.core import operations
from slurm_flex.emulator.core.errors import (
    ApiError,
    already_exists,
    invalid,
    not_found,
    required,
)
from slurm_flex.emulator.core.records import Operation, Template
from slurm_flex.emulator.core.scopes import GLOBAL, Scope, region_scope
from slurm_flex.emulator.core.wire import Wire
from slurm_flex.emulator.core.world import World

Json = dict[str, Any]
NAME: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?\Z")
_TEMPLATE: Final = re.compile(
    r"(?:.*/)?(?:projects/(?P<project>[^/]+)/)?"
    r"(?:global|regions/(?P<region>[^/]+))/instanceTemplates/(?P<name>[^/]+)\Z"
)


def check_name(value: object, field_name: str = "resource.name") -> str:
    """A resource's name of RFC 1035. Raises 400."""
    if not value:
        raise required(field_name)
    if not isinstance(value, str) or not NAME.match(value):
        raise invalid(
            field_name,
            value,
            "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'",
        )
    return value


def insert(world: World, project: str, scope: Scope, body: Json, request_id: str = "") -> Operation:
    """Make a template. Raises 400, 409."""
    if again := operations.repeated(world, project, request_id):
        return again
    name = check_name(body.get("name"))
    properties = body.get("properties")
    if not properties and not body.get("sourceInstance"):
        raise required("resource.properties")
    template = Template(project, name, world.new_id(), world.now, scope, _kept(body))
    if template.path in world.templates:
        raise already_exists(template.path)
    _check_scheduling(properties or {})
    world.templates.add(template)
    kind = "insert" if scope == GLOBAL else "compute.regionInstanceTemplates.insert"
    return operations.start(world, kind, scope, template, project=project, request_id=request_id)


def get(world: World, project: str, scope: Scope, name: str) -> Template:
    """A template. Raises 404."""
    path = f"projects/{project}/{scope.path}/instanceTemplates/{name}"
    found = world.templates.get(path)
    if found is None and name.isdigit():
        siblings = world.templates.under(f"{project}/{scope.path}")
        found = next((item for item in siblings if item.id == name), None)
    if found is None:
        raise not_found(path)
    return found


def delete(world: World, project: str, scope: Scope, name: str, request_id: str = "") -> Operation:
    """Delete a template that no group uses. Raises 400, 404."""
    if again := operations.repeated(world, project, request_id):
        return again
    template = get(world, project, scope, name)
    for group in world.groups:
        if template.path in used_templates(group.project, group.body):
            raise ApiError(
                400,
                "resourceInUseByAnotherResource",
                f"The instance_template resource '{template.path}' is already being used by "
                f"'{group.path}'",
            )
    world.templates.remove(template)
    kind = "delete" if scope == GLOBAL else "compute.regionInstanceTemplates.delete"
    return operations.start(world, kind, scope, template, project=project, request_id=request_id)


def body(template: Template, wire: Wire) -> Json:
    """The template as the API writes it."""
    answer: Json = {
        **template.body,
        "kind": "compute#instanceTemplate",
        "id": template.id,
        "name": template.name,
        "creationTimestamp": wire.time(template.created),
        "selfLink": wire.link(template.path),
    }
    if template.scope.is_regional:
        answer["region"] = wire.link(f"projects/{template.project}/{template.scope.path}")
    return answer


def by_url(world: World, project: str, url: str, field_name: str) -> Template:
    """The template that a full or partial URL names. Raises 400, 404."""
    path = template_path(project, url)
    if path is None:
        raise invalid(field_name, url, "The URL is malformed.")
    found = world.templates.get(path)
    if found is None:
        raise not_found(path)
    return found


def template_path(project: str, url: str) -> str | None:
    """Full or partial URL to the path that is the template's key, or None."""
    match = _TEMPLATE.match(url)
    if match is None:
        return None
    scope = region_scope(match["region"]) if match["region"] else GLOBAL
    return f"projects/{match['project'] or project}/{scope.path}/instanceTemplates/{match['name']}"


def used_templates(project: str, group_body: Json) -> set[str]:
    """The paths of the templates that a group's body names."""
    urls = [group_body.get("instanceTemplate", "")]
    urls += [version.get("instanceTemplate", "") for version in group_body.get("versions", ())]
    return {path for url in urls if url and (path := template_path(project, url))}


def scheduling(template: Template) -> Json:
    """The scheduling part of a template."""
    return dict(template.body.get("properties", {}).get("scheduling", {}))


def max_run_duration(schedule: Json) -> timedelta | None:
    """``scheduling.maxRunDuration`` as a duration."""
    seconds = schedule.get("maxRunDuration", {}).get("seconds")
    return timedelta(seconds=int(seconds)) if seconds is not None else None


def _kept(body: Json) -> Json:
    output = ("kind", "id", "creationTimestamp", "selfLink", "region")
    return {key: value for key, value in body.items() if key not in output}


def _check_scheduling(properties: Json) -> None:
    schedule = properties.get("scheduling", {})
    flex = schedule.get("provisioningModel") == "FLEX_START"
    action = schedule.get("instanceTerminationAction")
    if schedule.get("maxRunDuration") and schedule.get("terminationTime"):
        raise invalid(
            "resource.properties.scheduling",
            "maxRunDuration",
            "You can specify only one of maxRunDuration and terminationTime.",
        )
    if flex and action not in (None, "DELETE", "STOP"):
        raise invalid(
            "resource.properties.scheduling.instanceTerminationAction",
            action,
            "Must be DELETE or STOP.",
        )
    if flex and schedule.get("onHostMaintenance") == "MIGRATE":
        raise invalid(
            "resource.properties.scheduling.onHostMaintenance",
            "MIGRATE",
            "Flex-start instances must use TERMINATE.",
        )
