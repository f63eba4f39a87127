"""A JSON object, taken apart key by key; everything that is wrong with it is collected."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, TypeVar

from slurm_flex.cluster.reader import closest
from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.hostlist import HostlistError, expand
from slurm_flex.snapshot.times import parse_time

T = TypeVar("T")
_LONGEST_SECONDS: Final = 100 * 365 * 86400


class SnapshotError(FlexError):
    """One thing wrong in a snapshot; `path` is its JSON path (slurm.jobs[3].state)."""

    def __init__(self, what: str, *, source: str, path: str, fix: str = "") -> None:
        self.path = path
        super().__init__(what, where=f"{source}: {path}" if path else source, fix=fix)


class Complaints:
    """Where the errors of one snapshot gather, in the order of its parts."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.errors: list[FlexError] = []

    def add(self, path: str, what: str, fix: str = "") -> None:
        self.errors.append(SnapshotError(what, source=self.source, path=path, fix=fix))

    def include(self, errors: InputErrors) -> None:
        self.errors.extend(errors.errors)


class Record:
    """An object whose keys are asked for one by one. A key that is null is absent.

    What is asked for is what is known: :meth:`close` complains of every other key. A value of the
    wrong kind is complained of and reads as the default, so that all errors come at once.
    """

    def __init__(self, value: object, path: str, complaints: Complaints) -> None:
        self.path = path
        self.complaints = complaints
        self._known: list[str] = []
        self._items: Mapping[str, object] = {}
        if isinstance(value, Mapping):
            self._items = value
        else:
            self.complaints.add(path, f"{shown(value)} is not an object {{ }}")

    def at(self, key: str) -> str:
        """The JSON path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def raw(self, key: str) -> object:
        """The value as it is, None if absent."""
        self._known.append(key)
        return self._items.get(key)

    def complain(self, key: str, what: str, fix: str = "") -> None:
        self.complaints.add(self.at(key), what, fix)

    def close(self) -> None:
        """Every key that nobody asked for is an error, with the one that was probably meant."""
        for key in self._items:
            if key not in self._known:
                meant = closest(str(key), self._known)
                known = f"known are {', '.join(self._known)}"
                self.complain(
                    str(key), "is not a known key", f"did you mean {meant}?" if meant else known
                )

    def text(self, key: str) -> str | None:
        """Text; a number is taken as it is written (an instance id)."""
        value = self.raw(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is None or isinstance(value, str):
            return value
        self._wrong(key, value, "text in quotes")
        return None

    def needed_text(self, key: str) -> str:
        """Text that can't be left out, nor be empty."""
        present = self._items.get(key) not in (None, "")
        value = self.text(key)
        if not present:
            self.complain(key, "is missing")
        return value or ""

    def certainty(self, key: str) -> bool:
        """True unless it is said otherwise; null says that nobody knows, which is no yes."""
        return self.flag(key, key not in self._items)

    def flag(self, key: str, default: bool) -> bool:
        value = self.raw(key)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self._wrong(key, value, "true or false")
        return default

    def number(self, key: str, least: int = 0) -> int | None:
        """A whole number; one in quotes is taken as well."""
        value = self.raw(key)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
            value = int(value)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(key, value, "a whole number")
            return None
        if value < least:
            self._wrong(key, value, f"at least {least}")
            return None
        return value

    def needed_number(self, key: str, least: int = 0) -> int:
        present = self._items.get(key) is not None
        value = self.number(key, least)
        if not present:
            self.complain(key, "is missing")
        return least if value is None else value

    def seconds(self, key: str) -> timedelta | None:
        """A length of time in seconds; None where it is absent: unlimited, or not known."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._wrong(key, value, "a number of seconds")
            return None
        if not math.isfinite(value) or not 0 <= value <= _LONGEST_SECONDS:
            self._wrong(key, value, "a number of seconds from 0 up; null is unlimited")
            return None
        return timedelta(seconds=value)

    def time(self, key: str) -> datetime | None:
        """An RFC 3339 time with its zone, as aware UTC."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self._wrong(key, value, "a time in quotes")
            return None
        try:
            return parse_time(value)
        except ValueError as error:
            self.complain(key, f"{shown(value)} {error}", 'write it like "2026-12-01T12:00:00Z"')
            return None

    def names(self, key: str) -> tuple[str, ...]:
        """Node names: a hostlist, or a list of names."""
        value = self.raw(key)
        if value is None or value == "":
            return ()
        if isinstance(value, str):
            try:
                return expand(value)
            except HostlistError as error:
                self.complain(key, error.what, error.fix)
                return ()
        return self.words(key, "a hostlist in quotes or a list of names")

    def words(self, key: str, wanted: str = "a list of texts") -> tuple[str, ...]:
        """A list of texts."""
        value = self.raw(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._wrong(key, value, wanted)
            return ()
        return tuple(value)

    def record(self, key: str) -> Record | None:
        """An object under a key, None if absent."""
        value = self.raw(key)
        return None if value is None else Record(value, self.at(key), self.complaints)

    def records(self, key: str, read: Callable[[Record], T]) -> tuple[T, ...]:
        """A list of objects, each read and closed."""
        value = self.raw(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            self._wrong(key, value, "a list [ ]")
            return ()
        return tuple(self._each(read, self.at(key), value))

    def _each(self, read: Callable[[Record], T], path: str, items: list[object]) -> Iterable[T]:
        for index, item in enumerate(items):
            record = Record(item, f"{path}[{index}]", self.complaints)
            if not isinstance(item, Mapping):
                continue
            yield read(record)
            record.close()

    def _wrong(self, key: str, value: object, wanted: str) -> None:
        self.complain(key, f"{shown(value)} is not {wanted}")


def shown(value: object) -> str:
    """A value in an error message: short, and without its insides."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else text[:57] + '..."'
