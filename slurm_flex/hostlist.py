"""Hostlists: ``c1-gx-[0-3,7]`` to names and back, as Slurm's newest release reads and writes them.

Truth is ``scontrol show hostnames`` (tests/data/vectors holds its answers). ClusterShell folds the
numbers; it does not read, because it sorts, drops duplicates, refuses what Slurm takes
(``a[001-1000]``, ``x[1-2][3-4]``) and gives a meaning to ``@ ! & ^ * /``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from ClusterShell.RangeSet import RangeSet

from slurm_flex.errors import FlexError

LARGEST_RANGE: Final = 65536
"""Slurm's MAX_RANGE: a single range with more hosts is refused."""
MOST_NAMES: Final = 1 << 20
"""Ours: a few characters (``a[0-65535]b[0-65535]``) must not fill the memory."""

_SEPARATORS: Final = "\t, \n"
_TOKEN: Final = re.compile(r"(?:[^\t, \n\[]|\[[^\]]*(?:\]|\Z))+")
_BRACKET: Final = re.compile(r"\[([^\[\]]*)\]")
_RANGE: Final = re.compile(r"(\s*\d{1,40}\s*)(?:-(\s*\d{0,40}))?", re.ASCII)
_UNFOLDABLE: Final = re.compile(r"[\[\],\s\0-\x1f]|\A-|\A\Z")
_DIGITS: Final = re.compile(r"(\d+)", re.ASCII)
_LARGEST_NUMBER: Final = (1 << 64) - 1
_LONGEST_NUMBER: Final = 18
"""Digits that fit Slurm's 64 bits whatever they are."""


class HostlistError(FlexError):
    """A text that Slurm doesn't take for a hostlist, or a name that no hostlist can hold."""


def expand(text: str) -> tuple[str, ...]:
    """The names of a hostlist, in its order, duplicates kept, as Slurm does.

    Names are separated by commas or white space. Raises HostlistError for a text that is no
    hostlist, names nobody, has a range of more than LARGEST_RANGE or names more than MOST_NAMES.
    """
    names: list[str] = []
    for token in _TOKEN.findall(text):
        names.extend(_names(token, text, MOST_NAMES - len(names)))
    if not names:
        raise _wrong("names no host", text)
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """The shortest hostlist that every release reads: sorted naturally, each name once.

    Only the last number of a name is folded, as Slurm does: Slurm 22.05 reads nothing after a
    bracket but another one with a name between. No names give the empty text. Raises
    HostlistError for a name that would be read as something else (a comma, a bracket, a blank).
    """
    numbers: dict[str, set[str]] = {}
    for name in set(names):
        if _UNFOLDABLE.search(name):
            raise HostlistError(f"{name!r} can't stand in a hostlist", fix="rename the node")
        prefix = name.rstrip("0123456789")
        number = name[len(prefix) :]
        if len(number) > _LONGEST_NUMBER:
            prefix, number = name, ""
        numbers.setdefault(prefix, set()).add(number)
    return ",".join(
        itertools.chain.from_iterable(
            _folded(prefix, numbers[prefix]) for prefix in sorted(numbers, key=natural_order)
        )
    )


def natural_order(name: str) -> tuple[list[tuple[int, str]], str]:
    """Sort key: numbers within a name count as numbers (a2 before a10)."""
    parts = enumerate(_DIGITS.split(name))
    return [_order(part, is_number=at % 2 == 1) for at, part in parts if part], name


def _order(part: str, *, is_number: bool) -> tuple[int, str]:
    """Numbers by length, then digit by digit: no conversion, however long they are."""
    if not is_number:
        return -1, part
    digits = part.lstrip("0")
    return len(digits), digits


def _folded(prefix: str, numbers: set[str]) -> Iterator[str]:
    if "" in numbers:
        yield prefix
    found = sorted((number for number in numbers if number), key=lambda text: (int(text), text))
    for start in range(0, len(found), LARGEST_RANGE):
        chunk = found[start : start + LARGEST_RANGE]
        ranges = RangeSet()
        ranges.update(chunk)
        yield f"{prefix}[{ranges}]" if len(chunk) > 1 else f"{prefix}{chunk[0]}"


def _names(token: str, text: str, room: int) -> Iterable[str]:
    """Every name that one comma-less part stands for; the first bracket changes slowest."""
    pieces = _BRACKET.split(token)
    literals, ranges = pieces[::2], pieces[1::2]
    outside = "".join(literals)
    if outside.count("[") > outside.count("]"):
        raise _wrong("has a bracket without its other half", text)
    if token.startswith("-"):
        raise _wrong("begins with a dash", text)
    if not ranges:
        return (token,)
    choices = [_numbers(inside, text) for inside in ranges]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > room:
        raise _wrong(f"names more than {MOST_NAMES} hosts", text)
    head, *tails = literals
    names: list[str] = [head]
    for choice, tail in zip(choices, tails, strict=True):
        ends = [number + tail for number in choice]
        names = [name + end for name in names for end in ends]
    return names


def _numbers(inside: str, text: str) -> list[str]:
    """``1-3,07`` to 1 2 3 07. The lower end's width is the padding, blanks within it count."""
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise _wrong(f"has no range in [{part}]", text)
        width = len(match[1])
        low = min(int(match[1]), _LARGEST_NUMBER)
        high = min(int(match[2]), _LARGEST_NUMBER) if (match[2] or "").strip() else low
        if low > high:
            raise _wrong(f"has a range that runs backwards, {part}", text)
        if high - low >= LARGEST_RANGE:
            raise _wrong(f"has more than {LARGEST_RANGE} hosts in {part}", text)
        numbers.extend(str(number).zfill(width) for number in range(low, high + 1))
        if len(numbers) > MOST_NAMES:
            raise _wrong(f"names more than {MOST_NAMES} hosts", text)
    return numbers


def _wrong(what: str, text: str) -> HostlistError:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return HostlistError(f"hostlist {shown!r} {what}", fix="write it like c1-gx-[0-3,7]")
