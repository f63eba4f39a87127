"""status, nodes, queue, why, events: read by anybody, from the status file alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from slurm_flex.memory import Entry, open_store
from slurm_flex.model import Memory
from slurm_flex.model.memory import Breaker, Delay
from tests.builders import (
    NOON,
    STOCKOUT,
    half_seen,
    instance,
    job,
    node,
    pool,
    request,
    world,
)
from tests.unit.cli.conftest import Site

BUSY = world(
    pool("gx", static=1),
    node("c1-gx-0", "idle"),
    node("c1-gx-[1-2]", "mix#"),
    node("c1-gx-3", "idle%"),
    node("c1-gx-4", "drain", reason="bad fan", user="ada"),
    node("c1-gx-5", "drain", reason="slurm-flex: gpu: 3 of 8 GPUs"),
    instance("c1-gx-0", ends="+6d2h"),
    instance("c1-gx-3"),
    instance("c1-gx-[4-5]"),
    instance("c1-gx-[1-2]", None),
    request("j51-1", "c1-gx-[1-2]", created="-2h10m", last=STOCKOUT),
    request("j40-1", "c1-gx-0", "SUCCEEDED", created="-1h"),
    job(51, nodes="c1-gx-[1-2]", admin_comment="flex: queued for capacity"),
    job(52, needs="c1-gx-7", reason="BeginTime", starts="+90s"),
)


def test_status_tells_pools_phases_and_health(site: Site) -> None:
    site.publish(BUSY)
    done = site.call("status")
    assert done.code == 0
    assert "c1" in done.out
    assert "24.11.5, primary" in done.out
    assert "8 (1 static)" in done.out
    assert "2 queued" in done.out


def test_status_with_errors_says_them_and_ends_with_1(site: Site) -> None:
    site.publish(BUSY, errors=("pool gx: 403",))
    done = site.call("status")
    assert done.code == 1
    assert "pool gx: 403" in done.err


def test_nodes_shows_what_is_not_off_and_counts_the_rest(site: Site) -> None:
    site.publish(BUSY)
    lines = site.call("nodes").out.splitlines()
    assert lines[0].split()[:3] == ["NODE", "PHASE", "SLURM"]
    shown = {line.split()[0]: line for line in lines[1:-1]}
    assert set(shown) == {f"c1-gx-{n}" for n in range(6)}
    assert "ends in 6 d 2 h" in shown["c1-gx-0"]
    assert "queued for capacity for 2 h 10 min" in shown["c1-gx-1"]
    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in shown["c1-gx-1"]
    assert "leaving" in shown["c1-gx-3"]
    assert "held by ada: bad fan" in shown["c1-gx-4"]
    assert "drained by slurm-flex" in shown["c1-gx-5"]
    assert lines[-1].startswith("2 more are off")
    assert "nothing billed" in site.call("nodes", "--all").out


def test_nothing_up_is_said_to_cost_nothing(site: Site) -> None:
    site.publish(world())
    assert "nothing billed" in site.call("nodes").out


def test_a_vm_behind_an_off_node_is_shown(site: Site) -> None:
    site.publish(world(instance("c1-gx-0")))
    assert "its VM is still RUNNING and is being removed" in site.call("nodes").out


def test_a_pool_that_could_not_be_read_is_unknown_not_off(site: Site) -> None:
    site.publish(world(half_seen("gx"), node("c1-gx-0", "idle")))
    (first, *_) = site.call("nodes", "--json").data
    assert (first["phase"], first["slurm"]) == ("unknown", "IDLE+CLOUD")


def test_queue_shows_live_requests_and_with_all_the_others(site: Site) -> None:
    site.publish(BUSY)
    assert [one["request"] for one in site.call("queue", "--json").data] == ["j51-1"]
    assert "j40-1" not in site.call("queue").out
    assert "j40-1" in site.call("queue", "--all").out


def test_an_empty_queue_says_so(site: Site) -> None:
    site.publish(world())
    assert site.call("queue").out == "nothing is queued for capacity\n"


def test_why_a_configuring_job_waits(site: Site) -> None:
    event = Entry(NOON, "request_created", "asked for 2 nodes", job=51, id=7)
    site.publish(BUSY, events=(event, Entry(NOON, "lost", "other", job=99, id=8)))
    done = site.call("why", "51")
    assert done.code == 0
    assert "request j51-1: queued for capacity for 2 h 10 min" in done.out
    assert "0 of its 2 Flex-start nodes are up" in done.out
    assert "flex: queued for capacity" in done.out
    assert "asked for 2 nodes" in done.out
    assert "other" not in done.out


def test_why_a_pending_job_waits(site: Site) -> None:
    memory = Memory(
        delays={"52": Delay(NOON + timedelta(minutes=2), "capacity: STOCKOUT")},
        breakers={
            "gx": Breaker(
                "config", "no such machine type", NOON, NOON + timedelta(minutes=30),
                timedelta(minutes=30),
            )
        },
    )  # fmt: skip
    site.publish(BUSY, memory)
    said = site.call("why", "52").out
    assert "delayed until 2026" in said
    assert "capacity: STOCKOUT" in said
    assert "BeginTime" in said
    assert "pool gx: no such machine type; next try in 30 min" in said


def test_why_a_node_is_as_it_is(site: Site) -> None:
    site.publish(BUSY)
    said = site.call("why", "c1-gx-0").out
    assert "up, ends in 6 d 2 h" in said
    assert "static" in said
    assert site.call("why", "c1-gx-4", "--json").data["reason_is_ours"] is False


@pytest.mark.parametrize(
    ("drain", "status", "says"),
    [
        (None, "REPAIRING", "its host has broken: Compute Engine restarts the VM, or it is repl"),
        (
            "slurm-flex:health: xid: Xid 79 (epilog)",
            "RUNNING",
            "Xid 79 (epilog); replaced when idle",
        ),
        (
            "slurm-flex:health: xid: Xid 79 (epilog, part of the node)",
            "RUNNING",
            "replaced when idle, if health_partial_node says so",
        ),
    ],
)
def test_a_node_with_a_broken_host_or_gpu_says_what_comes(
    site: Site, drain: str | None, status: str, says: str
) -> None:
    site.publish(
        world(
            node("c1-gx-0", "drain" if drain else "idle*", reason=drain, since="-1m"),
            instance("c1-gx-0", status),
        )
    )
    assert says in site.call("why", "c1-gx-0").out


def test_a_node_that_ends_by_its_hosts_maintenance_says_so(site: Site) -> None:
    site.publish(world(node("c1-gx-0", "idle"), instance("c1-gx-0", maintenance="+5h")))
    assert "up, ends in 5 h (host maintenance)" in site.call("nodes").out
    told = site.call("why", "c1-gx-0").out
    assert "2026-12-01 17:00:00 (in 5 h) (host maintenance)" in told
    (shown,) = [one for one in site.call("nodes", "--json").data if one["node"] == "c1-gx-0"]
    assert (shown["ends"], shown["maintenance"]) == ("2026-12-01T17:00:00Z",) * 2


@pytest.mark.parametrize("whom", ["9999", "c1-gx-99", "nonsense", "51x", "²"])
def test_why_of_something_unknown_is_an_error_with_a_way_on(site: Site, whom: str) -> None:
    site.publish(BUSY)
    done = site.call("why", whom)
    assert done.code == 1
    assert "sacct" in done.err


def test_no_status_is_an_error_with_a_way_on(site: Site) -> None:
    for command in (["status"], ["nodes"], ["queue"], ["why", "51"], ["events"]):
        done = site.call(*command)
        assert done.code == 1
        assert "is slurm-flex running?" in done.err
        assert "Traceback" not in done.err


def test_an_old_status_is_said_to_be_old(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.publish(BUSY)
    monkeypatch.setattr("slurm_flex.cli.reading.utc_now", lambda: NOON + timedelta(hours=1))
    done = site.call("nodes")
    assert "this is 1 h old" in done.err


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "slurm-flex-status/9"}'])
def test_a_status_file_that_is_none_is_an_error(site: Site, content: str) -> None:
    site.run_dir.mkdir()
    (site.run_dir / "status.json").write_text(content)
    assert site.call("status").code == 1


def test_the_status_file_is_for_everybody_and_replaced_whole(site: Site) -> None:
    site.publish(BUSY)
    site.publish(world())
    files = list(site.run_dir.iterdir())
    assert [file.name for file in files] == ["status.json"]
    assert files[0].stat().st_mode & 0o777 == 0o644


def test_events_come_from_the_journal(site: Site) -> None:
    store = open_store(site.state_dir, NOON).store
    store.write_events(
        [
            Entry(NOON - timedelta(days=3), "lost", "long ago", ("c1-gx-0",)),
            Entry(NOON, "expired", "its life is over", ("c1-gx-0", "c1-gx-1"), None, "gx"),
        ]
    )
    store.close()
    done = site.call("events", "--since", "1d")
    assert "c1-gx-[0-1]: its life is over" in done.out
    assert "long ago" not in done.out
    (event,) = site.call("events", "--since", "2h", "--json").data
    assert (event["kind"], event["nodes"]) == ("expired", "c1-gx-[0-1]")
    assert len(site.call("events", "--since", "7d", "--json").data) == 2


def test_events_for_those_without_rights_come_from_the_status_file(site: Site) -> None:
    site.publish(BUSY, events=(Entry(NOON, "lost", "a node vanished", ("c1-gx-0",), id=3),))
    assert "a node vanished" in site.call("events").out


def test_a_duration_that_is_none_is_an_error(site: Site) -> None:
    done = site.call("events", "--since", "yesterday")
    assert done.code == 1
    assert "not a duration" in done.err


def test_reading_commands_need_no_rights_no_slurm_and_no_settings(site: Site) -> None:
    """As a stranger, with nothing installed but the program: only the status file is there."""
    site.publish(BUSY)
    reading = (
        "import sys; sys.argv = ['slurm-flex', *sys.argv[1:]]\n"
        "from slurm_flex.cli.main import main; main()"
    )
    env = {"SLURM_FLEX_CONFIG": os.environ["SLURM_FLEX_CONFIG"], "PATH": "/nowhere"}
    for command in (["status"], ["nodes", "--all"], ["queue"], ["why", "51"]):
        done = subprocess.run(
            [sys.executable, "-c", reading, *command],
            env=env, cwd="/", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_a_reader_that_has_seen_enough_is_no_error(site: Site, tmp_path: Path) -> None:
    site.publish(world(pool("gx", size=900)))
    done = subprocess.run(
        f"{sys.executable} -m slurm_flex.cli.main nodes --all | head -1",
        shell=True, env={**os.environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr.count("Traceback") == 0
    assert "Exception" not in done.stderr


def test_events_are_followed_until_ctrl_c(site: Site) -> None:
    store = open_store(site.state_dir, NOON).store
    program = [sys.executable, "-m", "slurm_flex.cli.main", "events", "--follow", "--json"]
    store.write_events([Entry(NOON, "lost", "the first")])
    # What a shell starts in the background inherits that SIGINT is ignored.
    heeds = ["env", "--default-signal=INT"]
    with subprocess.Popen(
        [*heeds, *program, "--since", "3650d"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        assert json.loads(following.stdout.readline())["text"] == "the first"
        store.write_events([Entry(NOON, "lost", "the second")])
        assert json.loads(following.stdout.readline())["text"] == "the second"
        following.send_signal(signal.SIGINT)
        assert following.wait(20) == 130
        assert "Traceback" not in following.stderr.read()
    store.close()


def test_a_node_that_left_the_cluster_file_is_shown_while_its_vm_is_billed(site: Site) -> None:
    site.publish(
        world(
            pool("gx", size=1),
            node("c1-gx-1", "alloc", reason="slurm-flex: no longer in the cluster file"),
            instance("c1-gx-1", pool="gx"),
            job(70, "R", nodes="c1-gx-1"),
        )
    )
    shown = site.call("nodes", "--json").data
    assert [(one["node"], one["phase"]) for one in shown if one["vm"]] == [("c1-gx-1", "leaving")]
    assert "no longer in the cluster file" in site.call("nodes").out
