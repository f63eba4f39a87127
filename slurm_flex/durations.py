"""Durations as people write them: ``90s``, ``15m``, ``2h``, ``7d``, or seconds as a number.

Inside the project a duration is a :class:`datetime.timedelta`; seconds as numbers stop here.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from slurm_flex.errors import FlexError

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)\Z", re.ASCII)
_LONGEST: Final = timedelta(days=3650)


def parse_duration(value: object) -> timedelta:
    """Read a duration. Raises FlexError that names what is allowed."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise _not_a_duration(value)
    match = _DURATION.match(str(value).strip())
    if match is None:
        raise _not_a_duration(value)
    seconds = float(match.group(1)) * _UNITS[match.group(2)]
    if seconds > _LONGEST.total_seconds():
        raise FlexError(f"{value!r} is longer than ten years", fix="write a shorter duration")
    return timedelta(seconds=seconds)


def format_duration(value: timedelta) -> str:
    """Write a duration the way it is read: ``7d``, ``90s``; the largest unit that is exact."""
    seconds = value.total_seconds()
    for unit in ("d", "h", "m"):
        if seconds and seconds % _UNITS[unit] == 0:
            return f"{int(seconds // _UNITS[unit])}{unit}"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def humanize(value: timedelta) -> str:
    """Two units at most, for people: ``2 h 10 min``, ``45 s``."""
    seconds = max(0, int(value.total_seconds()))
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def _not_a_duration(value: object) -> FlexError:
    return FlexError(
        f"{value!r} is not a duration", fix='write "90s", "15m", "2h", "7d" or a number of seconds'
    )
