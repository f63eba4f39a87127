"""One pass after another over a fake Slurm and a fake cloud, with the real plan in between."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from slurm_flex import spool
from slurm_flex.cluster.site import Site
from slurm_flex.compute.errors import PermissionDenied, QuotaExceeded, Unreachable
from slurm_flex.compute.fleet import Verdict
from slurm_flex.cycle import Cycle, Outside, Report
from slurm_flex.memory import open_store
from slurm_flex.model import CloudError, Memory, Snapshot
from slurm_flex.model.memory import Breaker
from slurm_flex.slurm.errors import SlurmctldUnreachable
from tests.builders import NOON, instance, job, make_cluster, no_group, node, pool, request, world
from tests.unit.daemon.fakes import FakeFleet, FakeSlurm

WAITING = (node("c1-gx-[0-1]", "alloc#"), job(51, nodes="c1-gx-[0-1]"))


@dataclass
class Stage:
    """Where a play takes place: what Slurm and the cloud show is set between passes."""

    folder: Path
    slurm: FakeSlurm
    fleet: FakeFleet
    now: datetime = NOON
    cycle: Cycle | None = None
    ended: bool = False

    def show(self, snapshot: Snapshot) -> None:
        self.slurm.slurm = snapshot.slurm
        self.fleet.groups = dict(snapshot.cloud)

    def start(self) -> Cycle:
        """A process begins: nothing but the file is left of the one before."""
        snapshot = world()
        settings = snapshot.settings.model_copy(
            update={
                "run_dir": str(self.folder / "run"),
                "state_dir": str(self.folder / "state"),
                "observe_deadline": timedelta(seconds=2),
            }
        )
        site = Site(
            make_cluster(pool("gx")), settings, self.folder / "c.json", self.folder / "s.toml"
        )
        self.cycle = Cycle(
            Outside(site, self.slurm, self.fleet),
            lambda now: open_store(self.folder / "state", now),
            lambda: self.now,
            lambda: self.ended,
        )
        return self.cycle

    def run(self, after: timedelta = timedelta(seconds=5)) -> Report:
        cycle = self.cycle or self.start()
        self.now += after
        return cycle.run()

    def sent(self, kind: str) -> list[tuple[object, ...]]:
        return [call for call in self.fleet.calls if call[0] == kind]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, FakeSlurm(), FakeFleet())
    stage.show(world())
    yield stage
    if stage.cycle is not None:
        stage.cycle.close()


def test_a_waiting_job_is_asked_for_once(stage: Stage) -> None:
    stage.show(world(*WAITING))
    report = stage.run()
    assert report.is_healthy
    assert stage.sent("request") == [("request", "gx", "j51-1", ("c1-gx-0", "c1-gx-1"))]
    for _ in range(3):
        assert stage.run().is_healthy
    assert len(stage.sent("request")) == 1


def test_a_quiet_world_costs_one_read_a_side_and_nothing_is_sent(stage: Stage) -> None:
    report = stage.run()
    assert report.did == {}
    assert stage.slurm.reads == 1
    assert stage.fleet.calls == []
    assert stage.slurm.calls == []


def test_the_plans_memory_is_on_the_disk_before_anything_is_sent(stage: Stage) -> None:
    """Killed right after the call and before its answer, the next process knows of it."""
    stage.show(world(*WAITING))
    kept: list[Memory] = []

    class Peeking(FakeFleet):
        def _answer(self, *arguments: object) -> object:  # type: ignore[override]
            opened = open_store(stage.folder / "state", NOON)
            kept.append(opened.memory)
            opened.store.close()
            return super()._answer(*arguments)  # type: ignore[arg-type]

    stage.fleet = Peeking(groups=stage.fleet.groups)
    stage.run()
    assert set(kept[0].sent) == {"gx/j51-1"}


def test_after_a_crash_the_same_request_is_sent_again_as_the_same_call(stage: Stage) -> None:
    stage.show(world(*WAITING))
    lost = Unreachable(CloudError("unreachable", "connection reset"))
    stage.fleet.failing["request"] = lost
    assert not stage.run().is_healthy
    del stage.fleet.failing["request"]
    stage.start()
    for _ in range(40):
        stage.run()
    assert [call[2] for call in stage.sent("request")] == ["j51-1"] * len(stage.sent("request"))
    assert len(stage.sent("request")) >= 2
    assert len({nonce for nonce in stage.fleet.nonces if nonce}) == 1


def test_an_operation_that_fails_gives_the_nodes_back_with_the_reason(stage: Stage) -> None:
    stage.show(world(*WAITING))
    assert stage.run().on_the_way == 1
    quota = CloudError("QUOTA_EXCEEDED", "Quota 'GPUS' exceeded.")
    stage.fleet.verdicts["operation-1"] = (Verdict.FAILED, quota)
    report = stage.run()
    assert not report.is_healthy
    released = [call for call in stage.slurm.calls if call[0] == "node_power_down"]
    assert released
    assert "QUOTA_EXCEEDED" in str(released)
    assert report.on_the_way == 0


def test_a_refusal_is_judged_by_the_next_plan(stage: Stage) -> None:
    stage.show(world(*WAITING))
    stage.fleet.failing["request"] = PermissionDenied(CloudError("forbidden", "no role"))
    assert len(stage.run().memory.answers) == 1
    report = stage.run()
    assert report.memory.answers == ()
    assert "gx" in report.memory.breakers
    assert [call for call in stage.slurm.calls if call[0] == "node_power_down"]


def test_slurmctld_down_means_no_decision_no_request_and_no_deletion(stage: Stage) -> None:
    stage.show(world(*WAITING, instance("c1-gx-7")))
    stage.slurm.failing["read"] = SlurmctldUnreachable("connection refused")
    report = stage.run()
    assert not report.is_healthy
    assert not report.snapshot.slurm.responding
    assert stage.fleet.calls == []
    assert "connection refused" in report.errors[0]


def test_the_api_down_decides_nothing_for_that_pool(stage: Stage) -> None:
    up = node("c1-gx-[0-3]", "idle")
    stage.show(world(up, instance("c1-gx-[0-3]")))
    stage.run()
    stage.slurm.calls.clear()
    stage.fleet.read_errors["gx"] = Unreachable(CloudError("timeout", "no answer"))
    for _ in range(5):
        report = stage.run(timedelta(minutes=1))
        assert not report.is_healthy
        assert report.did == {}
    assert stage.slurm.calls == []


def test_a_slurmctld_that_hangs_is_left_behind_at_the_deadline(stage: Stage) -> None:
    release = threading.Event()
    stage.slurm.read_hook = lambda: bool(release.wait(30)) and None
    try:
        report = stage.run()
    finally:
        release.set()
    assert not report.snapshot.slurm.responding
    assert "no answer within 2s" in report.errors[0]


def test_told_to_end_it_waits_for_no_answer(stage: Stage) -> None:
    release = threading.Event()

    def hang() -> None:
        stage.ended = True
        release.wait(30)

    stage.slurm.read_hook = hang
    started = time.monotonic()
    try:
        report = stage.run()
    finally:
        release.set()
    assert time.monotonic() - started < 1.5
    assert report.did == {}


def test_one_failing_action_stops_no_other(stage: Stage) -> None:
    stage.show(
        world(
            *WAITING,
            node("c1-gx-5", "idle%"),
            instance("c1-gx-5"),
            request("j40-1", "c1-gx-7", "FAILED", created="-2h"),
        )
    )
    stage.fleet.failing["delete_instances"] = Unreachable(CloudError("timeout", ""))
    report = stage.run()
    assert not report.is_healthy
    assert len(stage.sent("request")) == 1
    assert len(stage.sent("delete_instances")) == 1


def test_hooks_are_heard_unknown_nodes_named_and_the_spool_emptied(stage: Stage) -> None:
    run_dir = stage.folder / "run"
    spool.put(run_dir, {"program": "resume", "nodes": "c1-gx-[0-1],elsewhere-7", "jobs": {}})
    spool.put(run_dir, {"program": "suspend", "nodes": "c1-gx-[9-"})
    (spool.put(run_dir, {})).write_text("garbage")
    stage.show(world(*WAITING))
    report = stage.run()
    assert [call.program for call in report.calls] == ["resume", "suspend", "unknown"]
    texts = [event.text for event in report.events if event.kind == "unknown_nodes"]
    assert any("elsewhere-7" in text for text in texts)
    assert len(stage.sent("request")) == 1
    assert spool.read(run_dir) == []


def test_unpause_closes_the_breaker(stage: Stage) -> None:
    week = timedelta(days=7)
    breaker = Breaker("config", "no such machine type", NOON, NOON + week, week)
    store = open_store(stage.folder / "state", NOON).store
    store.save(Memory(breakers={"gx": breaker}))
    store.close()
    stage.show(world(*WAITING))
    stage.run()
    assert stage.sent("request") == []
    spool.put(stage.folder / "run", {"program": "unpause", "pool": "gx"})
    stage.run()
    assert len(stage.sent("request")) == 1


def test_a_paused_pool_is_asked_for_nothing(stage: Stage) -> None:
    (stage.folder / "paused").mkdir()
    (stage.folder / "paused" / "gx").write_text("")
    stage.show(world(*WAITING))
    assert stage.run().is_healthy
    assert stage.sent("request") == []


def test_pauses_that_cannot_be_read_pause_everything(stage: Stage) -> None:
    (stage.folder / "paused").write_text("a file where the folder should be")
    stage.show(world(*WAITING))
    assert not stage.run().is_healthy
    assert stage.sent("request") == []


def test_a_disk_that_is_full_stops_requests_and_nothing_else(stage: Stage) -> None:
    cycle = stage.start()
    cycle._store._db.execute("PRAGMA query_only = 1")
    cycle._open_memory = lambda now: (_ for _ in ()).throw(full())
    stage.show(world(*WAITING, node("c1-gx-5", "idle%"), instance("c1-gx-5")))
    report = stage.run()
    assert stage.sent("request") == []
    assert len(stage.sent("delete_instances")) == 1
    assert not report.is_healthy


def full() -> Exception:
    from slurm_flex.memory import MemoryFileError

    return MemoryFileError("database or disk is full")


def test_a_memory_file_damaged_meanwhile_is_replaced_and_nothing_forgotten(stage: Stage) -> None:
    stage.show(world(*WAITING))
    stage.run()
    assert stage.cycle is not None
    stage.cycle._store._db.close()
    (stage.folder / "state" / "memory.sqlite").write_bytes(b"garbage" * 1000)
    for suffix in ("-wal", "-shm"):
        (stage.folder / "state" / f"memory.sqlite{suffix}").unlink(missing_ok=True)
    assert not stage.run().is_healthy
    report = stage.run()
    assert any("was renamed to" in error for error in report.errors)
    assert stage.run().is_healthy
    assert len(stage.sent("request")) == 1
    stage.start()
    stage.run()
    assert len(stage.sent("request")) == 1


def test_a_missing_group_is_made_for_the_first_job(stage: Stage) -> None:
    stage.show(world(*WAITING, no_group("gx")))
    stage.run()
    stage.run()
    assert len(stage.sent("create_group")) == 1
    stage.fleet.verdicts["operation-1"] = (Verdict.DONE, None)
    stage.run()
    assert len(stage.sent("create_group")) == 2  # the next step
    stage.show(world(*WAITING))
    stage.run()
    assert len(stage.sent("request")) == 1


def test_errors_are_in_the_journal_once_while_they_last(stage: Stage) -> None:
    stage.slurm.failing["read"] = SlurmctldUnreachable("connection refused")
    for _ in range(4):
        report = stage.run()
    assert [event.kind for event in report.events] == ["error"]
    del stage.slurm.failing["read"]
    stage.run()
    stage.slurm.failing["read"] = SlurmctldUnreachable("connection refused")
    assert [event.kind for event in stage.run().events] == ["error", "error"]


def test_told_to_end_a_pass_stops_between_stages_and_the_next_does_the_rest(stage: Stage) -> None:
    stage.show(world(*WAITING, node("c1-gx-5", "idle%"), instance("c1-gx-5")))
    stage.start()
    stage.ended = True
    report = stage.run()
    assert stage.fleet.calls == []
    assert report.errors == ("told to end before all was done; the next pass does the rest",)
    assert [event for event in report.events if event.kind == "error"] == []
    stage.ended = False
    stage.start()
    for _ in range(60):
        stage.run()
    assert stage.sent("delete_instances")
    assert len({call[2] for call in stage.sent("request")}) == 1


def test_a_backup_controller_only_looks(stage: Stage) -> None:
    snapshot = world(*WAITING)
    stage.show(snapshot)
    stage.slurm.slurm = dataclasses.replace(snapshot.slurm, primary=False)
    report = stage.run()
    assert report.did == {}
    assert stage.fleet.calls == []


def test_a_quota_answer_at_once_counts_once(stage: Stage) -> None:
    stage.show(world(*WAITING))
    stage.fleet.failing["request"] = QuotaExceeded(CloudError("QUOTA_EXCEEDED", "no more"))
    stage.run()
    for _ in range(3):
        report = stage.run()
    assert report.memory.answers == ()
    assert len(stage.sent("request")) == 1
