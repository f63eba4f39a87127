"""The small reader behind the JSON files of a node: every error at once, named by file and path."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable, Final, Optional

_LARGEST_FILE: Final = 256 * 1024
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)\Z", re.ASCII)


class WrongValueError(ValueError):
    """A value that a field doesn't take: what is wrong, and what to write instead."""

    def __init__(self, what: str, fix: str) -> None:
        self.what = what
        self.fix = fix
        super().__init__(f"{what} ({fix})")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with one file: where in it, what, and what to do."""

    file: str
    path: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        where = f"{self.file}: {self.path}" if self.path else self.file
        return f"{where}: {self.what}" + (f" ({self.fix})" if self.fix else "")


Kind = Callable[[object], Any]


@dataclass(frozen=True)
class Field:
    """A key of a JSON object: what it takes (kind), what it is for, and its default."""

    kind: Kind
    about: str
    default: Any = None
    required: bool = False


def text(pattern: str = r".+", says: str = "a text") -> Kind:
    """A string that matches the whole pattern; `says` describes it to people."""
    matcher = re.compile(rf"(?s:{pattern})\Z")

    def read(value: object) -> str:
        if not isinstance(value, str) or "\0" in value or not matcher.match(value):
            raise WrongValueError(f"{value!r:.80} is not {says}", f"write {says}")
        return value

    return read


def choice(*words: str) -> Kind:
    """One of a few words."""
    listed = ", ".join(f'"{word}"' for word in words)

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            hint = suggestion(value, words) if isinstance(value, str) else ""
            raise WrongValueError(f"{value!r:.80} is not one of {listed}", hint or "choose one")
        return value

    return read


def integer(low: int, high: int) -> Kind:
    """A whole number from low to high, both included."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise WrongValueError(
                f"{value!r:.80} is not a whole number from {low} to {high}", "write a number"
            )
        return value

    return read


def number(low: float, high: float) -> Kind:
    """A number from low to high, both included."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise WrongValueError(f"{value!r:.80} is not a number", "write a number")
        if not low <= value <= high:
            raise WrongValueError(f"{value!r:.80} is not between {low:g} and {high:g}", "")
        return float(value)

    return read


def boolean(value: object) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise WrongValueError(f"{value!r:.80} is not true or false", "write true or false")
    return value


def duration(value: object) -> timedelta:
    """`"90s"`, `"2m"` or a number of seconds; more than nothing and at most an hour."""
    fix = 'write "10s", "2m" or a number of seconds, at most "1h"'
    match = None if isinstance(value, (bool, list, dict)) else _DURATION.match(str(value).strip())
    seconds = float(match.group(1)) * _UNITS[match.group(2)] if match else 0.0
    if not 0 < seconds <= 3600:
        raise WrongValueError(f"{value!r:.80} is not a duration", fix)
    return timedelta(seconds=seconds)


def list_of(kind: Kind, *, least: int = 0) -> Kind:
    """A list whose items are all of one kind."""

    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise WrongValueError(f"{value!r:.80} is not a list", "write a list: [...]")
        if len(value) < least:
            raise WrongValueError("the list is empty", "name at least one")
        return tuple(kind(item) for item in value)

    return read


def table_of(kind: Kind) -> Kind:
    """An object with keys of the writer's own, whose values are all of one kind."""

    def read(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise WrongValueError(f"{value!r:.80} is not an object", "write an object: {...}")
        return {str(key): kind(item) for key, item in value.items()}

    return read


def anything(value: object) -> object:
    """A value that is looked at later."""
    return value


def suggestion(word: str, known: Any) -> str:
    """`did you mean "x"?`, or nothing when nothing is near."""
    import difflib  # noqa: PLC0415  (5 ms that a node without mistakes doesn't pay)

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f'did you mean "{near[0]}"?' if near else ""


def read_object(
    data: object, fields: Mapping[str, Field], file: str, path: str = ""
) -> tuple[dict[str, Any], list[Problem]]:
    """Every field of an object, defaults filled in, and every problem with it."""
    if not isinstance(data, dict):
        return {}, [Problem(file, path, "this is not a JSON object", "write an object: {...}")]
    prefix = f"{path}." if path else ""
    values: dict[str, Any] = {}
    problems = []
    for key in data:
        if key not in fields:
            hint = suggestion(str(key), fields) or f"known keys: {', '.join(fields)}"
            problems.append(Problem(file, f"{prefix}{key}", "unknown key", hint))
    for key, field in fields.items():
        values[key] = field.default
        if key not in data:
            if field.required:
                problems.append(Problem(file, f"{prefix}{key}", "missing", field.about))
            continue
        try:
            values[key] = field.kind(data[key])
        except WrongValueError as wrong:
            problems.append(Problem(file, f"{prefix}{key}", wrong.what, wrong.fix))
    return values, problems


def load_json(path: Path) -> tuple[object, Optional[Problem]]:
    """A JSON file's content, or the one problem that keeps it from being read.

    What is read here says which programs root runs, so a file that anybody may write, or that
    belongs to another user than root, us or this package's owner, is refused.
    """
    file = str(path)
    try:
        # Not blocking, or a named pipe in the folder would hold up every job.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            facts = os.fstat(handle)
            regular = stat.S_ISREG(facts.st_mode)
            raw = os.read(handle, _LARGEST_FILE + 1) if regular else b""
        finally:
            os.close(handle)
    except OSError as error:
        return None, Problem(file, "", f"can't be read: {error.strerror}", "")
    if not regular:
        return None, Problem(file, "", "is not a regular file", "")
    if facts.st_mode & stat.S_IWOTH:
        return None, Problem(file, "", "anybody may write this file", "chmod o-w")
    if facts.st_uid not in {0, os.geteuid(), Path(__file__).stat().st_uid}:
        return None, Problem(file, "", f"belongs to user {facts.st_uid}", "chown root")
    if len(raw) > _LARGEST_FILE:
        return None, Problem(file, "", "is larger than 256 KiB", "")
    try:
        return json.loads(raw.decode("utf-8")), None
    except UnicodeDecodeError as error:
        return None, Problem(file, f"byte {error.start}", "is not UTF-8", "save it as UTF-8")
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        return None, Problem(file, where, f"is not JSON: {error.msg}", "")
    except ValueError as error:  # a number of thousands of digits
        return None, Problem(file, "", f"is not JSON: {error}", "")
    except RecursionError:
        return None, Problem(file, "", "is nested too deeply", "")
