"""List filters, in both syntaxes that the API takes.

AIP-160: ``labels.x=y AND name:c-* AND NOT (status = STOPPING OR scheduling.preemptible = true)``.
The older one: ``name eq 'c-.*'`` and ``ne``, RE2 over the whole value, several in parentheses.
The two are not mixed in one expression. An absent field equals nothing, so that ``x != y`` and
``x ne y`` hold for it. ``key:*`` asks whether a field is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Final

from slurm_flex.emulator.core.errors import ApiError

Json = dict[str, Any]
Filter = Callable[[Json], bool]

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<paren>[()])|(?P<op>!=|>=|<=|=|:|>|<)|"(?P<double>(?:[^"\\]|\\.)*)"
    |'(?P<single>(?:[^'\\]|\\.)*)'|(?P<word>[^\s()=!:<>"']+))""",
    re.VERBOSE,
)
_OLD: Final = re.compile(r"\s+(eq|ne)\s+")


def parse_filter(text: str) -> Filter:
    """A function that says whether an item, as rendered, matches. Raises 400."""
    if _OLD.search(f" {text} ") and not re.search(r"[=:<>]", _unquoted(text)):
        return _parse_old(text)
    parser = _Parser(text)
    found = parser.either()
    if parser.rest():
        raise _bad(text)
    return found


def field_values(item: object, path: str) -> list[object]:
    """All values at a dotted path; lists on the way are looked through."""
    values: list[object] = [item]
    for part in path.split("."):
        following: list[object] = []
        for value in values:
            if isinstance(value, list):
                following += [x[part] for x in value if isinstance(x, dict) and part in x]
            elif isinstance(value, dict) and part in value:
                following.append(value[part])
        values = following
    return values


class _Parser:
    """Recursive descent over AIP-160's AND, OR, NOT and comparisons."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None or match.end() == position:
                raise _bad(text)
            kind = str(match.lastgroup)
            value = str(match.group(kind))
            quoted = kind in ("double", "single")
            self.tokens.append(("text" if quoted else kind, re.sub(r"\\(.)", r"\1", value)))
            position = match.end()

    def rest(self) -> bool:
        """True while words are left."""
        return bool(self.tokens)

    def either(self) -> Filter:
        """Terms joined by OR."""
        parts = [self.both()]
        while self._take_word("OR"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else lambda item: any(part(item) for part in parts)

    def both(self) -> Filter:
        """Terms joined by AND, or just written side by side."""
        parts = [self.one()]
        while self.tokens and self.tokens[0] not in (("paren", ")"), ("word", "OR")):
            self._take_word("AND")
            parts.append(self.one())
        return parts[0] if len(parts) == 1 else lambda item: all(part(item) for part in parts)

    def one(self) -> Filter:
        """One comparison, or a group in parentheses, or the negation of one."""
        if self._take_word("NOT") or self._take_word("-"):
            inner = self.one()
            return lambda item: not inner(item)
        kind, value = self._next()
        if (kind, value) == ("paren", "("):
            inside = self.either()
            if self._next() != ("paren", ")"):
                raise _bad(self.text)
            return inside
        negated = kind == "word" and value.startswith("-") and len(value) > 1
        path = value[1:] if negated else value
        op_kind, op = self._next()
        if op_kind != "op":
            raise _bad(self.text)
        _, operand = self._next()
        compared = _compare(path, op, operand)
        return (lambda item: not compared(item)) if negated else compared

    def _next(self) -> tuple[str, str]:
        if not self.tokens:
            raise _bad(self.text)
        return self.tokens.pop(0)

    def _take_word(self, word: str) -> bool:
        if self.tokens and self.tokens[0] == ("word", word):
            self.tokens.pop(0)
            return True
        return False


def _compare(path: str, op: str, operand: str) -> Filter:
    def holds(item: Json) -> bool:
        values = field_values(item, path)
        if op == "!=":
            return not any(_equal(value, operand) for value in values)
        if op == "=":
            return any(_equal(value, operand) for value in values)
        if op == ":":
            return any(_has(value, operand) for value in values)
        return any(_ordered(value, op, operand) for value in values)

    return holds


def _equal(value: object, operand: str) -> bool:
    if isinstance(value, bool):
        return str(value).lower() == operand.lower()
    if isinstance(value, (list, dict)):
        return False
    return fnmatchcase(str(value), operand) if "*" in operand else str(value) == operand


def _has(value: object, operand: str) -> bool:
    if operand == "*":
        return True
    if isinstance(value, dict):
        return operand in value
    if isinstance(value, list):
        return any(_has(item, operand) for item in value)
    if isinstance(value, str):
        return fnmatchcase(value, operand) if "*" in operand else operand in value
    return _equal(value, operand)


def _ordered(value: object, op: str, operand: str) -> bool:
    left: Any = value
    right: Any = operand
    try:
        left, right = float(str(value)), float(operand)
    except ValueError:
        left, right = str(value), operand
    outcome = {">": left > right, "<": left < right, ">=": left >= right, "<=": left <= right}
    return bool(outcome[op])


def _parse_old(text: str) -> Filter:
    terms = re.findall(r"\(([^()]*)\)", text) if text.strip().startswith("(") else [text]
    parts: list[Filter] = []
    for term in terms:
        pieces = term.strip().split(None, 2)
        if len(pieces) != 3 or pieces[1] not in ("eq", "ne"):
            raise _bad(text)
        parts.append(_old_term(text, *pieces))
    return lambda item: all(part(item) for part in parts)


def _old_term(text: str, path: str, op: str, literal: str) -> Filter:
    literal = literal.strip("'\"")
    try:
        pattern = re.compile(literal)
    except re.error:
        raise _bad(text) from None

    def holds(item: Json) -> bool:
        shown = [
            str(v).lower() if isinstance(v, bool) else str(v) for v in field_values(item, path)
        ]
        found = any(pattern.fullmatch(value) for value in shown)
        return found if op == "eq" else not found

    return holds


def _unquoted(text: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"", "", text)


def _bad(text: str) -> ApiError:
    return ApiError(
        400,
        "invalid",
        f"Invalid value for field 'filter': '{text}'. Invalid list filter expression.",
    )
