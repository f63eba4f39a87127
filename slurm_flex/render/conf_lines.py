r"""Read a slurm.conf the way Slurm's own parser does: comments, continued lines, Include, records.

What was measured on 22.05, 24.11 and 26.05 (the probes are test vectors): `#` begins a comment
even inside quotes unless a backslash stands before it; an odd number of backslashes at the end of
a line continues it, but not at the end of a comment; Include is known only at column 0, in any
case, without quotes and without globs, and is relative to slurm.conf's folder; keys are
case-insensitive, single quotes are literal, double quotes around a value are taken off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slurm_flex.errors import FlexError

_PAIR: Final = re.compile(r'\s*([A-Za-z][A-Za-z0-9_.]*)\s*[-+*/]?=\s*("[^"]*"|\S*)')
_INCLUDE: Final = re.compile(r"include\s+(\S.*?)\s*\Z", re.IGNORECASE)
_DEEPEST: Final = 10

RECORDS: Final = frozenset(
    ["nodename", "partitionname", "nodeset", "downnodes", "frontendname", "poweraction"]
)
"""Keys whose line goes on with Key=Value pairs of its own."""


@dataclass(frozen=True)
class ConfLine:
    """One logical line: its first key and value, and for a record the pairs that follow.

    rest is what could not be read as Key=Value (Slurm refuses the line for it).
    """

    file: str
    number: int
    key: str
    value: str
    pairs: tuple[tuple[str, str], ...] = ()
    rest: str = ""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}"

    def get(self, *keys: str) -> str | None:
        """The last value of a pair of that name (any of them, any case)."""
        wanted = {key.lower() for key in keys}
        found = [value for key, value in self.pairs if key.lower() in wanted]
        return found[-1] if found else None


Reading = Callable[[str], str]
"""Gives the text of an included file by its name as written; raises OSError if there is none."""


def read_conf(path: Path) -> list[ConfLine]:
    """A slurm.conf and all it includes, in Slurm's order. Raises FlexError for a missing file."""
    folder = path.parent

    def reading(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8", errors="replace")

    try:
        text = reading(path.name)
    except OSError as error:
        raise FlexError(error.strerror or str(error), where=str(path)) from error
    return list(parse_conf(text, file=str(path), reading=reading))


def parse_conf(
    text: str, *, file: str = "slurm.conf", reading: Reading | None = None, depth: int = 0
) -> Iterator[ConfLine]:
    """The logical lines of a text; Include lines are followed where ``reading`` is given.

    Raises FlexError for an Include that Slurm couldn't follow.
    """
    for number, line in logical_lines(text):
        include = _INCLUDE.match(line)
        if include is None or reading is None:
            parsed = _parse_line(line, file, number)
            if parsed is not None:
                yield parsed
            continue
        name = include.group(1)
        where = f"{file}:{number}"
        if depth >= _DEEPEST:
            raise FlexError(f"Include {name} goes round in circles", where=where)
        try:
            included = reading(name)
        except OSError as error:
            what = f"Include {name}: {error.strerror or error}"
            fix = "write that file first: every Slurm command waits 60 s for it, then fails"
            raise FlexError(what, where=where, fix=_include_hint(name) or fix) from error
        yield from parse_conf(included, file=name, reading=reading, depth=depth + 1)


def _include_hint(name: str) -> str:
    if name[0] in "\"'":
        return "Include takes no quotes"
    if set(name) & set("*?["):
        return "Include takes no globs"
    return ""


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of the first physical line, text without comment) for each that has any text."""
    pending = ""
    first = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line, commented = _strip_comment(raw)
        if not pending:
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if not commented and backslashes % 2:
            pending += line[:-1]
            continue
        whole = _unescape(pending + line)
        pending = ""
        if whole.strip():
            yield first, whole
    if pending.strip():
        yield first, _unescape(pending)


def _strip_comment(line: str) -> tuple[str, bool]:
    """The text before an unescaped #, and whether there was one."""
    at = 0
    while (at := line.find("#", at)) >= 0:
        before = line[:at]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return before, True
        at += 1
    return line, False


def _unescape(line: str) -> str:
    return re.sub(r"\\(.)", r"\1", line)


def _parse_line(line: str, file: str, number: int) -> ConfLine | None:
    pairs: list[tuple[str, str]] = []
    at = 0
    while found := _PAIR.match(line, at):
        pairs.append((found.group(1), found.group(2)))
        at = found.end()
    rest = line[at:].strip()
    if not pairs:
        return ConfLine(file, number, "", "", (), rest) if rest else None
    (key, value), *others = pairs
    return ConfLine(file, number, key, _bare(value), tuple((k, _bare(v)) for k, v in others), rest)


def _bare(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
