"""Answers that never arrive, from the emulator to Google's own client to the cycle: nothing is
made twice, and nothing is forgotten."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slurm_flex.cluster.site import Site
from slurm_flex.cycle import Cycle, Outside, Report
from slurm_flex.memory import open_store
from slurm_flex.model import Slurm
from tests.builders import job, node, world
from tests.contract.site import Cloud, cloud, cluster_of, pool, until
from tests.unit.daemon.fakes import FakeSlurm

INSERT = "compute.instanceGroupManagerResizeRequests.insert"
NODES = "c1-gx-[0-1]"


class Stage:
    """A cycle between the emulator and a Slurm that shows what the test says."""

    def __init__(self, here: Cloud, folder: Path) -> None:
        self.here = here
        self.slurm = FakeSlurm()
        self.ahead = timedelta(0)
        """Our clock against the cloud's: time goes by faster here."""
        settings = here.settings.model_copy(
            update={"run_dir": str(folder / "run"), "state_dir": str(folder / "state")}
        )
        site = Site(here.cluster, settings, folder / "c.json", folder / "s.toml")
        self.outside = Outside(site, self.slurm, here.fleet)
        self.folder = folder
        self.cycle = self.start()

    def start(self) -> Cycle:
        """A process begins anew."""
        self.cycle = Cycle(
            self.outside,
            lambda now: open_store(self.folder / "state", now),
            lambda: datetime.now(timezone.utc) + self.ahead,
        )
        return self.cycle

    def show(self, slurm: Slurm) -> None:
        self.slurm.slurm = dataclasses.replace(slurm, partitions=())

    def inserts(self) -> list[str]:
        """Requests that Compute Engine made, by name, each as often as it was made."""
        return [one["name"] for one in self.here.emulator.world()["requests"]]

    def pass_until(self, holds: Callable[[Report], bool]) -> Report:
        return until(self.cycle.run, holds, within=30)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with cloud(cluster_of(pool("gx")), cloud_timeout="2s", observe_deadline="5s") as here:
        here.make_groups()
        stage = Stage(here, tmp_path)
        yield stage
        stage.cycle.close()


def waiting(stage: Stage, number: int) -> Slurm:
    """A job that was given its nodes just now, by the clock of this machine."""
    now = datetime.now(timezone.utc) + stage.ahead
    given = job(number, nodes=NODES, starts=now, submitted=now)
    return world(node(NODES, "alloc#"), given, cluster=stage.here.cluster).slurm


@pytest.mark.parametrize("times", [1, 100])
def test_a_request_whose_answer_is_lost_is_made_once(stage: Stage, times: int) -> None:
    number = 500 + times
    stage.here.emulator.faults.set("reset_after", method="*esizeRequests.insert", times=times)
    stage.show(waiting(stage, number))
    stage.cycle.run()
    stage.here.emulator.faults.clear()
    stage.ahead = timedelta(minutes=10)
    stage.cycle.close()
    stage.start()
    stage.pass_until(lambda report: _vms(stage) == 2 and report.is_healthy)
    assert stage.inserts().count(f"j{number}-1") == 1
    assert f"j{number}-2" not in stage.inserts()


def test_a_request_that_never_arrived_is_sent_again_under_its_name(stage: Stage) -> None:
    stage.here.emulator.faults.set("reset_before", method="*esizeRequests.insert")
    stage.show(waiting(stage, 61))
    assert not stage.cycle.run().is_healthy
    stage.here.emulator.faults.clear()
    stage.ahead = timedelta(minutes=10)
    stage.pass_until(lambda report: _vms(stage) == 2 and report.is_healthy)
    assert stage.inserts().count("j61-1") == 1
    assert "j61-2" not in stage.inserts()


def test_deletions_whose_answers_are_lost_delete_each_vm_once_and_the_next_one_too(
    stage: Stage,
) -> None:
    """The same names twice within Google's memory of a requestId."""
    for number in (71, 72):
        stage.show(waiting(stage, number))
        stage.pass_until(lambda _: _vms(stage) == 2)
        stage.here.emulator.faults.set("reset_after", method="*eleteInstances", times=1)
        stage.show(world(node(NODES, "idle%"), cluster=stage.here.cluster).slurm)
        stage.pass_until(lambda _: _vms(stage) == 0)
        stage.here.emulator.faults.clear()


def test_operations_that_cannot_be_looked_up_block_nothing(stage: Stage) -> None:
    stage.here.emulator.faults.set("lost_operations")
    stage.show(waiting(stage, 81))
    stage.pass_until(lambda report: _vms(stage) == 2 and report.on_the_way == 0)
    assert stage.inserts().count("j81-1") == 1


def test_an_api_that_is_away_for_a_while_loses_and_doubles_nothing(stage: Stage) -> None:
    stage.show(waiting(stage, 91))
    stage.pass_until(lambda _: _vms(stage) == 2)
    stage.here.emulator.faults.set("unavailable")
    stage.show(world(node(NODES, "idle%"), cluster=stage.here.cluster).slurm)
    report = stage.cycle.run()
    assert not report.snapshot.cloud["gx"].complete
    assert report.did == {}
    stage.here.emulator.faults.clear()
    stage.pass_until(lambda _: _vms(stage) == 0)


def _vms(stage: Stage) -> int:
    return sum(one.is_running for one in stage.here.read("gx").instances)
