"""The loop: woken, paced, told to reload and to end, all over fakes and one real process."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slurm_flex import status_file
from slurm_flex.acting import SomebodyActs, check_user, take_lock
from slurm_flex.cluster.settings import parse_settings
from slurm_flex.compute.fleet import Verdict
from slurm_flex.cycle import Outside, Report
from slurm_flex.daemon import Daemon, told_to_end
from slurm_flex.errors import FlexError
from slurm_flex.folders import user_name
from slurm_flex.metrics import Metrics
from slurm_flex.publish import Publisher
from slurm_flex.reconcile import passes
from slurm_flex.sdnotify import Notifier
from slurm_flex.slurm.errors import SlurmctldUnreachable
from slurm_flex.wake import Ear, poke
from tests.builders import NOON, instance, node, world
from tests.unit.daemon.fakes import FakeFleet, FakeSlurm
from tests.unit.daemon.test_cycle import WAITING, Stage


class Loop:
    """A daemon in this thread. `after[n]` is what happens once pass n is over; the last ends it."""

    def __init__(self, stage: Stage, *after: Callable[[], object]) -> None:
        self.stage = stage
        self.after = list(after)
        self.waits: list[float] = []
        self.statuses: list[dict[str, Any]] = []
        self.reload: Callable[[], Outside] = lambda: stage.start().outside
        self.metrics = Metrics()

    def run(self) -> None:
        run_dir = self.stage.folder / "run"
        run_dir.mkdir(exist_ok=True)
        cycle = self.stage.start()
        handlers = {number: signal.getsignal(number) for number in (15, 2, 1)}
        with Ear(run_dir) as ear:
            real_wait = ear.wait

            def wait(seconds: float) -> bool:
                self.waits.append(seconds)
                self.statuses.append(status_file.read(run_dir))
                self.stage.now += timedelta(seconds=seconds)
                if not self.after:
                    os.kill(os.getpid(), signal.SIGTERM)
                else:
                    self.after.pop(0)()
                return real_wait(0)

            ear.wait = wait  # type: ignore[method-assign]  # the clock of this play
            cycle._told_to_end = lambda: told_to_end(ear)
            publisher = Publisher(NOON, self.metrics)
            try:
                Daemon(cycle, ear, publisher, Notifier(os.environ), self.reload).run()
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, FakeSlurm(), FakeFleet())
    stage.show(world())
    yield stage
    if stage.cycle is not None:
        stage.cycle.close()


def test_it_looks_every_30_seconds_and_every_5_while_something_is_on_its_way(stage: Stage) -> None:
    loop = Loop(stage, lambda: stage.show(world(*WAITING)), lambda: stage.show(world()))
    stage.fleet.at_once = {}
    loop.run()
    assert loop.waits[:2] == [30, 5]


def test_the_heartbeat_stands_still_while_something_fails(stage: Stage) -> None:
    def break_slurm() -> None:
        stage.slurm.failing["read"] = SlurmctldUnreachable("connection refused")

    loop = Loop(stage, lambda: None, break_slurm, lambda: None, stage.slurm.failing.clear)
    loop.run()
    beats = [status["daemon"]["heartbeat"] for status in loop.statuses]
    times = [status["time"] for status in loop.statuses]
    assert beats[0] == times[0]
    assert beats[1] == times[1]
    assert beats[2] == beats[3] == times[1]
    assert beats[4] == times[4]
    assert "connection refused" in loop.statuses[2]["daemon"]["errors"][0]


def test_sigterm_ends_it(stage: Stage) -> None:
    Loop(stage).run()
    assert not (stage.folder / "run" / "wake.sock").exists()


def test_sighup_takes_new_files_and_keeps_the_old_ones_if_they_are_bad(stage: Stage) -> None:
    """Scenario 67."""
    tries: list[str] = []

    def reload() -> Outside:
        assert stage.cycle is not None
        tries.append("tried")
        if len(tries) < 3:
            raise FlexError("interval: 'soon' is not a duration", where="slurm-flex.toml:3")
        outside = stage.cycle.outside
        settings = outside.site.settings.model_copy(update={"interval": timedelta(seconds=77)})
        return dataclasses.replace(
            outside, site=dataclasses.replace(outside.site, settings=settings)
        )

    def hup() -> None:
        os.kill(os.getpid(), signal.SIGHUP)

    loop = Loop(stage, hup, hup, hup, lambda: None)
    loop.reload = reload
    loop.run()
    assert loop.waits == [30, 30, 30, 77, 77]
    said = [status["daemon"]["errors"] for status in loop.statuses]
    assert said[0] == said[3] == []
    assert "is not a duration" in said[1][0]


def test_folders_that_change_while_it_runs_take_effect_at_the_next_start(stage: Stage) -> None:
    def reload() -> Outside:
        assert stage.cycle is not None
        outside = stage.cycle.outside
        moved = {"run_dir": "/elsewhere", "interval": timedelta(seconds=77)}
        settings = outside.site.settings.model_copy(update=moved)
        return dataclasses.replace(
            outside, site=dataclasses.replace(outside.site, settings=settings)
        )

    loop = Loop(stage, lambda: os.kill(os.getpid(), signal.SIGHUP), lambda: None)
    loop.reload = reload
    loop.run()
    assert loop.waits == [30, 77, 77]
    assert stage.cycle is not None
    assert stage.cycle.outside.site.settings.run_dir == str(stage.folder / "run")


def test_a_hook_wakes_it_at_once(stage: Stage) -> None:
    run_dir = stage.folder / "run"
    run_dir.mkdir()
    seen: list[int] = []

    def prod() -> None:
        seen.append(stage.slurm.reads)
        assert poke(run_dir)

    loop = Loop(stage, prod)
    loop.run()
    assert stage.slurm.reads == 2


def test_systemd_is_told_that_it_is_ready_alive_and_ending(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ear.bind(str(tmp_path / "notify"))
    ear.setblocking(False)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    Loop(stage).run()
    heard = [ear.recv(1000).decode() for _ in range(3)]
    ear.close()
    assert heard[0] == "READY=1"
    assert heard[1].startswith("WATCHDOG=1\nSTATUS=")
    assert heard[2] == "STOPPING=1"


def test_numbers_tell_phases_requests_and_actions(stage: Stage) -> None:
    stage.show(world(*WAITING, node("c1-gx-5", "idle%"), instance("c1-gx-5")))
    loop = Loop(stage)
    loop.run()
    read = loop.metrics.registry.get_sample_value
    assert read("slurm_flex_nodes", {"pool": "gx", "phase": "queued"}) == 2
    assert read("slurm_flex_vms", {"pool": "gx"}) == 1
    done = {"kind": "request", "outcome": "ok"}
    assert read("slurm_flex_actions_total", done) == 1
    assert read("slurm_flex_pass_seconds_count") == 1


def test_only_one_acts(tmp_path: Path) -> None:
    with take_lock(tmp_path):
        with pytest.raises(SomebodyActs, match=f"pid {os.getpid()}"):
            take_lock(tmp_path)
        waited: list[float] = []
        with pytest.raises(SomebodyActs):
            take_lock(tmp_path, patience=timedelta(seconds=1), sleep=waited.append)
        assert sum(waited) == pytest.approx(1)
    take_lock(tmp_path).release()


class Sleeper:
    """What happens while a one-shot sleeps; at the end of `turns` a daemon starts."""

    def __init__(self, stage: Stage, *turns: Callable[[], object]) -> None:
        self.pauses: list[float] = []
        self._stage = stage
        self._turns = list(turns)
        self._daemon = ExitStack()

    def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._stage.now += timedelta(seconds=seconds)
        if self._turns:
            self._turns.pop(0)()
        else:
            run_dir = self._stage.folder / "run"
            self._daemon.enter_context(take_lock(run_dir))
            self._daemon.enter_context(Ear(run_dir))

    def reconcile(self) -> Report | None:
        settings = self._stage.start().outside.site.settings
        opening, patience = self._stage.start, timedelta(0)
        with self._daemon:
            return passes(settings, opening, Publisher(NOON), self, once=False, patience=patience)


def test_a_one_shot_lets_a_daemon_take_over_between_two_passes(stage: Stage) -> None:
    stage.show(world(*WAITING))
    sleeper = Sleeper(stage, lambda: None)
    assert sleeper.reconcile() is None
    assert sleeper.pauses == [5, 5]
    assert len(stage.sent("request")) == 1


def test_a_one_shot_beside_a_daemon_wakes_it_and_opens_nothing(stage: Stage) -> None:
    settings = stage.start().outside.site.settings
    run_dir = stage.folder / "run"
    publisher = Publisher(NOON)

    def unwanted(*_: object) -> Any:
        raise AssertionError

    with take_lock(run_dir), Ear(run_dir) as ear:
        never = timedelta(0)
        assert passes(settings, unwanted, publisher, unwanted, once=True, patience=never) is None
        assert ear.wait(0)


def test_a_one_shot_ends_when_nothing_is_left_to_do(stage: Stage) -> None:
    stage.fleet.at_once = {"delete_instances": Verdict.DONE}
    stage.show(world(node("c1-gx-5", "idle%"), instance("c1-gx-5")))
    assert Sleeper(stage, lambda: stage.show(world())).reconcile() is not None


def test_a_one_shot_knows_what_another_one_did_between_its_passes(stage: Stage) -> None:
    stage.show(world(node("c1-gx-5", "idle%"), instance("c1-gx-5")))

    def another_one() -> None:
        stage.show(world(*WAITING))
        Sleeper(stage).reconcile()

    assert Sleeper(stage, another_one, lambda: None).reconcile() is None
    assert len(stage.sent("request")) == 1


def test_acting_as_the_wrong_user_is_refused_with_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/cluster/test_owners.py plays it with real users."""
    me = user_name(os.geteuid())
    (tmp_path / "slurm.conf").write_text(f"slurmuser={me}\n")
    folders = {name: str(tmp_path / name) for name in ("state_dir", "run_dir")}
    settings = parse_settings({**folders, "slurm_conf": str(tmp_path / "slurm.conf")})
    check_user(settings, {})
    for folder in folders.values():
        Path(folder).mkdir()
    check_user(settings, {})
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(FlexError, match=f"and this runs as 4711 .*: sudo -u {me} slurm-flex"):
        check_user(settings, {})
    (tmp_path / "slurm.conf").write_text("SlurmUser=4711\n")
    with pytest.raises(FlexError, match=f"as root: chown -R 4711: {folders['state_dir']}"):
        check_user(settings, {})


def test_whose_the_folders_are_tells_whom_to_act_as_where_slurm_conf_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = parse_settings({"state_dir": str(tmp_path), "slurm_conf": str(tmp_path / "none")})
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(FlexError, match="sudo -u"):
        check_user(settings, {})


EXAMPLE = Path(__file__).resolve().parents[3] / "etc" / "cluster_config.json"


def write_files(folder: Path) -> Path:
    """Both files of a site where nothing is there: no Slurm, no cloud. The settings' path."""
    settings = folder / "slurm-flex.toml"
    settings.write_text(
        f'run_dir = "{folder}/run"\nstate_dir = "{folder}/state"\n'
        f'slurm_bin_dir = "{folder}/nowhere"\ncredentials = "anonymous"\n'
        'endpoint = "http://127.0.0.1:9"\nobserve_deadline = "1s"\ncloud_timeout = "1s"\n'
    )
    (folder / "cluster_config.json").write_bytes(EXAMPLE.read_bytes())
    return settings


def test_the_real_program_runs_without_slurm_or_cloud_says_so_and_ends_at_sigterm(
    tmp_path: Path,
) -> None:
    """A process of its own; nothing it needs is there, and it goes on trying."""
    settings = write_files(tmp_path)
    program = str(Path(sys.executable).parent / "slurm-flex")
    env = {**os.environ, "SLURM_FLEX_CONFIG": str(settings)}
    with (tmp_path / "log").open("w") as log:
        daemon = subprocess.Popen([program, "run"], env=env, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "run" / "status.json").exists():
            assert daemon.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < until, (tmp_path / "log").read_text()
            time.sleep(0.05)
        shown = subprocess.run(
            [program, "status", "--json"], env=env, capture_output=True, text=True, check=False
        )
        status = json.loads(shown.stdout)
        assert status["daemon"]["heartbeat"] is None
        assert "scontrol is not in" in " ".join(status["daemon"]["errors"])
        second = subprocess.run(
            [program, "run"], env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert second.returncode == 1
        assert f"pid {daemon.pid}" in second.stderr
        woken = subprocess.run(
            [program, "reconcile", "--once"], env=env, capture_output=True, text=True, check=False
        )
        assert woken.returncode == 0
        assert "it was woken" in woken.stderr
    finally:
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(30) == 0
    said = (tmp_path / "log").read_text()
    assert "Traceback" not in said
    assert "ended" in said


def test_a_daemon_that_starts_in_the_pass_of_a_one_shot_waits_for_it(tmp_path: Path) -> None:
    settings = write_files(tmp_path)
    program = [str(Path(sys.executable).parent / "slurm-flex"), "run"]
    env = {**os.environ, "SLURM_FLEX_CONFIG": str(settings)}
    lock = take_lock(tmp_path / "run")
    with subprocess.Popen(program, env=env, stderr=subprocess.PIPE, text=True) as daemon:
        assert daemon.stderr is not None
        assert f"waits for the pass of another one (pid {os.getpid()})" in daemon.stderr.readline()
        lock.release()
        for line in daemon.stderr:
            if "event=ready" in line:
                break
        daemon.send_signal(signal.SIGTERM)
        daemon.stderr.read()
    assert daemon.returncode == 0


def test_a_one_shot_says_what_is_wrong_and_ends_with_1(tmp_path: Path) -> None:
    settings = write_files(tmp_path)
    done = subprocess.run(
        [str(Path(sys.executable).parent / "slurm-flex"), "reconcile", "--once", "--json"],
        env={**os.environ, "SLURM_FLEX_CONFIG": str(settings)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "scontrol is not in" in done.stderr
    assert json.loads(done.stdout)["actions"] == []
