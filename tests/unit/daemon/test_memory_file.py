from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slurm_flex.compute.fleet import Operation
from slurm_flex.memory import (
    FILE_NAME,
    Entry,
    MemoryFileError,
    Pending,
    Store,
    open_journal,
    open_store,
)
from slurm_flex.model import Memory
from slurm_flex.model.memory import Answer, KnownInstance, Sighting

NOW = datetime(2026, 12, 1, 12, tzinfo=timezone.utc)
MEMORY = Memory(
    sightings={"gone/gx/c1-gx-0": Sighting(NOW, 2)},
    instances={"c1-gx-0": KnownInstance("123", NOW, NOW + timedelta(days=7), "j51-1")},
    answers=(Answer("gx", "j51-1", ("c1-gx-0",), "QUOTA_EXCEEDED", "no more", NOW),),
)


def store(folder: Path) -> Store:
    return open_store(folder, NOW).store


def test_what_was_saved_is_there_after_reopening(tmp_path: Path) -> None:
    first = open_store(tmp_path, NOW)
    assert first.memory == Memory()
    assert first.complaint == ""
    first.store.save(Memory())
    first.store.save(MEMORY)
    first.store.close()
    assert open_store(tmp_path, NOW).memory == MEMORY


def test_what_was_saved_survives_a_kill_right_after(tmp_path: Path) -> None:
    """The process dies without closing anything, as with kill -9."""
    saving = (
        "import os, signal, sys; from pathlib import Path; from datetime import *\n"
        "from slurm_flex.memory import open_store; from slurm_flex.model import Memory\n"
        "store = open_store(Path(sys.argv[1]), datetime.now(timezone.utc)).store\n"
        "store.save(Memory(attempts={'gx/j51': 3}))\n"
        "print(store.nonces(['gx/j51-4'], datetime.now(timezone.utc))['gx/j51-4'], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", saving, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    opened = open_store(tmp_path, NOW)
    assert opened.memory.attempts == {"gx/j51": 3}
    assert opened.complaint == ""
    again = opened.store.nonces(["gx/j51-4"], datetime.now(timezone.utc))
    assert again == {"gx/j51-4": done.stdout.strip()}


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.save(MEMORY)
    files = list(tmp_path.iterdir())
    assert {file.name for file in files} >= {FILE_NAME, FILE_NAME + "-wal"}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


@pytest.mark.parametrize("damage", ["garbage", "torn", "another schema", "another body"])
def test_a_damaged_file_is_set_aside_and_an_empty_one_begun(tmp_path: Path, damage: str) -> None:
    kept = store(tmp_path)
    kept.save(MEMORY)
    kept.close()
    file = tmp_path / FILE_NAME
    if damage == "garbage":
        file.write_bytes(b"not a database, whatever it was before" * 100)
    elif damage == "torn":
        whole = file.read_bytes()
        file.write_bytes(whole[:4096] + b"\xff" * 4096 + whole[8192:])
    else:
        with sqlite3.connect(file) as db:
            if damage == "another schema":
                db.execute("PRAGMA user_version = 77")
            else:
                db.execute("""UPDATE memory SET body = '{"sightings": 3}'""")
        db.close()
    opened = open_store(tmp_path, NOW)
    assert opened.memory == Memory()
    assert "can't be used" in opened.complaint
    assert "memory.sqlite.damaged-20261201T120000Z" in opened.complaint
    assert (tmp_path / "memory.sqlite.damaged-20261201T120000Z").exists()
    opened.store.save(MEMORY)
    opened.store.close()
    assert open_store(tmp_path, NOW).memory == MEMORY


def test_a_folder_that_cannot_be_made_is_said_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MemoryFileError, match="file/state"):
        open_store(tmp_path / "file" / "state", NOW)


def test_a_full_disk_is_an_error_that_leaves_the_old_memory_whole(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.save(MEMORY)
    kept._db.execute("PRAGMA max_page_count = 1")  # what SQLite calls a full disk
    big = Memory(attempts={f"gx/j{n}": 1 for n in range(20_000)})
    with pytest.raises(MemoryFileError, match="full"):
        kept.save(big)
    assert kept.load() == MEMORY


def test_a_nonce_stays_the_same_until_the_call_is_over(tmp_path: Path) -> None:
    kept = store(tmp_path)
    first = kept.nonces(["gx/j51-1", "gx/j52-1"], NOW)
    assert len(set(first.values())) == 2
    assert kept.nonces(["gx/j51-1"], NOW + timedelta(hours=1)) == {"gx/j51-1": first["gx/j51-1"]}
    kept.forget_nonces(["gx/j51-1"])
    assert kept.nonces(["gx/j51-1"], NOW)["gx/j51-1"] != first["gx/j51-1"]


def test_a_nonce_does_not_stay_for_ever(tmp_path: Path) -> None:
    kept = store(tmp_path)
    first = kept.nonces(["gx/j51-1"], NOW)
    assert kept.nonces(["gx/j51-1"], NOW + timedelta(days=3)) != first


def test_operations_on_their_way_are_kept_until_they_are_over(tmp_path: Path) -> None:
    kept = store(tmp_path)
    request = Operation("gx", "request", ("j51-1",), "operation-1", "us-central1-b")
    deletion = Operation("gx", "delete_instances", ("c1-gx-2",), "operation-2", "us-central1-b")
    first = Pending(request, ("c1-gx-0", "c1-gx-1"), NOW, "gx/j51-1")
    second = Pending(deletion, ("c1-gx-2",), NOW + timedelta(seconds=0.5))
    nonce = kept.nonces(["gx/j51-1"], NOW)
    kept.keep_pending([second, first])
    assert kept.pending() == (first, second)
    kept.close()
    kept = store(tmp_path)
    kept.save(MEMORY, over=[first])
    assert kept.load() == MEMORY
    assert kept.pending() == (second,)
    assert kept.nonces(["gx/j51-1"], NOW) != nonce


def test_the_journal_is_read_by_time_number_and_length(tmp_path: Path) -> None:
    kept = store(tmp_path)
    entries = [
        Entry(NOW + timedelta(seconds=n / 2), "expired", f"line {n}", ("c1-gx-0",), 51, "gx")
        for n in range(6)
    ]
    kept.write_events(entries[:3])
    kept.write_events(entries[3:])
    texts = [entry.text for entry in kept.events()]
    assert texts == [f"line {n}" for n in range(6)]
    assert [entry.id for entry in kept.events(last=2)] == [5, 6]
    assert [entry.id for entry in kept.events(after=4)] == [5, 6]
    since = NOW + timedelta(seconds=2)
    assert [entry.text for entry in kept.events(since=since)] == ["line 4", "line 5"]
    assert kept.events(last=1)[0].at == entries[5].at


def test_the_journal_does_not_grow_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_flex.memory.KEPT_EVENTS", 3)
    kept = store(tmp_path)
    kept.write_events([Entry(NOW, "lost", str(n)) for n in range(10)])
    assert [entry.text for entry in kept.events()] == ["7", "8", "9"]


def test_the_journal_is_read_while_the_daemon_writes(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.write_events([Entry(NOW, "lost", "one")])
    seen: list[int] = []

    def read() -> None:
        reader = open_journal(tmp_path)
        seen.append(len(reader.events()))
        reader.close()

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
        kept.write_events([Entry(NOW, "lost", "more")])
    for reader in readers:
        reader.join()
    assert all(count >= 1 for count in seen)
    assert len(seen) == 4


def test_no_journal_yet_is_said(tmp_path: Path) -> None:
    with pytest.raises(MemoryFileError, match=r"memory\.sqlite"):
        open_journal(tmp_path)
