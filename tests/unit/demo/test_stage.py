"""What the demo says and how it judges, on a stage whose world is made of paper."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from slurm_flex.demo.cloud_view import Ask, CloudView, Vm, read_cloud
from slurm_flex.demo.commands import SlurmFailed
from slurm_flex.demo.flex_daemon import DaemonFailed
from slurm_flex.demo.stage import Stage, StoryEnds


class PaperSlurm:
    def sinfo(self, *args: str) -> str:
        return "idle~ demo-train-[0-1]\n" if "-h" in args else "PARTITION NODES STATE NODELIST\n"

    def squeue(self, *args: str) -> str:
        return "JOBID NAME ST\n"


class PaperDaemon:
    died = False

    def check(self) -> None:
        if self.died:
            raise DaemonFailed("slurm-flex ended by itself with 1")


class PaperWorld:
    """As much of a world as a stage looks at."""

    def __init__(self) -> None:
        self.slurm = PaperSlurm()
        self.daemon = PaperDaemon()
        ends = datetime.now(timezone.utc) + timedelta(days=6, hours=23, minutes=30)
        self._cloud = CloudView(
            vms={"demo-serve-0": Vm("demo-serve-0", "1234567", "RUNNING", "s0-1", ends)},
            requests={
                "j1-1": Ask("j1-1", "demo-train", "ACCEPTED", ("demo-train-0", "demo-train-1"),
                            last_attempt="ZONE_RESOURCE_POOL_EXHAUSTED")
            },
            seconds=61.4,
        )  # fmt: skip

    def cloud(self) -> CloudView:
        return self._cloud


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def world() -> PaperWorld:
    return PaperWorld()


@pytest.fixture
def stage(world: PaperWorld, out: io.StringIO) -> Stage:
    return Stage(world, time.monotonic(), out)  # type: ignore[arg-type]  # it is made of paper


def test_all_is_well_only_if_every_expectation_held(stage: Stage, out: io.StringIO) -> None:
    assert stage.expect("water is wet", lambda: True, within=0)
    assert stage.verdict()
    assert not stage.expect("pigs fly", lambda: False, within=0, vital=False)
    assert not stage.verdict()
    assert "  ok     water is wet" in out.getvalue()
    assert "  FAILED pigs fly" in out.getvalue()
    assert "1 of 2 expectations failed" in out.getvalue()


def test_the_story_ends_where_something_vital_fails(stage: Stage) -> None:
    with pytest.raises(StoryEnds, match="pigs fly"):
        stage.expect("pigs fly", lambda: False, within=0)


def test_a_slurm_that_does_not_answer_for_a_moment_is_asked_again(stage: Stage) -> None:
    answers: Iterator[SlurmFailed | bool] = iter([SlurmFailed("no answer"), True])

    def holds() -> bool:
        answer = next(answers)
        if isinstance(answer, SlurmFailed):
            raise answer
        return answer

    assert stage.expect("slurmctld comes back", holds, within=5)


def test_a_daemon_that_died_fails_at_once_and_is_named(
    stage: Stage, world: PaperWorld, out: io.StringIO
) -> None:
    world.daemon.died = True
    with pytest.raises(StoryEnds):
        stage.expect("the job runs", lambda: True, within=60)
    assert not stage.verdict()
    assert "slurm-flex ended by itself with 1" in out.getvalue()


def test_what_slurm_prints_stands_beside_what_the_cloud_holds_and_bills(
    stage: Stage, out: io.StringIO
) -> None:
    stage.show()
    left_and_right = [line.split("|") for line in out.getvalue().splitlines() if "|" in line]
    left, right = zip(*left_and_right, strict=True)
    assert (
        "".join(left).split()
        == "$ sinfo PARTITION NODES STATE NODELIST $ squeue JOBID NAME ST".split()
    )
    told = [text.strip() for text in right if text.strip()]
    assert told == [
        "Compute Engine holds",
        "request j1-1 ACCEPTED for demo-train-[0-1], last answer ZONE_RESOURCE_POOL_EXHAUSTED",
        "VM demo-serve-0 RUNNING (id ..34567), ends in 6 d 23 h",
        "bill so far: 61 VM seconds",
    ]


def test_the_login_vm_is_no_part_of_what_is_held_or_billed() -> None:
    instance = {"status": "RUNNING", "request": "", "terminates": None, "id": "1"}
    world = {
        "instances": [
            {**instance, "name": "demo-login-0", "group": "demo-login"},
            {**instance, "name": "demo-train-0", "group": "demo-train"},
        ],
        "requests": [],
        "operations": [
            {"kind": "compute.instanceGroupManagerResizeRequests.insert"},
            {"kind": "compute.instanceGroupManagers.insert"},
        ],
    }
    bills = [
        {"group": "demo-login", "seconds": 500.0},
        {"group": "demo-train", "seconds": 7.0},
    ]
    seen = read_cloud(world, {"seconds": 507.0, "instances": bills})
    assert (list(seen.vms), seen.asked, seen.seconds) == (["demo-train-0"], 1, 7.0)
