"""What a node has to tell: a line each in its own event file, and in the system log.

The kinds are those of Google's cluster events where there is one (facts: cluster-json.md), and
HEALTH_... for what drains nothing.
"""

from __future__ import annotations

import json
import os
import syslog
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Optional

from slurm_flex.health.examine import Examination, Result
from slurm_flex.health.node import Node, Occasion
from slurm_flex.health.verdict import Verdict, kind_of, one_line

_LARGEST_FILE: Final = 1024 * 1024
_LONGEST_TEXT: Final = 400


@dataclass(frozen=True)
class Event:
    """One line: when (RFC 3339), of which kind, about which check, on whose behalf."""

    time: str
    kind: str
    node: str
    context: str
    job: Optional[str]
    check: str
    text: str


@dataclass(frozen=True)
class Reporter:
    """Words events of one look; now is aware."""

    now: datetime
    node: Node
    occasion: Occasion

    def event(self, kind: str, text: str, check: str = "") -> Event:
        """One event, its text on one line."""
        stamp, line = self.now.isoformat(timespec="seconds"), one_line(text, _LONGEST_TEXT)
        about = (self.occasion.context, self.occasion.job_id)
        return Event(stamp, kind, self.node.name, *about, check, line)

    def events_of(self, examination: Examination) -> list[Event]:
        """What an examination has to tell: failures, warnings, unknowns and notes."""
        told = []
        for result in examination.results:
            check, kind = result.check.name, _kind(result, self.occasion.context)
            if kind:
                told.append(self.event(kind, result.finding.text, check))
            told += [self.event("HEALTH_NOTE", note, check) for note in result.finding.notes]
        return told


def _kind(result: Result, context: str) -> str:
    if result.fails_the_node():
        return kind_of(context, result.check.name)
    if result.finding.verdict is Verdict.BAD:
        return "HEALTH_WARNING"
    return "HEALTH_UNKNOWN" if result.finding.verdict is Verdict.UNKNOWN else ""


def record(state: Path, events: Iterable[Event]) -> Optional[str]:
    """Append events to `events.jsonl` (0600, one old file kept); why not, if they can't be."""
    events = list(events)
    if not events:
        return None
    syslog.openlog("slurm-flex-health", syslog.LOG_PID, syslog.LOG_DAEMON)
    for one in events:
        about = f" {one.check}:" if one.check else ""
        syslog.syslog(syslog.LOG_WARNING, f"{one.kind}{about} {one.text}")
    path = state / "events.jsonl"
    lines = "".join(json.dumps(asdict(one)) + "\n" for one in events)
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists() and path.stat().st_size > _LARGEST_FILE:
            path.replace(path.with_suffix(".jsonl.old"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(path, flags, 0o600)
        try:
            os.write(handle, lines.encode("utf-8", "replace"))
        finally:
            os.close(handle)
    except OSError as error:
        return f"events can't be written to {path}: {error.strerror}"
    return None
