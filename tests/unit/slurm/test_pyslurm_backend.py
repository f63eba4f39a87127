"""The pyslurm backend with a stand-in for the library, which only the child can import."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slurm_flex.cluster.settings import Settings
from slurm_flex.slurm import open_controller
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.errors import CommandMissing, PermissionDenied, SlurmctldUnreachable
from slurm_flex.slurm.pyslurm_backend import NodeLoader, PyslurmController
from tests.unit.slurm.fake_slurm import FakeSlurm

STAND_IN = """
import os, sys, time
print("the library prints something")
if os.environ.get("AT_IMPORT"):
    print("fatal: Unable to process configuration file", file=sys.stderr)
    os._exit(1)

class RPCError(Exception):
    pass

class Node:
    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)

class Nodes(dict):
    @staticmethod
    def load():
        open(os.environ["CALLS"], "a").write(f"{os.getpid()}\\n")
        print("and again")
        if os.environ.get("ERROR"):
            raise RPCError(os.environ["ERROR"])
        if os.environ.get("HANG"):
            time.sleep(600)
        if os.environ.get("DIE"):
            os._exit(3)
        count = int(os.environ.get("COUNT", "2"))
        return Nodes({f"c1-gx-{at}": Node(
            name=f"c1-gx-{at}", state="DOWN+CLOUD+POWERED_DOWN" if at else "IDLE+CLOUD",
            reason="slurm-flex: lost" if at else None, reason_time=1796097600 if at else 0,
            reason_user="root", boot_time=None if at else 1796094000, comment="flex: 한국")
            for at in range(count)})
"""


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "pyslurm.py").write_text(STAND_IN)
    return tmp_path / "pids"


@pytest.fixture
def loaders() -> Iterator[list[NodeLoader]]:
    made: list[NodeLoader] = []
    yield made
    for loader in made:
        loader.close()


def env_of(calls: Path, **more: str) -> dict[str, str]:
    library = str(calls.parent / "library")
    return {**os.environ, "PYTHONPATH": library, "CALLS": str(calls), **more}


def loader_of(
    loaders: list[NodeLoader], calls: Path, seconds: float = 20, **more: str
) -> NodeLoader:
    loader = NodeLoader(env_of(calls, **more), timedelta(seconds=seconds))
    loaders.append(loader)
    return loader


def test_nodes_come_from_the_library_whatever_it_prints(
    calls: Path, loaders: list[NodeLoader]
) -> None:
    loader = loader_of(loaders, calls)
    first, second = loader.load()
    assert (first.name, first.state, first.reason) == ("c1-gx-0", "IDLE+CLOUD", None)
    assert first.boot_time == datetime(2026, 12, 1, 3, tzinfo=timezone.utc)
    assert (first.reason_time, first.reason_user, first.comment) == (None, None, "flex: 한국")
    assert second.is_down and second.has_own_reason and second.reason_user == "root"
    assert second.reason_time == datetime(2026, 12, 1, 4, tzinfo=timezone.utc)


def test_the_library_is_loaded_once_and_never_by_us(calls: Path, loaders: list[NodeLoader]) -> None:
    loader = loader_of(loaders, calls)
    loader.load()
    loader.load()
    pids = calls.read_text().split()
    assert len(pids) == 2 and len(set(pids)) == 1
    assert str(os.getpid()) not in pids
    assert "pyslurm" not in sys.modules


def test_a_library_that_hangs_is_killed_in_time_and_started_anew(
    calls: Path, loaders: list[NodeLoader]
) -> None:
    loader = loader_of(loaders, calls, seconds=2, HANG="1")
    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(SlurmctldUnreachable, match="in time"):
            loader.load()
        assert time.monotonic() - started < 10
    pids = [int(pid) for pid in calls.read_text().split()]
    assert len(set(pids)) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_library_that_ends_the_process_ends_only_the_child(
    calls: Path, loaders: list[NodeLoader]
) -> None:
    with pytest.raises(CommandMissing, match="ended with 1: fatal: Unable to process"):
        loader_of(loaders, calls, AT_IMPORT="1").load()
    with pytest.raises(CommandMissing, match="ended with 3"):
        loader_of(loaders, calls, DIE="1").load()


def test_a_library_that_is_not_there_is_said_with_the_cure(
    calls: Path, loaders: list[NodeLoader]
) -> None:
    (calls.parent / "library" / "pyslurm.py").unlink()
    with pytest.raises(CommandMissing, match=r"No module named 'pyslurm'.*backend="):
        loader_of(loaders, calls).load()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Unable to contact slurm controller (connect failure)", SlurmctldUnreachable),
        ("Access/permission denied", PermissionDenied),
    ],
)
def test_what_slurm_refuses_has_its_type(
    calls: Path, loaders: list[NodeLoader], said: str, kind: type
) -> None:
    with pytest.raises(kind):
        loader_of(loaders, calls, ERROR=said).load()


def test_ten_thousand_nodes_fit_through_the_pipe(calls: Path, loaders: list[NodeLoader]) -> None:
    assert len(loader_of(loaders, calls, COUNT="10000").load()) == 10_000


def test_everything_but_nodes_comes_from_slurms_own_commands(
    slurm: FakeSlurm, calls: Path, loaders: list[NodeLoader]
) -> None:
    slurm.replay("24.11")
    commands = SlurmCommands(bin_dir=str(slurm.folder), slurm_conf=str(slurm.conf))
    controller = PyslurmController(commands, loader_of(loaders, calls), host="vm")
    seen = controller.read()
    assert [node.name for node in seen.nodes] == ["c1-gx-0", "c1-gx-1"]
    assert len(seen.jobs) == 9
    assert not any("show node" in line for line in slurm.lines)
    assert controller.node_power_up(["c1-gx-0"]) == ()


def test_the_settings_name_the_backend(slurm: FakeSlurm) -> None:
    settings = Settings(backend="pyslurm", slurm_bin_dir=str(slurm.folder))
    assert isinstance(open_controller(settings), PyslurmController)
