"""VMs as processes: started in sessions of their own, killed with all that they left behind."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_flex.emulator.drivers import processes
from slurm_flex.emulator.drivers.slurmd import SlurmdDriver
from slurm_flex.errors import FlexError
from tests.unit.emulator.here import Here

FAMILY = (
    "echo hello {name}; setsid sleep 3001 & "
    "env -u SLURM_FLEX_VM setsid sh -c 'sleep 3002 & sleep 3003' & "
    "sh -c 'env -u SLURM_FLEX_VM sleep 3004 & ' ; wait"
)


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def driver(tmp_path: Path) -> SlurmdDriver:
    return SlurmdDriver(tmp_path / "vms", argv=["sh", "-c", FAMILY], conf="/etc/x.conf")


@pytest.fixture
def here(driver: SlurmdDriver) -> Iterator[Here]:
    found = Here(driver, seed=None)
    yield found
    driver.end(list(found.world.instances))


def _sleepers(here: Here, name: str) -> set[str]:
    """Which of the four sleeps of a VM are there: its own, two of a grandchild that dropped the
    marker, and one whose parent has ended."""
    ids = {item.id for item in here.world.instances if item.name == name}
    found = set()
    for pid in processes.find(ids):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            found |= {words[1].decode()} if words[0] == b"sleep" else set()
    return found


ALL = {"3001", "3002", "3003", "3004"}


def test_a_running_instance_is_a_process_and_its_end_takes_all_of_it(here: Here) -> None:
    here.up(here.group(), "j1-1", "n-0", "n-1")
    _until(lambda: _sleepers(here, "n-0") == _sleepers(here, "n-1") == ALL, "all are there")
    id_ = next(item.id for item in here.world.instances if item.name == "n-0")
    here.fault("instance_lost", instance="n-0")
    assert processes.find({id_}) == {}
    assert _sleepers(here, "n-1") == ALL


def test_the_guest_dies_when_its_instance_begins_to_stop(here: Here) -> None:
    here.up(here.group(), "j1-1", "n-0", seconds=600)
    _until(lambda: _sleepers(here, "n-0") == ALL, "it is there")
    here.wait(595)
    assert here.instances() == {"n-0": "STOPPING"}
    assert _sleepers(here, "n-0") == set()


def test_the_guest_may_live_until_its_instance_is_gone(here: Here) -> None:
    here.knob(guest_while_stopping="lives")
    here.up(here.group(), "j1-1", "n-0", seconds=600)
    _until(lambda: _sleepers(here, "n-0") == ALL, "it is there")
    id_ = next(item.id for item in here.world.instances)
    here.wait(595)
    assert here.instances() == {"n-0": "STOPPING"}
    assert processes.find({id_}) != {}
    here.wait(31)
    assert processes.find({id_}) == {}


def test_what_it_prints_is_its_console(here: Here) -> None:
    group = here.group()
    here.up(group, "j1-1", "n-0")
    path = "zones/us-central1-a/instances/n-0/serialPort"
    _until(lambda: "hello n-0" in here.ok("GET", path)["contents"], "the console has its line")


def test_a_command_that_can_not_be_run_is_told_on_the_console(tmp_path: Path) -> None:
    here = Here(SlurmdDriver(tmp_path, argv=[str(tmp_path / "no-slurmd")]), seed=None)
    here.up(here.group(), "j1-1", "n-0")
    found = here.ok("GET", "zones/us-central1-a/instances/n-0/serialPort")
    assert "startup failed" in found["contents"]


def test_the_words_of_the_command_are_replaced(tmp_path: Path) -> None:
    argv = ["ip", "netns", "exec", "{name}", "slurmd", "-f{conf}", "{id}@{zone}", "{literally}"]
    driver = SlurmdDriver(tmp_path, argv=argv, conf="/etc/slurm.conf")
    here = Here()
    here.up(here.group(), "j1-1", "n-0")
    (instance,) = here.world.instances
    assert driver.command(instance) == [
        "ip", "netns", "exec", "n-0", "slurmd", "-f/etc/slurm.conf",
        f"{instance.id}@us-central1-a", "{literally}",
    ]  # fmt: skip


def test_a_driver_that_was_away_takes_over_what_lives_and_ends_what_should_not(
    here: Here, tmp_path: Path
) -> None:
    here.up(here.group(), "j1-1", "n-0", "n-1", "n-2")
    _until(lambda: all(_sleepers(here, f"n-{i}") == ALL for i in range(3)), "all are there")
    alive, dead, over = here.world.instances
    here.service.driver.end([dead])
    later = SlurmdDriver(tmp_path / "vms", argv=["sh", "-c", FAMILY])
    before = processes.find({alive.id})
    later.adopt([alive, dead], {over.id})
    _until(lambda: _sleepers(here, dead.name) == ALL, "the dead one is back")
    assert processes.find({alive.id}) == before
    assert processes.find({over.id}) == {}
    later.end([alive, dead])
    assert processes.find({alive.id, dead.id}) == {}


def test_ending_what_is_over_or_never_was_is_fine(here: Here) -> None:
    here.up(here.group(), "j1-1", "n-0")
    instances = list(here.world.instances)
    here.service.driver.end(instances)
    here.service.driver.end(instances)


def test_our_own_process_is_never_taken_for_a_guest() -> None:
    assert os.getpid() not in processes.find({""})


def test_an_empty_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlexError, match="command is empty"):
        SlurmdDriver(tmp_path, argv=[])
