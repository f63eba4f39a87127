"""Read what ``scontrol show ... -o`` prints: nodes, partitions, reservations, configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from slurm_flex.hostlist import HostlistError, expand
from slurm_flex.model import Node, Partition, Reservation
from slurm_flex.slurm.errors import ParseError
from slurm_flex.slurm.values import parse_limit, parse_text, parse_time

_NODE_HEAD: Final = re.compile(r"NodeName=(\S+)")
_STATE: Final = re.compile(r" State=(\S+) ThreadsPerCore=")
_BOOT: Final = re.compile(r" BootTime=(\S+)")
# What people and programs write freely comes last, in this order. The author of a reason stands
# at the end of its first line, and the other lines follow (R 22.05, 24.11, 26.05).
_FREE_TEXT: Final = re.compile(
    r"(?:\s+Reason=(?P<reason>.*?)"
    r"(?: \[(?P<user>[^\]\s]*)@(?P<time>\d{4}-\d\d-\d\dT[\d:]+|Unknown|None)\](?P<more>.*?))?)?"
    r"(?:\s+Comment=(?P<comment>.*?))?"
    r"(?:\s+Extra=(?P<extra>.*?))?"
    r"(?:\s+InstanceId=(?P<instance>\S*))?"
    r"(?:\s+InstanceType=\S*)?"
    r"(?:\s+ReservationName=\S*)?"  # since 23.02, while a reservation is active there (R 24.11)
    r"(?:\s+TLSCertTokenSet=\S*)?"  # since 25.05
    r"(?:\s+TLSCertLastRenewal=\S*)?"
    r"\s*\Z",
    re.DOTALL,
)
_FREE_TEXT_START: Final = re.compile(
    r"\s(?:Reason|Comment|Extra|InstanceId|InstanceType|ReservationName|TLSCertTokenSet)="
)
_PAIR: Final = re.compile(r"(\S+?)=(\S*)")
_CONFIG: Final = re.compile(r"(\S+)\s*= ?(.*)")
_PING: Final = re.compile(r"Slurmctld\((\S+)\) at (\S+) is (UP|DOWN)")


def parse_nodes(text: str) -> tuple[Node, ...]:
    """``scontrol show node -o``. Raises ParseError."""
    return tuple(_node(line) for line in _lines(text, "NodeName=", "No nodes"))


def parse_partitions(text: str) -> tuple[Partition, ...]:
    """``scontrol show partition -o``. Raises ParseError."""
    return tuple(_partition(line) for line in _lines(text, "PartitionName=", "No partitions"))


def parse_reservations(text: str) -> tuple[Reservation, ...]:
    """``scontrol show reservation -o``. Raises ParseError."""
    return tuple(_reservation(line) for line in _lines(text, "ReservationName=", "No reservations"))


def parse_settings_shown(text: str) -> dict[str, str]:
    """``scontrol show config`` as it is, key by key; a key that repeats keeps its first value."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        match = _CONFIG.fullmatch(line)
        if match:
            values.setdefault(match[1], match[2])
    return values


def parse_ping(text: str) -> tuple[tuple[str, bool], ...]:
    """The controllers in the order in which they take over: (host, is it up).

    `scontrol show config` ends with what `scontrol ping` prints.
    """
    return tuple((match[2], match[3] == "UP") for match in _PING.finditer(text))


def _lines(text: str, start: str, nothing: str) -> Iterator[str]:
    """One record each, a line break within a free text mended."""
    record: str | None = None
    for line in text.split("\n"):
        if line.startswith(start):
            if record is not None:
                yield record
            record = line
        elif record is not None:
            record += "\n" + line
        elif line.strip() and not line.startswith(nothing):
            raise ParseError(f"expected {start}..., found {line[:80]!r}", where="scontrol show")
    if record is not None:
        yield record


def _node(line: str) -> Node:
    head = _NODE_HEAD.match(line)
    state = _STATE.search(line)
    if head is None or state is None:
        raise ParseError(f"a node without name or state: {line[:80]!r}", where="scontrol show node")
    boot = _BOOT.search(line, state.end())
    start = _FREE_TEXT_START.search(line, state.end())
    free = _FREE_TEXT.fullmatch(line, start.start() if start else len(line))
    if free is None:
        raise ParseError(f"node {head[1]} ends in {line[-80:]!r}", where="scontrol show node")
    try:
        return Node(
            name=head[1],
            state=state[1],
            reason=_reason(free["reason"], free["more"]),
            reason_time=parse_time(free["time"]),
            reason_user=free["user"] or None,
            instance_id=parse_text(free["instance"]),
            boot_time=parse_time(boot[1]) if boot else None,
            comment=free["comment"] or None,
        )
    except ValueError as error:
        raise ParseError(str(error), where=f"scontrol show node {head[1]}") from error


def _reason(first: str | None, more: str | None) -> str | None:
    lines = [first or "", *(part.strip() for part in (more or "").splitlines() if part.strip())]
    return "\n".join(lines) or None


def _pairs(line: str) -> Mapping[str, str]:
    """The first value of each key: what people wrote (a comment) comes after."""
    pairs: dict[str, str] = {}
    for key, value in _PAIR.findall(line):
        pairs.setdefault(key, value)
    return pairs


def _partition(line: str) -> Partition:
    pairs = _pairs(line)
    where = f"scontrol show partition {pairs['PartitionName']}"
    try:
        return Partition(
            name=pairs["PartitionName"],
            state=pairs.get("State", "UP"),
            nodes=named(pairs.get("Nodes")),
            max_time=parse_limit(pairs.get("MaxTime")),
        )
    except (HostlistError, ValueError) as error:
        raise ParseError(str(error), where=where) from error


def _reservation(line: str) -> Reservation:
    pairs = _pairs(line)
    where = f"scontrol show reservation {pairs['ReservationName']}"
    try:
        return Reservation(
            name=pairs["ReservationName"],
            nodes=named(pairs.get("Nodes")),
            start=parse_time(pairs.get("StartTime")),
            end=parse_time(pairs.get("EndTime")),
            flags=tuple(flag for flag in pairs.get("Flags", "").split(",") if flag),
        )
    except (HostlistError, ValueError) as error:
        raise ParseError(str(error), where=where) from error


def named(value: str | None) -> tuple[str, ...]:
    """The names of a hostlist that may be (null) or empty. Raises HostlistError."""
    text = parse_text(value)
    return expand(text) if text else ()
