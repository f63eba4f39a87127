"""Single values as Slurm prints them: nothing, lengths of time, the power-save configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Final

from slurm_flex.model import SlurmConfig

_NOTHING: Final = frozenset(("", "(null)", "n/a", "none", "unknown", "not_set", "not set"))
_FOREVER: Final = frozenset(("infinite", "unlimited", "-1"))
_SECONDS: Final = re.compile(r"(\d{1,12})(?:\.\d+)?\s*(?:s|secs?|seconds?)?", re.ASCII | re.I)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
_LIMIT: Final = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", re.ASCII)
CONFIG_TIMES: Final = ("SuspendTime", "SuspendTimeout", "ResumeTimeout")
CONFIG_KEYS: Final = (
    "SuspendExcNodes",
    "SuspendExcParts",
    "SuspendExcStates",
    *CONFIG_TIMES,
    "SlurmctldParameters",
)
"""What a pass looks at in ``scontrol show config``."""


def parse_text(value: str | None) -> str | None:
    """Text, None for every way in which Slurm says that there is none."""
    return None if value is None or value.strip().lower() in _NOTHING else value


def parse_seconds(value: str | None) -> timedelta | None:
    """``300``, ``300 sec``; None for INFINITE, NONE, -1 and nothing. Raises ValueError."""
    if value is None or value.strip().lower() in _NOTHING | _FOREVER:
        return None
    match = _SECONDS.fullmatch(value.strip())
    if match is None:
        raise ValueError(f'"{value}" is not a number of seconds as Slurm prints it')
    return timedelta(seconds=int(match[1]))


def parse_config(values: Mapping[str, str | None]) -> SlurmConfig:
    """The CONFIG_KEYS of ``scontrol show config`` as a value. Raises ValueError, key first."""

    def seconds(key: str) -> timedelta | None:
        try:
            return parse_seconds(values.get(key))
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error

    return SlurmConfig(
        suspend_exc_nodes=parse_text(values.get("SuspendExcNodes")),
        suspend_exc_parts=parse_text(values.get("SuspendExcParts")),
        suspend_exc_states=parse_text(values.get("SuspendExcStates")),
        suspend_time=seconds("SuspendTime"),
        suspend_timeout=seconds("SuspendTimeout"),
        resume_timeout=seconds("ResumeTimeout"),
        slurmctld_parameters=parse_text(values.get("SlurmctldParameters")),
    )


def parse_time(value: str | None) -> datetime | None:
    """A time as Slurm prints it under TZ=UTC, as aware UTC. Raises ValueError."""
    text = parse_text(value)
    if text is None:
        return None
    if _TIME.fullmatch(text) is None:
        raise ValueError(f'"{text}" is not a time as Slurm prints it')
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def parse_limit(value: str | None) -> timedelta | None:
    """``1-00:00:00``, ``1:00:00``, ``10:00``; None for UNLIMITED and what isn't set.

    Raises ValueError.
    """
    text = parse_text(value)
    if text is None or text.lower() in _FOREVER or text in {"Partition_Limit", "INVALID"}:
        return None
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a time limit as Slurm prints it')
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def parse_release(version: str | None) -> tuple[int, int]:
    """``24.11.5`` as (24, 11); a version that isn't known counts as the newest."""
    match = re.match(r"(\d+)\.(\d+)", version or "")
    return (int(match[1]), int(match[2])) if match else (99, 0)
