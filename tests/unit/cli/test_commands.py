"""Exit codes, help, replay, pause, explain, init: the commands that need no cluster."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_flex import spool
from slurm_flex.cli.explain import PHASES, meanings
from slurm_flex.errors import FlexError
from slurm_flex.member import Phase
from slurm_flex.pause import paused_pools
from tests.unit.cli.conftest import Site

COMMANDS = (
    "run reconcile snapshot plan status nodes queue why explain events pause unpause render apply "
    "doctor init demo completion"
).split()

SNAPSHOT = {
    "format": "slurm-flex-snapshot/1",
    "now": "2026-12-01T12:00:00Z",
    "cluster": {
        "display_name": "c1",
        "node_pools": [
            {"id": "gx", "zone": "us-central1-a", "scaling_spec": {"max_node_count": 4}}
        ],
    },
    "slurm": {
        "version": "24.11.5",
        "nodes": [{"name": "c1-gx-0", "state": "MIXED+CLOUD+POWERING_UP"}],
        "jobs": [{"id": 51, "state": "CONFIGURING", "partition": "gx", "nodes": "c1-gx-0"}],
    },
    "cloud": {"gx": {"complete": True, "group": True}},
}


@pytest.fixture
def with_cluster(site: Site) -> Site:
    config = {
        "name": "projects/p1/locations/us-central1/modelDevelopmentClusters/c1",
        "node_pools": [
            {
                "id": "login",
                "machine_spec": {"machine_type": "n2-standard-8"},
                "scaling_spec": {"min_node_count": 1, "max_node_count": 1},
                "zone": "us-central1-b",
            },
            {
                "id": "gx",
                "machine_spec": {
                    "machine_type": "a3-ultragpu-8g",
                    "accelerator_type": "NVIDIA_H200_141GB",
                    "accelerator_count": 8,
                },
                "provisioning_model": "FLEX_START",
                "scaling_spec": {"min_node_count": 0, "max_node_count": 4},
                "zone": "us-central1-b",
            },
        ],
        "orchestrator_spec": {
            "slurm_spec": {
                "home_directory_storage": "projects/p1/locations/us-central1-b/instances/home",
                "login_node_pool_id": "login",
                "partitions": [{"id": "gx", "node_pool_ids": ["gx"]}],
            }
        },
    }
    (site.folder / "cluster_config.json").write_text(json.dumps(config))
    return site


def test_every_command_has_a_help_with_an_example(site: Site) -> None:
    for command in COMMANDS:
        done = site.call(command, "--help")
        assert done.code == 0, command
        assert "Examples:" in done.out, command
    assert "usage" in site.call("emulator", "--help").out.lower()


def test_help_and_replay_do_not_wait_for_googles_client() -> None:
    checking = (
        "import sys; from slurm_flex.cli.main import run; run(sys.argv[1:])\n"
        "heavy = {'google.cloud', 'requests', 'prometheus_client'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy))"
    )
    for command in (["--help"], ["plan", "--snapshot", "-"]):
        done = subprocess.run(
            [sys.executable, "-c", checking, *command],
            input=json.dumps(SNAPSHOT), capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "HEAVY []" in done.stdout


@pytest.mark.parametrize(
    "wrong", [["bogus"], ["why"], ["plan", "--snapshot"], ["nodes", "--bogus"], ["pause"]]
)
def test_a_wrong_call_ends_with_2(site: Site, wrong: list[str]) -> None:
    done = site.call(*wrong)
    assert done.code == 2
    assert "Error" in done.err


def test_a_snapshot_is_planned_without_anything_else(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_FLEX_CONFIG", "/nowhere/slurm-flex.toml")
    file = tmp_path / "s.json"
    file.write_text(json.dumps(SNAPSHOT))
    done = site.call("plan", "--snapshot", str(file), "--json")
    assert done.code == 0
    assert set(done.data) == {"actions", "memory"}
    (asked,) = [one for one in done.data["actions"] if one["do"] == "request"]
    assert (asked["name"], asked["nodes"], asked["job"]) == ("j51-1", "c1-gx-0", 51)
    assert next(iter(asked)) == "do"
    assert list(asked)[-1] == "why"
    table = site.call("plan", "--snapshot", str(file)).out
    assert "request" in table
    assert "c1-gx-0" in table


def test_memory_fed_back_plays_the_next_pass(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps(SNAPSHOT))
    memory = site.call("plan", "--snapshot", str(file), "--json").data["memory"]
    file.write_text(json.dumps({**SNAPSHOT, "now": "2026-12-01T12:00:05Z", "memory": memory}))
    again = site.call("plan", "--snapshot", str(file), "--json").data
    assert [one for one in again["actions"] if one["do"] == "request"] == []


def test_a_snapshot_may_come_from_stdin(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(json.dumps(SNAPSHOT).encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert site.call("plan", "--snapshot", "-", "--json").code == 0


def test_a_bad_snapshot_is_told_all_its_errors_with_their_paths(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps({**SNAPSHOT, "now": "noon", "clowd": {}, "slurm": {"nodes": 3}}))
    done = site.call("plan", "--snapshot", str(file))
    assert done.code == 1
    for path in ("now", "clowd", "slurm.nodes"):
        assert any(path in line for line in done.err.splitlines()), done.err
    assert len(done.err.splitlines()) >= 3


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"{", b"[]"])
def test_a_file_that_is_no_snapshot_is_an_error(
    site: Site, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "s.json"
    if content is not None:
        file.write_bytes(content)
    done = site.call("plan", "--snapshot", str(file))
    assert done.code == 1
    assert str(file) in done.err


def test_what_nobody_foresaw_is_one_line_and_a_file(site: Site) -> None:
    bursting = (
        "import sys; from slurm_flex import status_file; from slurm_flex.cli.main import main\n"
        "def burst(*_): raise ZeroDivisionError('a defect\\nof ours')\n"
        "status_file.read = burst; sys.argv = ['slurm-flex', 'status']; main()"
    )
    site.state_dir.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", bursting], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "unexpected ZeroDivisionError: a defect of ours" in done.stderr
    (kept,) = site.state_dir.glob("error-*.txt")
    assert "Traceback" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_pause_is_a_file_beside_the_settings(with_cluster: Site) -> None:
    site = with_cluster
    settings = site.folder / "slurm-flex.toml"
    done = site.call("pause", "gx", "--why", "ticket 4711")
    assert done.code == 0
    assert paused_pools(settings) == {"gx"}
    file = site.folder / "paused" / "gx"
    assert "ticket 4711" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o644
    assert site.call("pause", "gx").code == 0
    assert site.call("unpause", "gx").code == 0
    assert paused_pools(settings) == frozenset()
    ((_, record),) = spool.read(site.run_dir)
    assert record == {"program": "unpause", "pool": "gx"}


def test_a_pool_that_is_not_there_cannot_be_paused(with_cluster: Site) -> None:
    for command in ("pause", "unpause"):
        done = with_cluster.call(command, "login")
        assert done.code == 1
        assert "the pools are gx" in done.err
    assert not (with_cluster.folder / "paused").exists()


def test_pauses_that_cannot_be_read_are_an_error_not_none(tmp_path: Path) -> None:
    (tmp_path / "paused").write_text("a file where the folder should be")
    with pytest.raises(FlexError):
        paused_pools(tmp_path / "slurm-flex.toml")


def test_explain_knows_every_phase_and_letter(site: Site) -> None:
    assert set(PHASES) == {str(phase) for phase in Phase}
    assert [word for word, _, _ in meanings("mix#")] == ["mix", "#"]
    assert [word for word, _, _ in meanings("IDLE+CLOUD+POWERED_DOWN")] == ["idle", "~"]
    assert site.call("explain", "(BeginTime)").code == 0
    assert "capacity" in site.call("explain", "queued").out
    assert site.call("explain", "blurred").code == 1
    assert len(site.call("explain", "--json").data) > 30


def test_render_prints_for_a_release(with_cluster: Site) -> None:
    done = with_cluster.call("render", "--print", "--release", "24.11")
    assert done.code == 0
    assert "NodeName=c1-gx-[0-3]" in done.out
    assert json.loads(with_cluster.call("render", "--schema").out)["type"] == "object"


def test_bad_files_are_told_with_all_their_errors(with_cluster: Site) -> None:
    file = with_cluster.folder / "cluster_config.json"
    file.write_text(file.read_text().replace("max_node_count", "max_nodes"))
    (with_cluster.folder / "slurm-flex.toml").write_text("interval = 'soon'\n")
    done = with_cluster.call("render", "--print", "--release", "24.11")
    assert done.code == 1
    assert "interval" in done.err
    assert "Traceback" not in done.err


def test_completion_is_the_shells_own_script() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "slurm-flex"), "completion", "bash"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "slurm-flex" in done.stdout
    assert "COMPREPLY" in done.stdout


def test_the_config_option_names_the_settings_file(site: Site, tmp_path: Path) -> None:
    done = site.call("--config", str(tmp_path / "none.toml"), "pause", "gx")
    assert done.code == 1
    assert "none.toml" in done.err
