"""The managed instance group of a pool: what it is made with, and what it must still be.

A group of Flex-start VMs by resize requests must not repair, scale or update its members by itself
(compute-engine.md, section 2); the other compute pools are kept the same way, because slurm-flex
does it. Only the login pool's group repairs its VMs: nobody else would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slurm_flex.cluster import Cluster, Pool
from slurm_flex.compute.compare import Difference
from slurm_flex.compute.templates import TemplateSpec, ownership

PATCHED: Final = (
    "description",
    "versions",
    "update_policy",
    "instance_lifecycle_policy",
    "list_managed_instances_results",
)
"""The parts of a group that `apply` mends; its name, zone and base name are fixed for life."""


@dataclass(frozen=True)
class GroupSpec:
    """A group as it should be. target_size is what it is made with: VMs come by name later."""

    name: str
    zone: str
    body: Mapping[str, Any]


def group_of(cluster: Cluster, pool: Pool, template: TemplateSpec) -> GroupSpec:
    """The pool's group, empty."""
    name = cluster.group_name(pool)
    body = {
        "name": name,
        "base_instance_name": name,
        "description": ownership(cluster, pool),
        "versions": [{"instance_template": template_url(cluster.project, template.name)}],
        "target_size": 0,
        "update_policy": {"type_": "OPPORTUNISTIC", "minimal_action": "REPLACE"},
        "instance_lifecycle_policy": {
            "default_action_on_failure": "REPAIR" if pool.is_login else "DO_NOTHING"
        },
        "list_managed_instances_results": "PAGINATED",
    }
    return GroupSpec(name, pool.zone, body)


def template_url(project: str, name: str) -> str:
    return f"projects/{project}/global/instanceTemplates/{name}"


def differences(wanted: GroupSpec, found: Mapping[str, Any]) -> Iterator[Difference]:
    """What of a group, read back as a mapping in the library's spelling, is not as wanted."""
    body = wanted.body
    for path in ("description", "list_managed_instances_results"):
        if str(found.get(path, "")) != body[path]:
            yield Difference(path, str(found.get(path, "")), body[path])
    for part, key in (
        ("update_policy", "type_"),
        ("instance_lifecycle_policy", "default_action_on_failure"),
    ):
        have = str(_mapping(found.get(part)).get(key, ""))
        if have != body[part][key]:
            yield Difference(f"{part}.{key.rstrip('_')}", have, body[part][key])
    yield from _template_difference(body, found)
    yield from _foreign_parts(found)


def _template_difference(body: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Difference]:
    want = _last(body["versions"][0]["instance_template"])
    urls = [version.get("instance_template", "") for version in found.get("versions", ())]
    have = [_last(url) for url in urls or [found.get("instance_template", "")] if url]
    if have != [want]:
        yield Difference("instance_template", ", ".join(have), want)


def _foreign_parts(found: Mapping[str, Any]) -> Iterator[Difference]:
    """What somebody else hung on the group, and what makes it act by itself."""
    autoscaler = str(_mapping(found.get("status")).get("autoscaler", ""))
    if autoscaler:
        yield Difference("autoscaler", _last(autoscaler), "", foreign=True)
    if found.get("auto_healing_policies"):
        yield Difference("auto_healing_policies", "some", "", foreign=True)
    if _mapping(found.get("stateful_policy")).get("preserved_state"):
        yield Difference("stateful_policy", "some", "", foreign=True)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _last(url: str) -> str:
    return url.rpartition("/")[2]
