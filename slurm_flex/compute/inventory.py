"""What of ours there is in Compute Engine: values, which the inspector fills.

Ours is what says so: a VM by its labels, a template by the labels of its VMs, a group by its
description or its template. A thing that only bears one of our names is foreign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FoundTemplate:
    """A template with one of our names; `properties` in the library's spelling."""

    name: str
    is_own: bool
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class FoundGroup:
    """A group with one of our names. `waiting` are its requests that are not over."""

    name: str
    zone: str
    is_own: bool
    body: Mapping[str, Any]
    members: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()

    @property
    def templates(self) -> frozenset[str]:
        """The names of the templates that it makes VMs from."""
        return frozenset(templates_in(self.body))

    @property
    def target_size(self) -> int:
        return int(self.body.get("target_size") or 0)

    @property
    def is_empty(self) -> bool:
        return not (self.members or self.waiting or self.target_size)


@dataclass(frozen=True)
class FoundInstance:
    """A VM that carries our label and is in no group of ours."""

    name: str
    zone: str
    status: str


@dataclass(frozen=True)
class Inventory:
    """All of it, at one moment."""

    templates: tuple[FoundTemplate, ...] = ()
    groups: tuple[FoundGroup, ...] = ()
    strays: tuple[FoundInstance, ...] = ()

    def template(self, name: str) -> FoundTemplate | None:
        return next((item for item in self.templates if item.name == name), None)

    def group(self, name: str, zone: str) -> FoundGroup | None:
        return next((x for x in self.groups if (x.name, x.zone) == (name, zone)), None)


def templates_in(body: Mapping[str, Any]) -> Sequence[str]:
    """The names of the templates that a group's body names."""
    urls = [version.get("instance_template", "") for version in body.get("versions", ())]
    urls.append(body.get("instance_template", ""))
    return [url.rpartition("/")[2] for url in urls if url]
