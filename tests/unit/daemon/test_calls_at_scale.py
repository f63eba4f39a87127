"""How many calls a large step costs: the whole of a pass, plan and apply, is counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from slurm_flex.cluster import Pool
from slurm_flex.cluster.site import Site
from slurm_flex.compute.fleet import Operation
from slurm_flex.cycle import Cycle, Outside, Report
from slurm_flex.memory import open_store
from slurm_flex.model import Reservation, Snapshot
from tests.builders import (
    NOON,
    Thing,
    instance,
    job,
    node,
    pool,
    request,
    world,
)
from tests.unit.daemon.fakes import FakeFleet, FakeSlurm, counted

BIG = pool("gx", size=1000)


@dataclass
class Counting(FakeFleet):
    """Notes what Slurm had been told by the time each request was sent."""

    slurm: FakeSlurm | None = None
    told_before: list[int] = field(default_factory=list)

    def request(
        self,
        pool: Pool,
        name: str,
        nodes: Sequence[str],
        run_duration: timedelta,
        *,
        nonce: str,
        description: str = "",
    ) -> Operation:
        if self.slurm is not None:
            self.told_before.append(len(self.slurm.calls))
        return super().request(pool, name, nodes, run_duration, nonce=nonce)


@dataclass
class Stage:
    folder: Path
    cycles: list[Cycle] = field(default_factory=list)
    slurm: FakeSlurm = field(default_factory=FakeSlurm)
    fleet: Counting = field(default_factory=Counting)
    now: timedelta = timedelta(0)

    def run(self, snapshot: Snapshot, after: timedelta = timedelta(seconds=30)) -> Report:
        """One pass over what is shown."""
        self.slurm.slurm, self.fleet.groups = snapshot.slurm, dict(snapshot.cloud)
        self.slurm.calls.clear()
        self.fleet.calls.clear()
        self.now += after
        cycle = self.cycles[0] if self.cycles else self._start(snapshot)
        return cycle.run()

    def _start(self, snapshot: Snapshot) -> Cycle:
        self.fleet.slurm = self.slurm
        settings = snapshot.settings.model_copy(
            update={"run_dir": f"{self.folder}/run", "state_dir": f"{self.folder}/state"}
        )
        site = Site(snapshot.cluster, settings, self.folder / "c.json", self.folder / "s.toml")
        self.cycles.append(
            Cycle(
                Outside(site, self.slurm, self.fleet),
                lambda now: open_store(self.folder / "state", now),
                lambda: NOON + self.now,
            )
        )
        return self.cycles[0]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    for cycle in stage.cycles:
        cycle.close()


def block(number: int, size: int) -> str:
    """The nodes of one job of many: c1-gx-[0-3], c1-gx-[4-7], ..."""
    return f"c1-gx-[{number * size}-{number * size + size - 1}]"


def a_thousand_nodes_up() -> list[Thing]:
    """They came in twenty requests; the VMs of each end within seconds of another."""
    things: list[Thing] = [BIG, node("c1-gx-[0-999]", "alloc")]
    for number in range(20):
        nodes = block(number, 50)
        things.append(job(number + 1, "R", nodes=nodes, starts="-1h", limit="6d"))
        things.append(request(f"j{number + 1}-1", nodes, "SUCCEEDED", created="-1h"))
        things.append(instance(nodes, created="-59m", ends=f"+6d23h{number}m"))
    return things


def made(slurm: FakeSlurm) -> tuple[Reservation, ...]:
    """What Slurm has when it was told so: with flags of its own, and to the second."""
    found = []
    for call in slurm.calls:
        match call:
            case ("reserve", (str(name),), tuple(nodes), datetime() as start, datetime() as end, _):
                start, end = start.replace(microsecond=0), end.replace(microsecond=0)
                flags = ("MAINT", "IGNORE_JOBS", "SPEC_NODES")
                found.append(
                    Reservation(
                        name, nodes=tuple(map(str, nodes)), start=start, end=end, flags=flags
                    )
                )
    return tuple(found)


def test_the_end_of_a_thousand_nodes_that_came_in_twenty_requests_is_twenty_calls_once(
    stage: Stage,
) -> None:
    seen = world(*a_thousand_nodes_up())
    stage.run(seen)
    reservations = made(stage.slurm)
    assert counted(stage.slurm.calls) == {"reserve": 20}
    assert sorted(len(one.nodes) for one in reservations) == [50] * 20
    assert {one.name for one in reservations} == {f"slurm-flex-j{n}-1" for n in range(1, 21)}
    later = replace(seen, slurm=replace(seen.slurm, reservations=reservations))
    for _ in range(3):
        stage.run(later)
        assert stage.slurm.calls == []


def test_five_hundred_nodes_that_go_down_are_one_deletion_a_pool(stage: Stage) -> None:
    pools = (pool("gx", size=300), pool("gy", size=200))
    gone = ("c1-gx-[0-299]", "c1-gy-[0-199]")
    seen = world(*pools, *(node(names, "idle%") for names in gone), *map(instance, gone))
    stage.run(seen)
    assert counted(stage.fleet.calls) == {"delete_instances": 2}
    assert [len(call) - 2 for call in stage.fleet.calls] == [300, 200]
    assert stage.slurm.calls == []


def two_hundred_jobs(*more: Thing, places: int, state: str = "alloc#") -> Snapshot:
    things: list[Thing] = [BIG, node("c1-gx-[0-799]", state)]
    things += [job(n + 1, nodes=block(n, 4), starts="-1s") for n in range(200)]
    return world(*things, *more, settings={"active_requests": places})


def test_two_hundred_jobs_at_once_are_a_request_each_and_nothing_before_them(
    stage: Stage,
) -> None:
    stage.run(two_hundred_jobs(places=200))
    assert counted(stage.fleet.calls) == {"request": 200}
    assert [call[3] for call in stage.fleet.calls[:1]] == [tuple(f"c1-gx-{n}" for n in range(4))]
    assert stage.slurm.reads == 1
    assert max(stage.fleet.told_before) == 0, "Slurm is told after the last request"
    assert len(stage.slurm.calls) <= 2
