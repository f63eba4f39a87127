"""What can go wrong, by name. A *condition* lasts until it is used up, over or cleared; an
*event* happens once, at the moment it is set. ``FAULTS`` is the one list of them all: it is what
``GET /emulator/faults`` and docs/emulator.md show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

from slurm_flex.durations import parse_duration
from slurm_flex.emulator.core.records import Record
from slurm_flex.errors import FlexError

Json = dict[str, Any]

WHERE: Final = ("zone", "machine_type", "group", "request", "instance", "method", "project")


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault: what it does, which of ``WHERE`` narrow it, and its own parameters."""

    name: str
    text: str
    where: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    event: bool = False


_PLACE: Final = ("zone", "machine_type", "group", "request", "project")
_CALL: Final = ("method", "zone", "group", "project")

FAULTS: Final[dict[str, FaultKind]] = {
    kind.name: kind
    for kind in (
        FaultKind(
            "stockout",
            "no capacity: requests stay ACCEPTED with a lastAttempt error, single members with "
            "their own",
            _PLACE,
            {
                "code": "ZONE_RESOURCE_POOL_EXHAUSTED (default) or another code",
                "message": "the text, if not the usual one",
                "estimate": "an RFC 3339 time: the form with estimatedAvailabilityTime",
            },
        ),
        FaultKind(
            "quota_on_insert",
            "the operation of a resize request's insert fails with QUOTA_EXCEEDED",
            _PLACE,
            {"metric": "default by machine type", "limit": "the number it names"},
        ),
        FaultKind(
            "quota_last_attempt",
            "a request stays ACCEPTED with QUOTA_EXCEEDED in lastAttempt",
            _PLACE,
            {"metric": "default by machine type", "limit": "the number it names"},
        ),
        FaultKind(
            "active_requests_quota",
            "the operation of an insert fails: ACTIVE_RESIZE_REQUESTS exceeded",
            _PLACE,
            {"limit": "the number it names"},
        ),
        FaultKind(
            "insert_error",
            "the operation of a resize request's insert fails with this code and message",
            _PLACE,
            {"code": "default QUEUING_INFEASIBLE_NO_CAPACITY", "message": "its text"},
        ),
        FaultKind(
            "request_fails",
            "a waiting request turns FAILED with this error",
            _PLACE,
            {"code": "default IP_SPACE_EXHAUSTED", "message": "its text"},
        ),
        FaultKind(
            "partial_provisioning",
            "some of a request's instances start, the next fails: all are rolled back, FAILED",
            _PLACE,
            {"created": "how many start (default half)", "code": "its code", "message": "its text"},
        ),
        FaultKind(
            "no_guest",
            "the instance is RUNNING but its guest (slurmd) never comes up",
            ("zone", "machine_type", "group", "request", "instance", "project"),
        ),
        FaultKind(
            "slow_boot",
            "an instance stays STAGING this much longer",
            ("zone", "machine_type", "group", "request", "instance", "project"),
            {"delay": "wall clock, default 60s"},
        ),
        FaultKind(
            "slow_operations",
            "operations take this much longer",
            _CALL,
            {"delay": "wall clock, default 60s"},
        ),
        FaultKind(
            "cancel_race",
            "provisioning starts just as a cancel arrives, which is then refused",
            _PLACE,
            {"shape": "http (412) or operation (fails later, CONDITION_NOT_MET)"},
        ),
        FaultKind(
            "late_end_of_life",
            "instances go on running past their terminationTimestamp",
            ("zone", "group", "instance", "project"),
            {"by": "emulated time, default 30s"},
        ),
        FaultKind(
            "rate_limited",
            "403 rateLimitExceeded, as if the minute's bucket were empty",
            _CALL,
            {"bucket": "read, write, operation_read or heavy: default by the method"},
        ),
        FaultKind("too_many_requests", "429", _CALL),
        FaultKind("server_error", "500 with Google's JSON error", _CALL),
        FaultKind("bad_gateway", "502 with an HTML body", _CALL),
        FaultKind("unavailable", "503 with Google's JSON error", _CALL),
        FaultKind(
            "permission_denied",
            "403 forbidden for these methods",
            _CALL,
            {"permission": "the permission it names"},
        ),
        FaultKind("reset_before", "the connection breaks before anything is done", _CALL),
        FaultKind("reset_after", "it is done, but the connection breaks before the answer", _CALL),
        FaultKind(
            "slow_answers", "answers take this long", _CALL, {"delay": "wall clock, default 5s"}
        ),
        FaultKind(
            "stale_lists",
            "lists show the world as it was this long ago",
            _CALL,
            {"lag": "wall clock, default 5s"},
        ),
        FaultKind(
            "unreachable_zone",
            "aggregated lists have a warning UNREACHABLE in place of the zone's items; its own "
            "calls answer 503",
            ("zone", "project"),
        ),
        FaultKind(
            "empty_pages", "every other page of a list is empty but has a nextPageToken", _CALL
        ),
        FaultKind(
            "unknown_enum",
            "answers hold a value that no client knows, in this field",
            _CALL,
            {"field": "default state", "value": "default NEW_IN_2027"},
        ),
        FaultKind("unknown_field", "answers hold a field that no client knows", _CALL),
        FaultKind("lost_operations", "operations.get and wait answer 404", _CALL),
        FaultKind(
            "instance_lost",
            "instances are gone at once, without STOPPING",
            ("zone", "group", "instance", "project"),
            event=True,
        ),
        FaultKind(
            "host_error",
            "instances become TERMINATED, or REPAIRING and then RUNNING with automaticRestart",
            ("zone", "group", "instance", "project"),
            {
                "repair": "REPAIRING, automaticRestart or not, for this long (emulated time) or "
                "never RUNNING again: default repair_delay"
            },
            event=True,
        ),
        FaultKind(
            "preempted",
            "Spot instances end as if preempted (STOPPING, then TERMINATED or gone)",
            ("zone", "group", "instance", "project"),
            event=True,
        ),
        FaultKind(
            "guest_died",
            "the guest (slurmd) dies while the instance stays RUNNING",
            ("zone", "group", "instance", "project"),
            event=True,
        ),
        FaultKind(
            "end_of_life",
            "the terminationTimestamp of instances becomes now + in, truthfully listed",
            ("zone", "group", "instance", "project"),
            {"in": "emulated time, default 0s"},
            event=True,
        ),
        FaultKind(
            "maintenance",
            "instances show an upcomingMaintenance; when it begins, those that can't migrate end "
            "as by a host error",
            ("zone", "group", "instance", "project"),
            {
                "in": "emulated time, default 1h",
                "type": "SCHEDULED (default), UNSCHEDULED, or NONE to call it off",
            },
            event=True,
        ),
    )
}


@dataclass(eq=False)
class Fault(Record):
    """A condition that is in force. ``name`` is its kind; ``left`` counts how often it applies."""

    where: dict[str, str]
    params: Json
    left: int | None = None
    until: datetime | None = None

    @property
    def path(self) -> str:
        """Its id; faults belong to no project."""
        return f"faults/{self.id}"

    def applies(self, places: Mapping[str, str]) -> bool:
        """True if every pattern it was narrowed by fits."""
        return all(fnmatchcase(places.get(key, ""), pattern) for key, pattern in self.where.items())

    def text(self, key: str, default: str) -> str:
        """A parameter as text."""
        return str(self.params.get(key, default))

    def duration(self, key: str, default: timedelta) -> timedelta:
        """A parameter as a duration."""
        return parse_duration(self.params[key]) if key in self.params else default


@dataclass(frozen=True)
class FaultOrder:
    """A fault as it was asked for: what, where, how often and for how long (wall clock)."""

    kind: FaultKind
    where: dict[str, str]
    params: Json
    times: int | None
    lasting: timedelta | None


def read_order(body: Mapping[str, Any]) -> FaultOrder:
    """Read ``{"name": ..., "times": 2, "for": "30s", WHERE..., PARAMS...}``. Raises FlexError."""
    kind = FAULTS.get(str(body.get("name", "")))
    if kind is None:
        raise FlexError(
            f"there is no fault {body.get('name')!r}", fix=f"one of {', '.join(FAULTS)}"
        )
    where: dict[str, str] = {}
    params: Json = {}
    times: int | None = None
    lasting: timedelta | None = None
    for key, value in body.items():
        if key == "name" or value is None:
            continue
        if key == "times":
            times = _count(value)
        elif key == "for":
            lasting = parse_duration(value)
        elif key in kind.where:
            where[key] = str(value)
        elif key in kind.params:
            params[key] = value
        else:
            allowed = ["times", "for", *kind.where, *kind.params]
            raise FlexError(
                f"fault {kind.name} has no {key!r}", fix=f"it takes {', '.join(allowed)}"
            )
    for key in ("delay", "by", "in", "lag"):
        if key in params:
            parse_duration(params[key])
    if params.get("repair", "never") != "never":
        parse_duration(params["repair"])
    return FaultOrder(kind, where, params, times, lasting)


def _count(value: object) -> int:
    try:
        times = int(str(value))
    except ValueError:
        times = 0
    if times < 1:
        raise FlexError(f"times is {value!r}", where="times", fix="a whole number, 1 or more")
    return times
