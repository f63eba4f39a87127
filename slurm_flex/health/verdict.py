"""What a check found, in one word and one line."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final, Optional

REASON_PREFIX: Final = "slurm-flex:health: "
REASON_LENGTH: Final = 200
_PART: Final = ", part of the node"

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


def drain_reason(
    check: str, text: str, context: str, others: tuple[str, ...] = (), *, is_part: bool = False
) -> str:
    """The node's drain reason: `slurm-flex:health: CHECK: LINE (CONTEXT)`, at most 200 characters.

    others: checks that failed as well; they are named at the end, and the line gives way to them.
    is_part: whether the job had only a part of the node.
    """
    also = one_line(f"; also {', '.join(others)}", 60) if others else ""
    tail = f"({context}{_PART if is_part else ''}{also})"
    room = REASON_LENGTH - len(REASON_PREFIX) - len(check) - len(tail) - 3
    line = one_line(f"{one_line(text.translate(_TAMED), room)} {tail}")
    return f"{REASON_PREFIX}{check}: {line}"


_REASON: Final = re.compile(
    re.escape(REASON_PREFIX)
    + rf"([a-z0-9-]+): .*\((prolog|epilog|periodic)({_PART})?(?:; also [^()]*)?\)"
)
_KINDS: Final = {
    "prolog": "VM_PROLOG_ERROR",
    "epilog": "VM_EPILOG_ERROR",
    "periodic": "VM_SCAN_ERROR",
}
_OF_GPUS: Final = re.compile(r"gpu|nvidia-smi|xid|nvlink|dcgm")


def kind_of(context: str, check: str) -> str:
    """The event of a check that fails a node, by Google's name for it.

    The names come without definitions (facts: cluster-json.md). A look that isn't a job's is a
    scan; what it finds of the GPUs, which are watched while jobs run, has a name of its own.
    """
    if context == "periodic" and is_of_gpus(check):
        return "VM_CONTINUOUS_GPU_ERROR"
    return _KINDS[context]


def is_of_gpus(check: str) -> bool:
    """Whether a check is about GPUs, by its name."""
    return bool(_OF_GPUS.match(check.lower()))


def kind_of_reason(reason: str) -> Optional[str]:
    """The event that a drain reason of ours tells of; None for any other reason."""
    match = _REASON.match(reason)
    return kind_of(match[2], match[1]) if match else None


def is_of_a_part(reason: str) -> bool:
    """Whether a drain reason of ours says that the job had only a part of the node."""
    match = _REASON.match(reason)
    return bool(match and match[3])
