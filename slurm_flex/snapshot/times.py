"""RFC 3339 times, to and from aware UTC datetimes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Final

_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LATEST: Final = datetime(2999, 12, 31, tzinfo=timezone.utc)
"""What lies beyond is a mistake or means never; nothing can be added to the last day there is."""
_RFC3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?"
    r"(?:(?P<utc>[Zz])|(?P<sign>[+-])(?P<hours>\d\d):(?P<minutes>[0-5]\d))?",
    re.ASCII,
)


def parse_time(text: str) -> datetime:
    """An RFC 3339 time as aware UTC, to the microsecond. Raises ValueError that says why not."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError("is not an RFC 3339 time")
    if match["utc"] is None and match["sign"] is None:
        raise ValueError("has no time zone")
    try:
        local = datetime.fromisoformat(f"{match[1]}T{match[2]}+00:00")
        fraction = timedelta(microseconds=int((match[3] or "0").ljust(6, "0")[:6]))
        moment = (local + fraction - _offset(match)).astimezone(timezone.utc)
    except (ValueError, OverflowError) as error:
        raise ValueError("is no date and time that exists") from error
    if not _EARLIEST <= moment <= _LATEST:
        raise ValueError(f"is not between {_EARLIEST.year} and {_LATEST.year}")
    return moment


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with a Z; a fraction only where there is one."""
    return moment.astimezone(timezone.utc).replace(tzinfo=None).isoformat() + "Z"


def _offset(match: re.Match[str]) -> timedelta:
    if match["sign"] is None:
        return timedelta(0)
    ahead = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"]))
    return ahead if match["sign"] == "+" else -ahead
