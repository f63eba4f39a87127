"""Short notations of the tests: spans, offsets from NOON, hostlists, node states."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import TypeAlias

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=timezone.utc)
When: TypeAlias = str | datetime
Span: TypeAlias = str | timedelta

# Google's code and text, verbatim (facts: compute-engine.md).
STOCKOUT = (
    "ZONE_RESOURCE_POOL_EXHAUSTED",
    "There are currently not enough resources available to fulfill the request.",
)
QUOTA = ("QUOTA_EXCEEDED", "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 8.0 globally.")
NO_PERMISSION = (
    "PERMISSIONS_ERROR",
    "Instance 'c1-gx-0' creation failed: Required 'compute.images.useReadOnly' permission",
)


def span(text: Span) -> timedelta:
    """ "6d23h30m", "90s"."""
    if isinstance(text, timedelta):
        return text
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    parts = re.findall(r"(\d+)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"not a span: {text!r}")
    return timedelta(seconds=sum(int(number) * units[unit] for number, unit in parts))


def at(when: When) -> datetime:
    """An offset from NOON, with its sign, or "now" for NOON itself."""
    if isinstance(when, datetime):
        return when
    if when == "now":
        return NOON
    if when[0] not in "+-":
        raise ValueError(f"an offset needs a sign: {when!r}")
    return NOON + span(when[1:]) if when[0] == "+" else NOON - span(when[1:])


def maybe(when: When | None) -> datetime | None:
    return None if when is None else at(when)


def hosts(text: str | Iterable[str]) -> tuple[str, ...]:
    """The names of a hostlist such as "c1-gx-[0-3,7],c1-gy-0"."""
    if not isinstance(text, str):
        return tuple(text)
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        match = re.fullmatch(r"(.*)\[([^\]]*)\]", part)
        if match is None:
            names.append(part)
            continue
        for piece in match[2].split(","):
            low, _, high = piece.partition("-")
            numbers = range(int(low), int(high or low) + 1)
            names.extend(f"{match[1]}{number}" for number in numbers)
    return tuple(names)


_BASES = {
    "idle": "IDLE",
    "alloc": "ALLOCATED",
    "mix": "MIXED",
    "mixed": "MIXED",
    "down": "DOWN",
    "comp": "IDLE+COMPLETING",
    "drain": "IDLE+DRAIN",
    "drng": "ALLOCATED+DRAIN",
    "unk": "UNKNOWN",
    "inval": "IDLE+INVALID_REG",
}
_LETTERS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "!": "POWER_DOWN",
    "$": "MAINT",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}


def full_state(short: str) -> str:
    """ "mix#" as scontrol prints it: MIXED+CLOUD+POWERING_UP. Upper case passes untouched."""
    match = re.fullmatch(r"([a-z]+)([*~#%!$@^-]*)", short)
    if match is None:
        return short
    base, *rest = _BASES[match[1]].split("+")
    return "+".join([base, "CLOUD", *rest, *(_LETTERS[letter] for letter in match[2])])
