"""Actions as JSON: ``do`` first, then the kind's own keys, ``why`` last."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from slurm_flex.actions import Action, Event, JobStart
from slurm_flex.snapshot.times import format_time
from slurm_flex.snapshot.write import written_names, written_seconds

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "request": ("pool", "name", "nodes", "job", "run_duration"),
    "cancel_request": ("pool", "name"),
    "delete_request": ("pool", "name"),
    "create_instances": ("pool", "nodes"),
    "delete_instances": ("pool", "nodes"),
    "node_down": ("nodes", "reason"),
    "node_power_down": ("nodes", "how", "reason"),
    "node_power_up": ("nodes",),
    "node_drain": ("nodes", "reason"),
    "node_undrain": ("nodes",),
    "node_resume": ("nodes",),
    "node_idle": ("nodes",),
    "node_comment": ("nodes", "text"),
    "job_comment": ("job", "text"),
    "job_requeue": ("job",),
    "job_hold": ("job",),
    "job_signal": ("job", "signal"),
    "job_notify": ("job", "text"),
    "job_release": ("job",),
    "reserve": ("name", "nodes", "start", "end"),
    "unreserve": ("name",),
    "suspend_exclude": ("nodes",),
    "create_group": ("pool",),
    "save_console": ("pool", "nodes"),
    "report_host": ("pool", "nodes"),
}


def dump_actions(actions: Iterable[Action]) -> list[dict[str, Any]]:
    """Actions in their order: node names as hostlists, durations in seconds, times RFC 3339."""
    return [{"do": action.KIND, **_own_keys(action), "why": action.why} for action in actions]


def _own_keys(action: Action) -> dict[str, Any]:
    match action:
        case JobStart():
            return {"job": action.job, "at": _start(action.after)}
        case Event():
            whom = {"nodes": written_names(action.nodes), "job": action.job, "pool": action.pool}
            said = {key: value for key, value in whom.items() if value is not None}
            return {"kind": action.event, **said, "text": action.text}
        case _:
            return {key: _written(getattr(action, key)) for key in KEYS[action.KIND]}


def _start(after: timedelta) -> str:
    seconds = math.ceil(after.total_seconds())
    return f"now+{seconds}" if seconds > 0 else "now"


def _written(value: object) -> object:
    match value:
        case tuple():
            return written_names(value) or ""
        case timedelta():
            return written_seconds(value)
        case datetime():
            return format_time(value)
        case _:
            return value
