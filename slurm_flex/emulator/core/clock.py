"""Where the emulator's time comes from. The core only ever sees a value passed in."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Protocol

UTC = timezone.utc


class Clock(Protocol):
    """Tells the emulated time, aware UTC."""

    def now(self) -> datetime:
        """The emulated time."""
        ...

    def skip(self, by: timedelta) -> None:
        """Let this much emulated time pass at once."""
        ...


@dataclass
class ManualClock:
    """A clock that stands still until it is told to move; for tests."""

    time: datetime

    def now(self) -> datetime:
        """The time it was last set to."""
        return self.time

    def skip(self, by: timedelta) -> None:
        """Move on by this much."""
        self.time += by


def wall_now() -> datetime:
    """The wall clock, aware UTC."""
    return datetime.fromtimestamp(time.time(), UTC)


@dataclass
class ScaledClock:
    """Emulated time runs ``scale`` times as fast as the wall clock, from an anchor on.

    The anchor is a pair (wall clock, emulated time) and survives a restart, so that time goes on
    while the emulator is down, as it does in the cloud.
    """

    scale: float = 1.0
    anchor_wall: datetime = field(default_factory=wall_now)
    anchor_time: datetime = field(default_factory=wall_now)

    def now(self) -> datetime:
        """The emulated time."""
        return self.anchor_time + (wall_now() - self.anchor_wall) * self.scale

    def skip(self, by: timedelta) -> None:
        """Move the anchor, so that all later readings are later by this much."""
        self.anchor_time += by

    def wall_delay(self, until: datetime) -> float:
        """Seconds of wall clock until an emulated time; 0 when it is past."""
        return max(0.0, (until - self.now()).total_seconds() / self.scale)
