"""What the emulated cloud holds and what it costs, as a bystander sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

_INSERT: Final = "compute.instanceGroupManagerResizeRequests.insert"
_LOGIN: Final = "-login"
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
    """A resize request. last_attempt: the code of the last answer while it waits."""

    name: str
    group: str
    state: str
    nodes: tuple[str, ...]
    run_duration: timedelta | None = None
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
    """From what the emulator tells at /emulator/world and /emulator/billing.

    The login pool is left out: it is there all the time and no concern of Slurm's.
    """
    vms = {
        one["name"]: Vm(
            one["name"], one["id"], one["status"], one["request"], _time(one["terminates"])
        )
        for one in world["instances"]
        if not one["group"].endswith(_LOGIN)
    }
    requests = {
        one["name"]: Ask(
            one["name"],
            one["group"],
            one["state"],
            tuple(one["nodes"]),
            timedelta(seconds=one["run_duration"]) if one["run_duration"] else None,
            _code(one["last_attempt"]),
        )
        for one in world["requests"]
    }
    asked = sum(1 for one in world["operations"] if one["kind"] == _INSERT)
    bills = (one for one in billing["instances"] if not one["group"].endswith(_LOGIN))
    return CloudView(vms, requests, asked, sum(float(bill["seconds"]) for bill in bills))


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
