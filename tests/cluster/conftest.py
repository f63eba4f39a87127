"""A real slurmctld for tests: of each release that users run, alone in a world of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from slurm_flex.demo.controller import Controller
from slurm_flex.demo.layout import CloudNode, Layout, Partition, Programs, Timeouts
from slurm_flex.demo.release_tree import host_release, release_tree
from slurm_flex.demo.world import World
from tests.cluster.life import SITE, Life
from tests.cluster.side_by_side import Running, side_by_side

# Debian 12's, Debian 13's; SLURM_FLEX_RELEASES=22.05,24.11,26.05 for more or fewer.
RELEASES = os.environ.get("SLURM_FLEX_RELEASES", "22.05,24.11").split(",")

Start = Callable[[Layout], Controller]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        if isinstance(item, pytest.Function) and call is not None and "release" in call.params:
            item.add_marker(pytest.mark.xdist_group(f"{call.params['release']}-{_shares(item)}"))
    if os.geteuid() == 0:
        return
    reason = pytest.mark.skip(reason="a slurmctld with its own namespaces needs root")
    for item in items:
        if item.get_closest_marker("cluster"):
            item.add_marker(reason)


def _shares(item: pytest.Function) -> str:
    """Tests that share a world, or are told side by side, are played by one process.

    All of them wait for Slurm most of their time: -n 4 leaves two cores half idle.
    """
    return next((name for name in ("world_of_life", "running") if name in item.fixturenames), "own")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Without groups every process would play every release, and only the time would tell."""
    if not session.config.getoption("loadgroup", False):  # set in pytest-xdist's processes
        return
    for item in session.items:
        if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
            raise pytest.UsageError("this pytest-xdist makes no groups with this pytest")


@pytest.fixture(scope="session", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """A Slurm release (``24.11``) whose programs are there: this machine's, or in a tree."""
    wanted: str = request.param
    if wanted != host_release():
        release_tree(wanted)
    return wanted


@pytest.fixture(scope="session")
def power_programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """Power programs that start a slurmd for a node after a boot of two seconds, or kill it."""
    folder = tmp_path_factory.mktemp("power")
    source = Path(__file__).with_name("power.py").read_text()
    for name in ("resume", "suspend"):
        (folder / name).write_text(f"#!/usr/bin/python3\n{source}")
        (folder / name).chmod(0o755)
    return Programs(resume=folder / "resume", suspend=folder / "suspend")


@pytest.fixture(scope="session")
def plain_layout(power_programs: Programs) -> Layout:
    """Two nodes with eight GPUs that are off, and a partition over them."""
    return Layout(
        nodes=[CloudNode(f"c1-gx-{index}", gres="gpu:8") for index in range(2)],
        partitions=[Partition("gx", "c1-gx-[0-1]", "Default=YES")],
        programs=power_programs,
        timeouts=Timeouts(idle=timedelta(seconds=4), suspend=timedelta(seconds=4)),
    )


@pytest.fixture
def start_controller(release: str) -> Iterator[Start]:
    """Start controllers of this release; all of them end with the test."""
    with ExitStack() as stack:
        yield lambda layout: stack.enter_context(Controller(layout, release=release))


@pytest.fixture
def controller(start_controller: Start, plain_layout: Layout) -> Controller:
    """A controller of this release over the plain layout."""
    return start_controller(plain_layout)


@pytest.fixture(scope="session")
def world_of_life(release: str) -> Iterator[Life]:
    """One world of this release for all tests of the life of nodes, each a phase of it."""
    with World(SITE, release=release) as world:
        yield Life(world)


@pytest.fixture
def life(world_of_life: Life) -> Iterator[Life]:
    """The world with nothing going on; and nothing may be left of it when the test is over."""
    world_of_life.start_afresh()
    yield world_of_life
    world_of_life.all_is_given_back()


@pytest.fixture(scope="session")
def running(request: pytest.FixtureRequest, release: str) -> Iterator[Running]:
    """All stories that are told side by side, on this release."""
    with side_by_side(request.session.items, release) as stories:
        yield stories
