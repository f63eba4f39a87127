"""One call of the API, and the table of all the calls that are served."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from slurm_flex.emulator.core import groups as groups_core
from slurm_flex.emulator.core import operations
from slurm_flex.emulator.core.cloud import Cloud
from slurm_flex.emulator.core.errors import ApiError, not_found
from slurm_flex.emulator.core.lists import Query, page
from slurm_flex.emulator.core.records import Group, Operation
from slurm_flex.emulator.core.scopes import GLOBAL, Scope, region_scope, zone_scope
from slurm_flex.emulator.core.wire import Wire
from slurm_flex.emulator.core.world import World
from slurm_flex.emulator.web.aggregates import aggregated

Json = dict[str, Any]
T = TypeVar("T")


@dataclass
class Call:
    """What a handler gets: the world, the parts of the path, the query and the body."""

    cloud: Cloud
    wire: Wire
    path: dict[str, str]
    params: dict[str, str]
    body: Json = field(default_factory=dict)
    method: str = ""
    outside: Any = None

    @property
    def world(self) -> World:
        """The emulated world."""
        return self.cloud.world

    @property
    def project(self) -> str:
        """The project of the path."""
        return self.path["project"]

    @property
    def request_id(self) -> str:
        """The requestId of the query, in either spelling; empty when there is none."""
        return self.params.get("requestId", self.params.get("request_id", ""))

    @property
    def scope(self) -> Scope:
        """The zone or region of the path, which must exist; else global. Raises 404."""
        catalog = self.world.catalog
        if zone := self.path.get("zone"):
            if zone not in catalog.zones:
                raise not_found(f"projects/{self.project}/zones/{zone}")
            return zone_scope(zone)
        if region := self.path.get("region"):
            if region not in catalog.regions:
                raise not_found(f"projects/{self.project}/regions/{region}")
            return region_scope(region)
        return GLOBAL

    @property
    def group(self) -> Group:
        """The group of the path. Raises 404."""
        name = self.path["instanceGroupManager"]
        return groups_core.get(self.world, self.project, self.scope, name)

    def operation(self, operation: Operation) -> Json:
        """An operation, rendered."""
        return operations.body(operation, self.wire)

    def listing(
        self,
        kind: str,
        records: Sequence[T],
        name: Callable[[T], str],
        render: Callable[[T], Json],
        *,
        collection: str,
    ) -> Json:
        """A ``...List`` of records as the query asks for it."""
        found = page(records, Query.read(self.params), name, render)
        answer: Json = {
            "kind": kind,
            "id": f"projects/{self.project}/{collection}",
            "selfLink": self.wire.link(f"projects/{self.project}/{collection}"),
        }
        if found.items:
            answer["items"] = found.items
        if found.next_token:
            answer["nextPageToken"] = found.next_token
        return answer

    def aggregated(
        self,
        kind: str,
        key: str,
        by_scope: Mapping[str, Sequence[T]],
        name: Callable[[T], str],
        render: Callable[[T], Json],
    ) -> Json:
        """A ``...AggregatedList`` of records by scope."""
        query = Query.read(self.params)
        return aggregated(self, query, kind, key, by_scope=by_scope, name=name, render=render)


Handler = Callable[[Call], Json]


@dataclass(frozen=True)
class Endpoint:
    """One method of the API: verb, path below ``/compute/VERSION/``, its name and body schema."""

    verb: str
    path: str
    name: str
    handler: Handler
    schema: str = ""
    bucket: str = "read"

    @property
    def is_list(self) -> bool:
        """True for what answers with several things."""
        return self.name.rsplit(".", 1)[-1] in (
            "list", "aggregatedList", "listManagedInstances", "listErrors",
        )  # fmt: skip


ENDPOINTS: Final[list[Endpoint]] = []
_PROJECT: Final = "projects/{project}"


def serve(
    verb: str, path: str, name: str, *, schema: str = "", bucket: str = ""
) -> Callable[[Handler], Handler]:
    """Register the handler of one method. ``path`` is below ``projects/{project}/``."""

    def register(handler: Handler) -> Handler:
        full = f"{_PROJECT}/{path}" if path else _PROJECT
        chosen = bucket or ("read" if verb == "GET" else "write")
        ENDPOINTS.append(Endpoint(verb, full, name, handler, schema, chosen))
        return handler

    return register


def serve_both(
    verb: str, path: str, zonal: str, regional: str, *, schemas: tuple[str, str] = ("", ""),
    bucket: str = "",
) -> Callable[[Handler], Handler]:  # fmt: skip
    """Register one handler for the zonal and the regional variant of a method."""

    def register(handler: Handler) -> Handler:
        serve(verb, f"zones/{{zone}}/{path}", zonal, schema=schemas[0], bucket=bucket)(handler)
        serve(verb, f"regions/{{region}}/{path}", regional, schema=schemas[1], bucket=bucket)(
            handler
        )
        return handler

    return register


def integer(call: Call, name: str) -> int:
    """A required whole number of the query. Raises 400."""
    text = call.params.get(name, "")
    if not text:
        raise ApiError(400, "required", f"Required parameter '{name}' not specified")
    try:
        return int(text)
    except ValueError:
        raise ApiError(400, "invalid", f"Invalid value for field '{name}': '{text}'.") from None
