"""The one file that outlives a pass: SQLite with memory, what is on its way, and the event journal.

Everything in it can be lost without losing a VM or a job (DESIGN.md), so a file that can't be read
is set aside and an empty one begun. What is written is there after a power cut (WAL, synchronous),
0600, for the owner alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final

from slurm_flex.compute.fleet import Operation
from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.folders import how_to_get, make_folder, user_name
from slurm_flex.model import Memory
from slurm_flex.snapshot import dump_memory, load_memory

FILE_NAME: Final = "memory.sqlite"
SCHEMA_VERSION: Final = 1
KEPT_EVENTS: Final = 50_000
"""The journal's length; at ten events a minute, about three and a half days of trouble."""
KEPT_NONCES: Final = timedelta(days=2)
"""Longer than Google remembers a requestId."""
_LOCK_SECONDS: Final = 10.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Times are microseconds since 1970, so that they sort and compare.
_SCHEMA: Final = (
    "CREATE TABLE memory (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL)",
    "CREATE TABLE nonce (key TEXT PRIMARY KEY, nonce TEXT NOT NULL, at INTEGER NOT NULL)",
    "CREATE TABLE pending (operation TEXT PRIMARY KEY, nodes TEXT NOT NULL, nonce_key TEXT,"
    " at INTEGER NOT NULL)",
    "CREATE TABLE event (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,"
    " kind TEXT NOT NULL, pool TEXT, job INTEGER, nodes TEXT NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX event_at ON event (at)",
)


class MemoryFileError(FlexError):
    """The file can't be written or read just now; nothing in it is known to be damaged."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An operation that was started and isn't known to be over, and the nodes that it is for.
    `nonce_key`: what its nonce is kept under, None if it needs none."""

    operation: Operation
    nodes: tuple[str, ...]
    at: datetime
    nonce_key: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the journal. `id` grows; 0 is one that isn't written yet."""

    at: datetime
    kind: str
    text: str
    nodes: tuple[str, ...] = ()
    job: int | None = None
    pool: str | None = None
    id: int = 0


class Store:
    """The file, opened. One writer at a time (the holder of the acting lock), any reader."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection

    # --- memory

    def load(self) -> Memory:
        """The memory that was saved last; an empty one if none was. Raises MemoryFileError, or
        InputErrors for a body that no release wrote."""
        with _said(self.path):
            return _load(self._db, self.path)

    def save(self, memory: Memory, *, over: Iterable[Pending] = ()) -> None:
        """Keep the memory and forget operations that are `over`, with their nonces: both or
        neither. It is on the disk when this returns. Raises MemoryFileError."""
        body = json.dumps(dump_memory(memory), separators=(",", ":"))
        with self._write() as db:
            db.execute("INSERT OR REPLACE INTO memory (one, body) VALUES (1, ?)", (body,))
            for one in over:
                db.execute("DELETE FROM pending WHERE operation = ?", (_text(one.operation),))
                db.execute("DELETE FROM nonce WHERE key = ?", (one.nonce_key,))

    # --- what is on its way

    def nonces(self, keys: Iterable[str], now: datetime) -> dict[str, str]:
        """A nonce for each key: the one kept from an earlier try, else a new one, on the disk
        before this returns. A call that is repeated with it does its work once."""
        found: dict[str, str] = {}
        with self._write() as db:
            old = _number(now - KEPT_NONCES)
            db.execute("DELETE FROM nonce WHERE at < ?", (old,))
            for key in keys:
                row = db.execute("SELECT nonce FROM nonce WHERE key = ?", (key,)).fetchone()
                found[key] = row[0] if row else os.urandom(16).hex()
                if row is None:
                    values = (key, found[key], _number(now))
                    db.execute("INSERT INTO nonce (key, nonce, at) VALUES (?, ?, ?)", values)
        return found

    def forget_nonces(self, keys: Iterable[str]) -> None:
        """Their calls are over, well or badly: the same words mean a new call from now on."""
        with self._write() as db:
            db.executemany("DELETE FROM nonce WHERE key = ?", [(key,) for key in keys])

    def pending(self) -> tuple[Pending, ...]:
        """Operations to look at, oldest first."""
        with _said(self.path):
            rows = self._db.execute(
                "SELECT operation, nodes, at, nonce_key FROM pending ORDER BY at, operation"
            ).fetchall()
        return tuple(
            Pending(_operation(text), tuple(nodes.split()), _time(at), key)
            for text, nodes, at, key in rows
        )

    def keep_pending(self, operations: Iterable[Pending]) -> None:
        rows = [
            (_text(one.operation), " ".join(one.nodes), one.nonce_key, _number(one.at))
            for one in operations
        ]
        with self._write() as db:
            db.executemany("INSERT OR REPLACE INTO pending VALUES (?, ?, ?, ?)", rows)

    # --- the journal

    def write_events(self, entries: Sequence[Entry]) -> None:
        """Append to the journal and drop what is older than its length."""
        rows = [
            (_number(one.at), one.kind, one.pool, one.job, " ".join(one.nodes), one.text)
            for one in entries
        ]
        with self._write() as db:
            db.executemany(
                "INSERT INTO event (at, kind, pool, job, nodes, text) VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
            db.execute(
                "DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - ?", (KEPT_EVENTS,)
            )

    def events(
        self, *, since: datetime | None = None, after: int = 0, last: int = 1000
    ) -> tuple[Entry, ...]:
        """The `last` entries, oldest first: not older than `since`, with an id above `after`."""
        earliest = _number(since) if since else 0
        with _said(self.path):
            rows = self._db.execute(
                "SELECT id, at, kind, pool, job, nodes, text FROM event"
                " WHERE id > ? AND at >= ? ORDER BY id DESC LIMIT ?",
                (after, earliest, last),
            ).fetchall()
        return tuple(
            Entry(_time(at), kind, text, tuple(nodes.split()), job, pool, number)
            for number, at, kind, pool, job, nodes, text in reversed(rows)
        )

    # --- the file

    @contextlib.contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing, on the disk at its end."""
        with _said(self.path), _transaction(self._db):
            yield self._db

    def close(self) -> None:
        self._db.close()


@dataclass(frozen=True, slots=True)
class Opened:
    """The store and the memory in it. `complaint` says what was wrong with the file that was
    found, if it had to be set aside."""

    store: Store
    memory: Memory
    complaint: str = ""


def open_store(state_dir: Path, now: datetime) -> Opened:
    """Open the store in the state folder, making what isn't there.

    A damaged file, or one of another release's schema, is renamed and an empty one begun: memory
    is worth less than a daemon that runs. Raises MemoryFileError where there is no writing at all.
    """
    path = state_dir / FILE_NAME
    with _said(path):
        make_folder(state_dir)
    try:
        return _opened(path)
    except OSError as error:
        raise _no_use(path, error) from error
    except (sqlite3.DatabaseError, InputErrors) as error:
        if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
            raise _no_use(path, error) from error
        aside = _set_aside(path, now)
        complaint = (
            f"{path} can't be used ({error}); it was renamed to {aside.name} and an empty one was "
            "begun: grace periods and back-offs start anew"
        )
    with _said(path):
        fresh = _opened(path)
    return Opened(fresh.store, fresh.memory, complaint)


def open_journal(state_dir: Path) -> Store:
    """The store for reading alone. Raises MemoryFileError: not there, or not readable by us."""
    path = state_dir / FILE_NAME
    with _said(path):
        if not path.is_file():
            raise FileNotFoundError(2, "no such file")
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=_LOCK_SECONDS)
        connection.execute("SELECT max(id) FROM event").fetchone()
    return Store(path, connection)


def _opened(path: Path) -> Opened:
    """Raises OSError, sqlite3.DatabaseError, InputErrors; nothing stays open then."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _check_schema(connection)
        return Opened(Store(path, connection), _load(connection, path))
    except BaseException:
        connection.close()
        raise


def _load(connection: sqlite3.Connection, path: Path) -> Memory:
    """Raises sqlite3.Error, InputErrors."""
    row = connection.execute("SELECT body FROM memory").fetchone()
    if row is None:
        return Memory()
    try:
        return load_memory(json.loads(row[0]), source=str(path))
    except ValueError as error:
        raise InputErrors([FlexError(str(error), where=str(path))]) from error


def _check_schema(connection: sqlite3.Connection) -> None:
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        with _transaction(connection):
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    elif version != SCHEMA_VERSION:
        raise sqlite3.DatabaseError(f"schema {version}, this release has {SCHEMA_VERSION}")


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # a full disk has rolled back by itself
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _set_aside(path: Path, now: datetime) -> Path:
    """Rename the file and its log; the name tells when."""
    aside = path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%SZ}")
    with _said(path):
        path.replace(aside)
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
    return aside


def _is_damage(error: sqlite3.OperationalError) -> bool:
    """OperationalError is a busy or full disk as well as a table that isn't there."""
    return "no such table" in str(error) or "malformed" in str(error)


@contextlib.contextmanager
def _said(path: Path) -> Iterator[None]:
    """Errors of the file as MemoryFileError, with the file and what to do."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _no_use(path, error) from error


def _text(operation: Operation) -> str:
    return json.dumps([operation.pool, operation.kind, operation.target, operation.name,
                       operation.scope])  # fmt: skip


def _operation(text: str) -> Operation:
    pool, kind, target, name, scope = json.loads(text)
    return Operation(pool, kind, tuple(target), name, scope)


def _number(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def _time(number: int) -> datetime:
    return _EPOCH + timedelta(microseconds=number)


def _no_use(path: Path, error: Exception) -> MemoryFileError:
    what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    fix = "see to the disk"
    ours = (path.parent, *path.parent.glob(f"{path.name}*"))  # the log of writes has its own file
    if not all(os.access(one, os.W_OK) for one in ours):
        fix = how_to_get(path.parent, user_name(os.geteuid()))
    return MemoryFileError(what, where=str(path), fix=fix)
