"""Find what is wrong in a slurm.conf: what Slurm's parser refuses, and what it lets through.

Slurm's parser doesn't look at brackets, states or names of nodes; slurmctld trips over them later
or, worse, doesn't. For what the parser does check, it is the truth: run :mod:`oracle` as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from slurm_flex.cluster.slurm_keys import Release, Scope, knows, nearest_key, spelling
from slurm_flex.errors import FlexError
from slurm_flex.hostlist import HostlistError, expand
from slurm_flex.render.conf_lines import RECORDS, ConfLine
from slurm_flex.text import one_line

STATES: Final = frozenset(
    ["CLOUD", "DOWN", "DRAIN", "EXTERNAL", "FAIL", "FAILING", "FUTURE", "UNKNOWN"]
)
"""States a NodeName line may have (man slurm.conf); a + joins two."""
_PARTITION_STATES: Final = frozenset(["UP", "DOWN", "DRAIN", "INACTIVE"])
_SCOPES: Final[dict[str, Scope]] = {"nodename": "node", "partitionname": "partition"}
LONGEST_TIMEOUT: Final = 65535
_DIGITS: Final = 18
_NUMBER: Final = re.compile(r"-?\d+")
_TIME: Final = re.compile(r"-?\d+(-\d+)?(:\d+){0,2}")
_NO_LIMIT: Final = frozenset(["INFINITE", "UNLIMITED"])
_ALL: Final = frozenset(["ALL", "(null)"])


def find_faults(lines: Iterable[ConfLine], release: Release) -> list[FlexError]:
    """Everything that is wrong with the lines of a slurm.conf, in their order."""
    kept = list(lines)
    nodes = _known_nodes(kept)
    faults: list[FlexError] = []
    for line in kept:
        faults += _line_faults(line, release)
        faults += _reference_faults(line, nodes)
    return faults


def _line_faults(line: ConfLine, release: Release) -> Iterator[FlexError]:
    if not line.key:
        yield FlexError(f'"{line.rest}" is not Key=Value', where=line.where)
        return
    low = line.key.lower()
    if line.rest:
        yield FlexError(f'"{line.rest}" is not Key=Value', where=line.where)
    yield from _key_fault("global", line.key, line.where, release)
    if low not in RECORDS:
        for key, _ in line.pairs:
            what = f"{key} stands on the line of {line.key}"
            yield FlexError(what, where=line.where, fix="one setting a line")
    scope = _SCOPES.get(low)
    for key, value in ((line.key, line.value), *line.pairs):
        if scope and (key, value) != (line.key, line.value):
            yield from _key_fault(scope, key, line.where, release)
        if value == "":
            fix = "leave the line out instead: an empty value is fatal"
            yield FlexError(f"{key} has no value", where=line.where, fix=fix)
        elif check := _VALUES.get(key.lower()):
            yield from check(key, value, line, release)


def _key_fault(scope: Scope, key: str, where: str, release: Release) -> Iterator[FlexError]:
    if knows(release, scope, key) is not False:
        return
    meant = nearest_key(scope, key)
    if meant.lower() == key.lower():
        what = f"{spelling(scope, key)} is not known to Slurm {release}"
        yield FlexError(what, where=where, fix="leave it out, or use another release")
    else:
        fix = f"did you mean {meant}?" if meant else ""
        yield FlexError(f"{key} is no parameter of Slurm", where=where, fix=fix)


def _timeout(key: str, value: str, line: ConfLine, _: Release) -> Iterator[FlexError]:
    """ResumeTimeout and SuspendTimeout: at most 65535 or INFINITE (R 22.05, 24.11, 26.05)."""
    if value.upper() in _NO_LIMIT:
        return
    if not _NUMBER.fullmatch(value):
        yield FlexError(f'{key}: "{value}" is not a number of seconds', where=line.where)
    elif len(value) > _DIGITS or int(value) > LONGEST_TIMEOUT:
        what = f"{key}={one_line(value, 40)} is fatal to slurmctld and to every command"
        yield FlexError(what, where=line.where, fix=f"at most {LONGEST_TIMEOUT}")


def _time(key: str, value: str, line: ConfLine, _: Release) -> Iterator[FlexError]:
    if value.upper() not in _NO_LIMIT and not _TIME.fullmatch(value):
        yield FlexError(f'{key}: "{value}" is no time', where=line.where, fix="1-00:00:00, 90")


def _number(key: str, value: str, line: ConfLine, _: Release) -> Iterator[FlexError]:
    if not _NUMBER.fullmatch(value):
        yield FlexError(f'{key}: "{value}" is not a number', where=line.where)


def _user(key: str, value: str, line: ConfLine, _: Release) -> Iterator[FlexError]:
    if "'" in value:
        yield FlexError(f"{key}: {value} is no user", where=line.where, fix="take the quotes off")


def _state(key: str, value: str, line: ConfLine, _: Release) -> Iterator[FlexError]:
    record = line.key.lower()
    allowed = _PARTITION_STATES if record == "partitionname" else STATES
    if record in ("nodename", "partitionname"):
        for part in value.split("+"):
            if part.upper() not in allowed:
                fix = f"one of {', '.join(sorted(allowed))}"
                yield FlexError(f'{key}: "{part}" is no state', where=line.where, fix=fix)


def _hosts(key: str, value: str, line: ConfLine, _: Release) -> Iterator[FlexError]:
    if value.upper() == "DEFAULT" and key.lower() != "nodes":
        return
    try:
        expand(value)
    except HostlistError as error:
        yield FlexError(f"{key}: {error.what}", where=line.where, fix=error.fix)


_VALUES: Final[dict[str, Callable[[str, str, ConfLine, Release], Iterator[FlexError]]]] = {
    "resumetimeout": _timeout,
    "suspendtimeout": _timeout,
    "suspendtime": _time,
    "maxtime": _time,
    "defaulttime": _time,
    "resumerate": _number,
    "suspendrate": _number,
    "treewidth": _number,
    "returntoservice": _number,
    "cpus": _number,
    "realmemory": _number,
    "weight": _number,
    "slurmuser": _user,
    "slurmduser": _user,
    "state": _state,
    "nodename": _hosts,
}


def _known_nodes(lines: Sequence[ConfLine]) -> frozenset[str]:
    """Names of nodes and of node sets: what a partition's Nodes may consist of."""
    names: set[str] = set()
    for line in lines:
        if line.key.lower() == "nodename" and line.value.upper() != "DEFAULT":
            names.update(_names(line.value))
        elif line.key.lower() == "nodeset":
            names.add(line.value)
    return frozenset(names)


def _names(hostlist: str) -> tuple[str, ...]:
    try:
        return expand(hostlist)
    except HostlistError:
        return ()


def _reference_faults(line: ConfLine, nodes: frozenset[str]) -> Iterator[FlexError]:
    """Nodes that a partition or an exception names but no NodeName line defines."""
    low = line.key.lower()
    if low == "partitionname":
        value = line.get("Nodes") or "ALL"
    elif low in ("suspendexcnodes", "downnodes"):
        value = re.sub(r":\d+(?=,|$)", "", line.value)  # NODES:COUNT, since 23.02
    else:
        return
    if value in _ALL or not value:
        return
    what = f"partition {line.value}" if low == "partitionname" else line.key
    try:
        missing = [name for name in expand(value) if name not in nodes]
    except HostlistError as error:
        yield FlexError(f"{what}: {error.what}", where=line.where, fix=error.fix)
        return
    if missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if missing[3:] else "")
        yield FlexError(f"{what} names nodes that don't exist: {shown}", where=line.where)
