"""The world on disk: one SQLite file, written after every change and before its answer goes out,
so that a SIGKILL at any moment loses nothing that a client was told."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from slurm_flex.emulator.core import codec, knobs
from slurm_flex.emulator.core.capacity import count_in
from slurm_flex.emulator.core.clock import ScaledClock, wall_now
from slurm_flex.emulator.core.faults import Fault
from slurm_flex.emulator.core.instances import need_of
from slurm_flex.emulator.core.records import (
    Bill,
    Group,
    Instance,
    Member,
    Operation,
    Record,
    Request,
    RequestId,
    Template,
)
from slurm_flex.emulator.core.tables import Table
from slurm_flex.emulator.core.world import Timer, World
from slurm_flex.errors import FlexError

FORMAT: Final = 1
_KINDS: Final[dict[str, type[Record]]] = {
    "templates": Template,
    "groups": Group,
    "requests": Request,
    "members": Member,
    "instances": Instance,
    "operations": Operation,
    "bills": Bill,
    "request_ids": RequestId,
    "faults": Fault,
}
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS record (kind TEXT, path TEXT, value TEXT NOT NULL,
                                   PRIMARY KEY (kind, path));
CREATE TABLE IF NOT EXISTS timer (number INTEGER PRIMARY KEY, due TEXT, kind TEXT, words TEXT);
"""


class Store:
    """One file with one world. Raises FlexError where it can't be opened or read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
            found = self._meta("format", FORMAT)
        except (OSError, sqlite3.Error) as error:
            raise FlexError(f"can't use the state file: {error}", where=str(path)) from None
        if found != FORMAT:
            raise FlexError(f"the state file has format {found}", where=str(path))
        self._saved_knobs: knobs.Knobs | None = None
        self._saved_clock = ""

    def load(self, clock: ScaledClock, world: World, started_with: dict[str, Any]) -> bool:
        """Fill a fresh world and set its clock; False when there is nothing to load.

        The knobs are those it had, except where it is started with other ones than before."""
        if not self._meta("created", None):
            self._write_meta("created", wall_now().isoformat())
            self._write_meta("started_with", started_with)
            return False
        try:
            self._load_clock(clock)
            self._load_knobs(world, started_with)
            self._load_records(world)
        except (ValueError, TypeError, KeyError, sqlite3.Error) as error:
            raise FlexError(f"the state file is damaged: {error}", where=str(self.path)) from None
        restarts = int(self._meta("restarts", 0)) + 1
        self._write_meta("restarts", restarts)
        world.random.seed(f"{world.random.random()}/{restarts}")
        return True

    def save(self, clock: ScaledClock, world: World) -> None:
        """Write what changed since the last time, all or nothing."""
        changed = [table for table in world.tables if table.changed]
        anchor = _anchor(clock)
        if not (changed or world.timer_changes) and (
            world.knobs is self._saved_knobs and anchor == self._saved_clock
        ):
            return
        try:
            self._write(changed, world, anchor)
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise FlexError(
                f"the state can't be written: {error}",
                where=str(self.path),
                fix="nothing is lost while the emulator runs; it tries again",
            ) from None
        for table in changed:
            table.changed.clear()
        world.timer_changes.clear()
        self._saved_knobs, self._saved_clock = world.knobs, anchor

    def _write(self, changed: list[Table[Any]], world: World, anchor: str) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        for table in changed:
            present = [(table.name, path, table.get(path)) for path in table.changed]
            self._db.executemany(
                "INSERT INTO record VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET value = excluded.value",  # keeps the order of age
                [(kind, path, codec.encode(item)) for kind, path, item in present if item],
            )
            self._db.executemany(
                "DELETE FROM record WHERE kind = ? AND path = ?",
                [(kind, path) for kind, path, item in present if not item],
            )
        self._save_timers(world.timer_changes.items())
        self._write_meta("knobs", knobs.to_json(world.knobs))
        self._write_meta("clock", json.loads(anchor))
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _load_clock(self, clock: ScaledClock) -> None:
        saved = self._meta("clock", None)
        if not saved:
            return
        before = ScaledClock(
            saved["scale"],
            datetime.fromisoformat(saved["wall"]),
            datetime.fromisoformat(saved["time"]),
        )
        clock.anchor_wall = wall_now()
        clock.anchor_time = before.now()

    def _load_knobs(self, world: World, started_with: dict[str, Any]) -> None:
        saved = self._meta("knobs", None)
        if saved:
            world.knobs = knobs.change(world.knobs, saved)
        before = self._meta("started_with", {})
        changed = {k: v for k, v in started_with.items() if before.get(k) != v}
        world.knobs = knobs.change(world.knobs, changed)
        self._write_meta("started_with", started_with)

    def _load_records(self, world: World) -> None:
        tables = {table.name: table for table in world.tables}
        for kind, text in self._db.execute("SELECT kind, value FROM record ORDER BY rowid"):
            tables[kind].add(codec.decode(_KINDS[kind], text))
        for number, due, kind, words in self._db.execute("SELECT * FROM timer"):
            when = datetime.fromisoformat(due)
            world.restore_timer(Timer(when, number, kind, tuple(json.loads(words))))
        for table in world.tables:
            table.changed.clear()
        world.timer_changes.clear()
        for instance in world.instances:
            if instance.stopped is None:
                count_in(world, need_of(instance), +1)

    def _save_timers(self, changes: Iterable[tuple[int, Timer | None]]) -> None:
        changes = list(changes)
        self._db.executemany(
            "INSERT OR REPLACE INTO timer VALUES (?, ?, ?, ?)",
            [(n, t.when.isoformat(), t.kind, json.dumps(t.words)) for n, t in changes if t],
        )
        self._db.executemany(
            "DELETE FROM timer WHERE number = ?", [(n,) for n, t in changes if not t]
        )

    def _meta(self, name: str, default: Any) -> Any:
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else default

    def _write_meta(self, name: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))


def _anchor(clock: ScaledClock) -> str:
    return json.dumps(
        {
            "scale": clock.scale,
            "wall": clock.anchor_wall.isoformat(),
            "time": clock.anchor_time.isoformat(),
        }
    )
