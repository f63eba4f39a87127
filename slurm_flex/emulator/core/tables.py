"""Keyed collections of records, with an index by parent, and a note of what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from slurm_flex.emulator.core.records import Record

R = TypeVar("R", bound=Record)


class Table(Generic[R]):
    """Records by path. ``parent`` says under which key :meth:`under` finds a record."""

    def __init__(self, name: str, parent: Callable[[R], str]) -> None:
        self.name = name
        self._parent = parent
        self._records: dict[str, R] = {}
        self._children: dict[str, dict[str, R]] = {}
        self.changed: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[R]:
        return iter(list(self._records.values()))

    def __contains__(self, path: str) -> bool:
        return path in self._records

    def get(self, path: str) -> R | None:
        """The record of that path, or None."""
        return self._records.get(path)

    def under(self, parent: str) -> list[R]:
        """The records of one parent, oldest first."""
        return list(self._children.get(parent, {}).values())

    def count_under(self, parent: str) -> int:
        """How many records a parent has."""
        return len(self._children.get(parent, {}))

    def parents(self) -> list[str]:
        """All parents that have records."""
        return [parent for parent, children in self._children.items() if children]

    def add(self, record: R) -> R:
        """Put a record in, in place of one with the same path."""
        self._records[record.path] = record
        self._children.setdefault(self._parent(record), {})[record.path] = record
        self.changed[record.path] = None
        record.watch(self._note)
        return record

    def remove(self, record: R) -> None:
        """Take a record out; one that isn't there is fine."""
        if self._records.pop(record.path, None) is None:
            return
        parent = self._parent(record)
        children = self._children[parent]
        children.pop(record.path, None)
        if not children:
            del self._children[parent]
        self.changed[record.path] = None
        record.watch(None)

    def _note(self, record: Record) -> None:
        self.changed[record.path] = None
