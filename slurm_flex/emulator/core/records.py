"""What the world remembers. A record tells its table when one of its attributes is set, so that
what changed can be written to disk; values inside are replaced, never changed in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from slurm_flex.emulator.core.scopes import Scope

Json = dict[str, Any]


@dataclass(eq=False)
class Record:
    """Something with a key in one of the world's tables."""

    project: str
    name: str
    id: str
    created: datetime

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        changed: Callable[[Record], None] | None = self.__dict__.get("_changed")
        if changed is not None:
            changed(self)

    @property
    def path(self) -> str:
        """The resource's path from ``projects/`` on; it is the key as well."""
        raise NotImplementedError

    def watch(self, changed: Callable[[Record], None] | None) -> None:
        """Have ``changed`` called after every change of an attribute."""
        object.__setattr__(self, "_changed", changed)


@dataclass(eq=False)
class Operation(Record):
    """A long-running operation. ``held`` means that something else decides when it is done."""

    scope: Scope
    kind: str
    target_path: str
    target_id: str
    user: str
    client_id: str = ""
    status: str = "PENDING"
    started: datetime | None = None
    ended: datetime | None = None
    held: bool = False
    errors: list[Json] = field(default_factory=list)
    http_code: int = 0
    http_message: str = ""

    @property
    def path(self) -> str:
        """``projects/P/zones/Z/operations/NAME``."""
        return f"projects/{self.project}/{self.scope.path}/operations/{self.name}"


@dataclass(eq=False)
class Template(Record):
    """An instance template; ``body`` is what was sent, in the API's own form."""

    scope: Scope
    body: Json

    @property
    def path(self) -> str:
        """``projects/P/global/instanceTemplates/NAME``."""
        return f"projects/{self.project}/{self.scope.path}/instanceTemplates/{self.name}"


@dataclass(eq=False)
class Group(Record):
    """A managed instance group; ``body`` is the part that callers set."""

    scope: Scope
    body: Json
    target_size: int = 0
    revision: int = 0
    deleting: bool = False
    delete_operation: str = ""
    errors: list[Json] = field(default_factory=list)

    @property
    def path(self) -> str:
        """``projects/P/zones/Z/instanceGroupManagers/NAME``."""
        return f"projects/{self.project}/{self.scope.path}/instanceGroupManagers/{self.name}"


@dataclass(eq=False)
class Request(Record):
    """A resize request: these names, all of them or none."""

    group: str
    scope: Scope
    names: list[str]
    by_size: bool
    run_duration: timedelta | None
    description: str = ""
    state: str = "CREATING"
    provisioning: bool = False
    accepted: datetime | None = None
    finished: datetime | None = None
    error: list[Json] = field(default_factory=list)
    last_attempt: list[Json] = field(default_factory=list)
    operation: str = ""

    @property
    def path(self) -> str:
        """``projects/P/zones/Z/instanceGroupManagers/G/resizeRequests/NAME``."""
        return f"{self.group}/resizeRequests/{self.name}"

    @property
    def is_active(self) -> bool:
        """Neither succeeded, failed nor cancelled."""
        return self.state in ("CREATING", "ACCEPTED")


@dataclass(eq=False)
class Member(Record):
    """A managed instance: a place in a group, with or without an instance behind it."""

    group: str
    zone: str
    action: str = "CREATING"
    request: str = ""
    instance: str = ""
    errors: list[Json] = field(default_factory=list)
    template: str = ""

    @property
    def path(self) -> str:
        """Group and name; a key, no URL of the API."""
        return f"{self.group}/members/{self.name}"


@dataclass(eq=False)
class Instance(Record):
    """A VM. ``body`` holds what its template or insert gave it, in the API's own form; ``guest``
    is true while its guest (slurmd) should be running."""

    zone: str
    body: Json
    group: str = ""
    request: str = ""
    status: str = "PROVISIONING"
    run_duration: timedelta | None = None
    running_since: datetime | None = None
    started: datetime | None = None
    stopped: datetime | None = None
    terminates: datetime | None = None
    delete_operation: str = ""
    changes: dict[str, int] = field(default_factory=dict)
    maintenance: Json = field(default_factory=dict)
    address: str = ""
    host: str = ""
    guest: bool = False

    @property
    def path(self) -> str:
        """``projects/P/zones/Z/instances/NAME``."""
        return f"projects/{self.project}/zones/{self.zone}/instances/{self.name}"

    @property
    def machine_type(self) -> str:
        """The bare name of its machine type."""
        return str(self.body.get("machineType", "")).rsplit("/", 1)[-1]


@dataclass(eq=False)
class Bill(Record):
    """What one instance cost in VM seconds, from RUNNING until it was gone or stopped."""

    zone: str
    machine_type: str
    group: str
    request: str
    since: datetime | None = None
    until: datetime | None = None
    seconds: float = 0.0

    @property
    def path(self) -> str:
        """By instance id: names come again, ids don't."""
        return f"projects/{self.project}/bills/{self.id}"


@dataclass(eq=False)
class RequestId(Record):
    """A requestId that was seen, and the operation it led to."""

    operation: str

    @property
    def path(self) -> str:
        """``projects/P/requestIds/UUID``."""
        return f"projects/{self.project}/requestIds/{self.name}"
