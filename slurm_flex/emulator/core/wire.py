"""How links and times are written in answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache


@dataclass(frozen=True)
class Wire:
    """``root`` is scheme and host; ``version`` is v1 or beta; ``offset`` in minutes from UTC."""

    root: str = "https://www.googleapis.com"
    version: str = "v1"
    offset: int = -480

    def link(self, path: str) -> str:
        """The self link of a path that starts with ``projects/``."""
        return f"{self.root}/compute/{self.version}/{path}"

    def time(self, when: datetime) -> str:
        """RFC 3339 with milliseconds and the offset: ``2026-12-01T03:19:00.123-08:00``."""
        return _written(when, self.offset)


@lru_cache(maxsize=100_000)  # a record's times are in every list that shows it
def _written(when: datetime, offset: int) -> str:
    zone = timezone(timedelta(minutes=offset))
    return when.astimezone(zone).isoformat(timespec="milliseconds")
