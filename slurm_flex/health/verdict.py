"""What a check found, in one word and one line."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

REASON_PREFIX: Final = "slurm-flex:health: "
REASON_LENGTH: Final = 200

# scontrol prints `Reason=text [user@time]` between other `Key=value` pairs: a tool's words must not
# read like either, nor close a quote that somebody puts around them.
_TAMED: Final = str.maketrans({'"': "'", "[": "(", "]": ")", "=": ":", "`": "'"})


class Verdict(enum.Enum):
    """Unknown is not bad: a check that couldn't be made says nothing about the node."""

    OK = "ok"
    BAD = "bad"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """A verdict, its one line, and what else is worth an event though it changes nothing."""

    verdict: Verdict
    text: str
    notes: tuple[str, ...] = ()


def ok(text: str, *notes: str) -> Finding:
    """All is well; notes are worth telling all the same."""
    return Finding(Verdict.OK, text, notes)


def bad(text: str, *notes: str) -> Finding:
    """The node is unfit for a job."""
    return Finding(Verdict.BAD, text, notes)


def unknown(text: str, *notes: str) -> Finding:
    """The check could not be made."""
    return Finding(Verdict.UNKNOWN, text, notes)


def skipped(text: str, *notes: str) -> Finding:
    """The check doesn't apply to this node or this occasion."""
    return Finding(Verdict.SKIPPED, text, notes)


def one_line(text: str, limit: int = REASON_LENGTH) -> str:
    """Any text as one line of at most `limit` characters, without control characters."""
    printable = "".join(char if char.isprintable() else " " for char in text[: limit * 20])
    line = re.sub(r" {2,}", " ", printable).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def drain_reason(check: str, text: str, others: tuple[str, ...] = ()) -> str:
    """The node's drain reason: `slurm-flex:health: CHECK: LINE`, at most 200 characters.

    others: checks that failed as well; they are named at the end, and the line gives way to them.
    """
    tail = f" (also {', '.join(others)})" if others else ""
    tail = one_line(tail, 60) if others else ""
    room = REASON_LENGTH - len(REASON_PREFIX) - len(check) - 2 - (len(tail) + 1 if tail else 0)
    line = one_line(f"{one_line(text.translate(_TAMED), room)} {tail}")
    return f"{REASON_PREFIX}{check}: {line}"
