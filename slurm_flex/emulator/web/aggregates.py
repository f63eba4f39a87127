"""Aggregated lists: items by zone or region, in pages that run over all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from slurm_flex.emulator.core.lists import Query, page
from slurm_flex.emulator.core.wire import Wire
from slurm_flex.emulator.core.world import World

Json = dict[str, Any]
T = TypeVar("T")


class Caller(Protocol):
    """Whose list it is."""

    @property
    def world(self) -> World:
        """The emulated world."""
        ...

    @property
    def project(self) -> str:
        """The project of the path."""
        ...

    wire: Wire


def aggregated(
    call: Caller,
    query: Query,
    kind: str,
    key: str,
    *,
    by_scope: Mapping[str, Sequence[T]],
    name: Callable[[T], str],
    render: Callable[[T], Json],
) -> Json:
    """Scopes without items carry a warning; scopes that can't be reached another one.

    From API version 2026-09-01 on such a list is always partial: an unreachable zone is no error.
    """
    world, wire, project = call.world, call.wire, call.project
    unreachable = [
        path
        for path in by_scope
        if path.startswith("zones/")
        and world.has_fault("unreachable_zone", zone=path.partition("/")[2], project=project)
    ]
    pairs = [
        (path, item) for path, items in by_scope.items() if path not in unreachable
        for item in items
    ]  # fmt: skip
    found = page(
        pairs,
        query,
        lambda pair: f"{pair[0]}/{name(pair[1])}",
        lambda pair: render(pair[1]) | {_SCOPE: pair[0]},
    )
    items: dict[str, Json] = {}
    for rendered in found.items:
        items.setdefault(rendered.pop(_SCOPE), {}).setdefault(key, []).append(rendered)
    for path in by_scope:
        if path in unreachable:
            items[path] = _warning("UNREACHABLE", f"The scope '{path}' could not be reached.", path)
        elif path not in items:
            message = f"There are no results for scope '{path}' on this page."
            items[path] = _warning("NO_RESULTS_ON_PAGE", message, path)
    answer: Json = {
        "kind": kind,
        "id": f"projects/{project}/aggregated/{key}",
        "items": dict(sorted(items.items())),
        "selfLink": wire.link(f"projects/{project}/aggregated/{key}"),
    }
    if found.next_token:
        answer["nextPageToken"] = found.next_token
    if unreachable:
        answer["unreachables"] = [wire.link(f"projects/{project}/{path}") for path in unreachable]
        answer["warning"] = _warning(
            "UNREACHABLE", "Some scopes could not be reached.", unreachable[0]
        )["warning"]
    return answer


_SCOPE = "\0scope"


def _warning(code: str, message: str, path: str) -> Json:
    data = [{"key": "scope", "value": path}]
    return {"warning": {"code": code, "message": message, "data": data}}
