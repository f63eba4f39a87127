"""As on users' controllers: slurmctld, its hooks and slurm-flex are SlurmUser, and nobody is root
but the nodes."""

from __future__ import annotations

import pwd
import stat
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from slurm_flex.demo.site_files import DemoPool, DemoSite
from slurm_flex.demo.world import World
from slurm_flex.health.node import NODE_FIELDS
from tests.cluster.side_by_side import Stage
from tests.cluster.watch import TICK, Watch

pytestmark = pytest.mark.cluster

SLURM_USER = "slurm"
ORDINARY = "nobody"
STAGE = Stage(
    lambda release: World(
        DemoSite(
            name="c1",
            pools=[DemoPool("own", dynamic=1), DemoPool("sick", dynamic=1)],
            settings={"suspend_time": timedelta(seconds=6)},
            health=True,
        ),
        release=release,
        slurm_user=SLURM_USER,
    )
)
NODE = "c1-own-0"


@STAGE.story
def test_an_ordinary_users_job_gets_its_node_and_they_can_see_why_it_waited(users: Watch) -> None:
    world = users.world
    stockout = world.emulator.faults.set("stockout", group="c1-own")
    theirs = users.slurm.of_user(ORDINARY)
    job = theirs.sbatch("-p", "own", "--exclusive", script="#!/bin/sh\nsrun id -un\n")
    users.until(lambda: users.live("own") == [f"j{job}-1"], "the request is sent")
    users.until(lambda: "capacity" in users.comment(job), "the comment")
    shown = {
        command: world.flex(*command.split(), user=ORDINARY)
        for command in ("status", "nodes", "queue", f"why {job}", f"why {NODE}", "events")
    }
    assert "all well" in shown["status"]
    assert all(f"j{job}-1" in shown[command] for command in ("nodes", "queue", "events"))
    assert "queued for capacity" in shown[f"why {job}"]
    assert "queued for capacity" in shown[f"why {NODE}"]

    world.emulator.faults.clear(stockout)
    users.until(lambda: users.state(job) == "COMPLETED", "the job runs", TICK)
    assert theirs.output(job) == f"{ORDINARY}\n"
    users.nothing_is_left_of("own")
    calls = (world.folder / "flex/state/hooks.log").read_text()
    called = [line.split()[1].partition("[")[0] for line in calls.splitlines() if NODE in line]
    assert (called[0], called[-1]) == ("slurm-flex-resume", "slurm-flex-suspend")


@STAGE.story
def test_a_node_drains_itself_before_a_job_and_is_replaced(users: Watch) -> None:
    node = "c1-sick-0"
    users.slurm.scontrol("update", f"nodename={node}", "state=power_up")
    users.until(lambda: users.is_up(node), "the node is up")
    before = users.vms("sick")
    assert users.world.gpus is not None
    users.world.gpus.fell_off_the_bus(node, 3)
    job = users.slurm.of_user(ORDINARY).sbatch("-p", "sick", "--exclusive", "--wrap=true")
    users.until(lambda: users.vms("sick") != before, "its VM is deleted")
    users.slurm.of_user(ORDINARY).scancel(job)
    told = users.world.daemon.status()["events"]
    here = users.world.folder / "health" / node / f"{node}.cursor.json"
    assert here.exists()
    assert not (Path(NODE_FIELDS["state"].default) / here.name).exists(), (
        "checks keep to the cluster's folder"
    )
    (drain,) = [one["text"] for one in told if one["kind"] == "VM_SLURM_DRAIN"]
    assert "slurm-flex:" in drain
    users.nothing_is_left_of("sick")


@STAGE.story
def test_the_daemons_files_are_its_own_and_only_the_status_is_for_all(users: Watch) -> None:
    spool = users.world.folder / "flex/run/spool"
    users.until(spool.exists, "a hook was called")
    for_all = {"run": 0o055, "state": 0o055, "status.json": 0o044}
    for path in (users.world.folder / "flex").rglob("*"):
        with suppress(FileNotFoundError):  # a call that has been heard meanwhile
            found = path.stat()
            assert found.st_uid == pwd.getpwnam(SLURM_USER).pw_uid, path
            assert stat.S_IMODE(found.st_mode) & 0o077 == for_all.get(path.name, 0), path
