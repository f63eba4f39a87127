"""What the emulated cloud holds and what it costs, as a bystander sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

_INSERT: Final = "compute.instanceGroupManagerResizeRequests.insert"
_LIVE: Final = frozenset(("CREATING", "ACCEPTED"))


@dataclass(frozen=True)
class Vm:
    """An instance. id tells one incarnation of a name from the next."""

    name: str
    id: str
    status: str
    request: str
    terminates: datetime | None


@dataclass(frozen=True)
class Ask:
    """A resize request; last_attempt is the code of the last answer while it waits."""

    name: str
    group: str
    state: str
    nodes: tuple[str, ...]
    last_attempt: str = ""

    @property
    def is_live(self) -> bool:
        return self.state in _LIVE


@dataclass(frozen=True)
class CloudView:
    """One look. asked: how many resize requests were ever sent. seconds: VM seconds billed."""

    vms: Mapping[str, Vm] = field(default_factory=dict)
    requests: Mapping[str, Ask] = field(default_factory=dict)
    asked: int = 0
    seconds: float = 0.0

    @property
    def live_requests(self) -> list[str]:
        return sorted(name for name, ask in self.requests.items() if ask.is_live)


def read_cloud(world: Mapping[str, Any], billing: Mapping[str, Any]) -> CloudView:
    """From what the emulator tells at /emulator/world and /emulator/billing."""
    vms = {
        one["name"]: Vm(
            one["name"], one["id"], one["status"], one["request"], _time(one["terminates"])
        )
        for one in world["instances"]
    }
    requests = {
        one["name"]: Ask(
            one["name"], one["group"], one["state"], tuple(one["nodes"]), _code(one["last_attempt"])
        )
        for one in world["requests"]
    }
    asked = sum(1 for one in world["operations"] if one["kind"] == _INSERT)
    return CloudView(vms, requests, asked, float(billing["seconds"]))


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _code(attempt: Any) -> str:
    """The first error code of a lastAttempt, however deep it lies."""
    if isinstance(attempt, Mapping):
        if "code" in attempt:
            return str(attempt["code"])
        return next(filter(None, map(_code, attempt.values())), "")
    if isinstance(attempt, (list, tuple)):
        return next(filter(None, map(_code, attempt)), "")
    return ""
