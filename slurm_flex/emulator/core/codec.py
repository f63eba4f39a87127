"""Records to JSON text and back, with times, durations and scopes intact."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, TypeVar

from slurm_flex.emulator.core.records import Record
from slurm_flex.emulator.core.scopes import Scope

R = TypeVar("R", bound=Record)
_TIME, _DURATION, _SCOPE = "$time", "$seconds", "$scope"


def encode(record: Record) -> str:
    """A record as JSON text."""
    return json.dumps(
        {item.name: getattr(record, item.name) for item in fields(record)},
        default=_plain,
        separators=(",", ":"),
    )


def decode(kind: type[R], text: str) -> R:
    """A record of that kind, as it was. Raises ValueError, TypeError for text of another form."""
    return kind(**json.loads(text, object_hook=_rich))


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return {_TIME: value.isoformat()}
    if isinstance(value, timedelta):
        return {_DURATION: value.total_seconds()}
    if isinstance(value, Scope):
        return {_SCOPE: value.path}
    raise TypeError(f"{type(value).__name__} can't be kept")


def _rich(value: dict[str, Any]) -> Any:
    if len(value) == 1:
        ((key, item),) = value.items()
        if key == _TIME:
            return datetime.fromisoformat(item)
        if key == _DURATION:
            return timedelta(seconds=item)
        if key == _SCOPE:
            return Scope.of(item)
    return value
