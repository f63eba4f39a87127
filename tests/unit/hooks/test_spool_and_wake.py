from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from slurm_flex import spool, wake


def test_records_come_back_oldest_first(tmp_path: Path) -> None:
    for number in range(5):
        spool.put(tmp_path, {"number": number})
    read = spool.read(tmp_path)
    assert [record and record["number"] for _, record in read] == [0, 1, 2, 3, 4]
    spool.remove(file for file, _ in read)
    assert spool.read(tmp_path) == []


def test_an_empty_spool_and_none_at_all_read_the_same(tmp_path: Path) -> None:
    assert spool.read(tmp_path) == []
    assert spool.names(tmp_path / "nowhere") == []


def test_a_file_that_holds_no_record_is_handed_out_as_such(tmp_path: Path) -> None:
    file = spool.put(tmp_path, {})
    file.write_text("[1, 2")
    assert spool.read(tmp_path) == [(file, None)]


def test_a_half_written_record_is_never_seen_and_swept_later(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    torn = tmp_path / "spool" / "000-1-abc.new"
    torn.write_text('{"nodes": "c1')
    assert spool.read(tmp_path) == []
    assert torn.exists()
    os.utime(torn, (time.time() - 7200,) * 2)
    spool.read(tmp_path)
    assert not torn.exists()


def test_what_root_writes_belongs_to_the_owner_of_the_run_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, tuple[int, int]] = {}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "lchown", lambda file, *who: given.update({Path(file).suffix: who}))
    spool.put(tmp_path, {})
    owner = tmp_path.stat()
    assert given == {"": (owner.st_uid, owner.st_gid), ".new": (owner.st_uid, owner.st_gid)}


def test_a_pass_takes_no_more_than_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "MOST_AT_ONCE", 2)
    for number in range(3):
        spool.put(tmp_path, {"number": number})
    assert len(spool.read(tmp_path)) == 2


def test_nobody_listening_is_told_from_a_full_queue(tmp_path: Path) -> None:
    assert not wake.poke(tmp_path)
    with wake.Ear(tmp_path) as ear:
        assert all(wake.poke(tmp_path) for _ in range(2000))
        assert ear.wait(5)
        assert not ear.wait(0)
    assert not wake.poke(tmp_path)
    assert not wake.poke(tmp_path / "nowhere")


def test_a_dead_daemons_socket_is_replaced(tmp_path: Path) -> None:
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stale.bind(str(tmp_path / wake.SOCKET_NAME))
    stale.close()
    assert not wake.poke(tmp_path)
    with wake.Ear(tmp_path) as ear:
        assert wake.poke(tmp_path)
        assert ear.wait(5)


def test_a_run_folder_longer_than_a_socket_address_works(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    with wake.Ear(deep) as ear:
        assert wake.poke(deep)
        assert ear.wait(5)
        assert (deep / wake.SOCKET_NAME).stat().st_mode & 0o777 == 0o600


def test_a_signal_ends_a_wait(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with wake.Ear(tmp_path) as ear:
        ear.mind(signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        started = time.monotonic()
        assert not ear.wait(30)
        assert time.monotonic() - started < 10
        assert ear.heard == {signal.SIGUSR1}
    signal.signal(signal.SIGUSR1, before)
