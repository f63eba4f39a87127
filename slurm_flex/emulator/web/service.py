"""What happens to one HTTP request, from its bytes to its answer, without any HTTP library:
time moves on, faults strike, limits are charged, the handler runs, the world is saved."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

from slurm_flex.emulator.core.cloud import Cloud
from slurm_flex.emulator.core.errors import ApiError, fault_code, not_found
from slurm_flex.emulator.core.faults import Fault
from slurm_flex.emulator.core.wire import Wire
from slurm_flex.emulator.drivers.base import Driver, RecordDriver
from slurm_flex.emulator.web import catalog_calls, distortions, group_calls, instance_calls
from slurm_flex.emulator.web.calls import ENDPOINTS, Call, Endpoint
from slurm_flex.emulator.web.definitions import document, read_body, response_schema
from slurm_flex.emulator.web.exchange import Answer, Asked, error_answer, json_answer
from slurm_flex.emulator.web.fault_methods import check_methods
from slurm_flex.emulator.web.limits import RateLimits, rate_limit_exceeded
from slurm_flex.emulator.web.partial import select
from slurm_flex.emulator.web.service_usage import COMPUTE, is_disabled, service_disabled

Json = dict[str, Any]
__all__ = [
    "ENDPOINTS",
    "Answer",
    "Asked",
    "Service",
    "catalog_calls",
    "group_calls",
    "instance_calls",
]
_PREFIX: Final = re.compile(r"/compute/(v1|beta)/(.*)\Z")
BAD_GATEWAY: Final = (
    b"<!DOCTYPE html>\n<html lang=en>\n<title>Error 502 (Server Error)!!1</title>\n"
    b"<p><b>502.</b> <ins>That's an error.</ins>\n<p>The server encountered a temporary error and "
    b"could not complete your request.<p>Please try again in 30 seconds.</html>\n"
)


class Service:
    """The Compute API on top of a cloud and a driver. ``save`` is called after every change;
    ``wall`` is the wall clock in seconds."""

    def __init__(
        self,
        cloud: Cloud,
        driver: Driver | None = None,
        *,
        save: Callable[[], None] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.cloud = cloud
        self.driver = driver or RecordDriver()
        self.limits = RateLimits(wall)
        self.calls = 0
        self.yesterday = distortions.Yesterday(wall)
        self._save = save or (lambda: None)
        self._routes = [(_pattern(endpoint.path), endpoint) for endpoint in ENDPOINTS]

    def set_fault(self, order: Mapping[str, Any]) -> Fault | None:
        """Put a condition in force, or let an event happen. Raises FlexError."""
        check_methods(order)
        return self.cloud.set_fault(order)

    def settle(self) -> None:
        """Move time on, save, then let guests start and end: what is saved is made true after a
        crash as well, by the driver's ``adopt``."""
        self.cloud.tick()
        self.yesterday.follow(self.cloud.world)
        self._save()
        ended = []
        for effect in self.cloud.world.take_effects():
            if effect.what == "end":
                ended.append(effect.instance)
                continue
            if ended:
                self.driver.end(ended)
                ended = []
            self.driver.start(effect.instance)
        if ended:
            self.driver.end(ended)

    def answer(self, asked: Asked) -> Answer:
        """Answer one call of the API."""
        self.calls += 1
        self.settle()
        try:
            call, endpoint = self._find(asked)
        except ApiError as error:
            return error_answer(error)
        return self._serve(asked, call, endpoint)

    def _serve(self, asked: Asked, call: Call, endpoint: Endpoint) -> Answer:
        where = _places(call, endpoint)
        world = self.cloud.world
        if world.fault("reset_before", **where):
            return Answer(0, b"", drop=True)
        if world.fault("bad_gateway", **where):
            return Answer(502, BAD_GATEWAY, "text/html; charset=UTF-8")
        try:
            self._strike(where, endpoint)
            region = call.path.get("region") or call.path.get("zone", "").rsplit("-", 1)[0]
            self.limits.charge(world.knobs, call.project, region or "global", endpoint.bucket)
            call.body = read_body(call.wire.version, endpoint.schema, asked.body) if (
                endpoint.schema
            ) else {}  # fmt: skip
            found = self._looked(call, endpoint, where)
            answer = self._written(call, endpoint, found, where)
        except ApiError as error:
            self.settle()
            return error_answer(error)
        self.settle()
        if slow := world.fault("slow_answers", **where):
            answer.delay = slow.duration("delay", timedelta(seconds=5))
        answer.drop = world.fault("reset_after", **where) is not None
        return answer

    def _looked(self, call: Call, endpoint: Endpoint, where: dict[str, str]) -> Json:
        """What the handler finds; for lists perhaps an empty page, or the world of a while ago."""
        world = self.cloud.world
        if not endpoint.is_list:
            return endpoint.handler(call)
        token = call.params.get("pageToken", "")
        if token.startswith(distortions.MARK):
            call.params["pageToken"] = token.removeprefix(distortions.MARK)
        elif world.fault("empty_pages", **where):
            return distortions.empty_page(token)
        if world.fault("stale_lists", **where):
            call.cloud = Cloud(self.yesterday.world(world), self.cloud.clock)
        return endpoint.handler(call)

    def _written(
        self, call: Call, endpoint: Endpoint, found: Json, where: dict[str, str]
    ) -> Answer:
        waits = endpoint.name.endswith("Operations.wait") and found["status"] != "DONE"
        found = json.loads(json.dumps(found)) if self._distorted else found
        if fault := self.cloud.world.fault("unknown_enum", **where):
            distortions.unknown_enum(found, fault)
        if self.cloud.world.fault("unknown_field", **where):
            distortions.unknown_field(found)
        if fields := call.params.get("fields"):
            version = call.wire.version
            schema = response_schema(version, endpoint.name)
            found = select(found, fields, document(version)["schemas"], schema)
        answer = json_answer(found)
        if waits:
            answer.again = lambda: self._look_again(call, endpoint, where)
        return answer

    @property
    def _distorted(self) -> bool:
        table = self.cloud.world.fault_table
        return bool(table.under("unknown_enum") or table.under("unknown_field"))

    def _look_again(self, call: Call, endpoint: Endpoint, where: dict[str, str]) -> Answer:
        self.settle()
        try:
            return self._written(call, endpoint, endpoint.handler(call), where)
        except ApiError as error:
            return error_answer(error)

    def _strike(self, where: dict[str, str], endpoint: Endpoint) -> None:
        """Let the faults that refuse a call do so."""
        world = self.cloud.world
        if fault := world.fault("rate_limited", **where):
            raise rate_limit_exceeded(where["project"], fault.text("bucket", endpoint.bucket))
        if world.fault("too_many_requests", **where):
            raise fault_code(429, "Resource has been exhausted (e.g. check quota).")
        if world.fault("server_error", **where):
            raise fault_code(500, "Internal Error")
        if world.fault("unavailable", **where):
            raise fault_code(503, "The service is currently unavailable.")
        if fault := world.fault("permission_denied", **where):
            permission = fault.text("permission", f"compute.{endpoint.name}")
            raise ApiError(
                403, "forbidden",
                f"Required '{permission}' permission for 'projects/{where['project']}'",
            )  # fmt: skip
        if where["zone"] and world.has_fault(
            "unreachable_zone", zone=where["zone"], project=where["project"]
        ):
            raise fault_code(503, f"Zone '{where['zone']}' is currently unavailable.")

    def _find(self, asked: Asked) -> tuple[Call, Endpoint]:
        match = _PREFIX.match(asked.path)
        if match is None:
            raise ApiError(404, "notFound", "Not Found")
        version, path = match.groups()
        knobs = self.cloud.world.knobs
        wire = Wire(knobs.self_link_root or asked.root, version, knobs.timestamp_offset_minutes)
        project = path.removeprefix("projects/").partition("/")[0]
        if not fnmatchcase(project, knobs.projects):
            raise not_found(f"projects/{project}")
        if is_disabled(knobs, COMPUTE):
            raise service_disabled(COMPUTE, project, is_compute=True)
        allowed = False
        for pattern, endpoint in self._routes:
            found = pattern.match(path)
            if found is None:
                continue
            allowed = True
            if endpoint.verb == asked.verb:
                call = Call(self.cloud, wire, found.groupdict(), asked.params, outside=self.driver)
                return call, endpoint
        if allowed:
            raise ApiError(405, "httpMethodNotAllowed", "Method Not Allowed")
        raise ApiError(404, "notFound", "Not Found")


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
    return re.compile(parts + r"/?\Z")


def _places(call: Call, endpoint: Endpoint) -> dict[str, str]:
    return {
        "method": endpoint.name,
        "project": call.project,
        "zone": call.path.get("zone", ""),
        "group": call.path.get("instanceGroupManager", ""),
    }
