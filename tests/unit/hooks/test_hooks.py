"""The hooks as slurmctld calls them: real processes with its environment (facts: slurm.md)."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slurm_flex.cluster import settings
from slurm_flex.hook_site import HookSite, find_settings_file
from slurm_flex.hooks import read_resume_file
from slurm_flex.wake import Ear
from tests.unit.hooks.conftest import ROOT, Site

RESUME_FILE = {
    "all_nodes_resume": "c1-gx-[0-3]",
    "jobs": [{"job_id": 51, "nodes_alloc": "c1-gx-[0-3]", "nodes_resume": "c1-gx-[0-3]"}],
}


def test_a_call_is_recorded_and_the_daemon_is_woken(site: Site, ear: Ear, tmp_path: Path) -> None:
    resume_file = tmp_path / "resume.json"
    resume_file.write_text(json.dumps(RESUME_FILE))
    done = site.call("resume.py", "c1-gx-[0-3]", env={"SLURM_RESUME_FILE": str(resume_file)})
    assert done.returncode == 0
    assert ear.wait(5)
    (record,) = site.records()
    assert record["program"] == "resume"
    assert record["nodes"] == "c1-gx-[0-3]"
    assert record["jobs"] == {"51": "c1-gx-[0-3]"}
    assert record["note"] == ""


def test_the_last_argument_is_the_hostlist(site: Site, ear: Ear) -> None:
    site.call("suspend.py", "why", "idle", "c1-gx-1")
    (record,) = site.records()
    assert (record["nodes"], record["arguments"]) == ("c1-gx-1", ["why", "idle"])


def test_without_a_hostlist_it_says_how_it_is_called(site: Site) -> None:
    done = site.call("suspend.py")
    assert done.returncode == 2
    assert "usage: suspend.py" in done.stderr
    assert not site.spool_files()


def test_the_resume_file_of_22_05_has_other_keys(tmp_path: Path) -> None:
    file = tmp_path / "resume.json"
    file.write_text('{"all_nodes": "n1", "jobs": [{"job_id": 7, "nodes": "n1"}]}')
    assert read_resume_file(str(file)) == ({"7": "n1"}, "")


@pytest.mark.parametrize(
    "content",
    [
        b'{"jobs": [{"job_id": 51, "nodes',
        b"",
        b"[]",
        b"null",
        b'{"jobs": 3}',
        b'{"jobs": [7]}',
        b'{"jobs": [{"job_id": 1e999}]}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
    ],
)
def test_a_wrong_resume_file_is_noted_and_the_node_list_used(
    site: Site, ear: Ear, tmp_path: Path, content: bytes
) -> None:
    """Scenario 11."""
    file = tmp_path / "resume.json"
    file.write_bytes(content)
    done = site.call("resume.py", "c1-gx-2", env={"SLURM_RESUME_FILE": str(file)})
    assert done.returncode == 0
    (record,) = site.records()
    assert (record["nodes"], record["jobs"]) == ("c1-gx-2", {})
    assert "isn't what slurmctld writes" in str(record["note"])
    assert "the node list is used" in site.log()


def test_a_resume_file_that_vanished_is_noted_and_the_node_list_used(site: Site, ear: Ear) -> None:
    site.call("resume.py", "c1-gx-2", env={"SLURM_RESUME_FILE": "/proc/1/fd/nothing"})
    (record,) = site.records()
    assert record["nodes"] == "c1-gx-2"
    assert "No such file" in str(record["note"])


def test_no_resume_file_at_all_is_noted(site: Site, ear: Ear) -> None:
    site.call("resume.py", "c1-gx-2")
    (record,) = site.records()
    assert record["note"] == "no SLURM_RESUME_FILE"


def test_closed_descriptors_as_on_22_05_lose_nothing(site: Site, ear: Ear) -> None:
    done = site.call("resume.py", "c1-gx-2", prepare=lambda: os.closerange(0, 3))
    assert done.returncode == 0
    assert [record["nodes"] for record in site.records()] == ["c1-gx-2"]
    assert site.log().count("called for c1-gx-2") == 1


def test_a_full_disk_is_said_and_the_daemon_woken_all_the_same(site: Site, ear: Ear) -> None:
    def no_space() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = site.call("resume.py", "c1-gx-2", prepare=no_space)
    assert done.returncode == 0
    assert "cannot record this call" in done.stderr
    assert ear.wait(5)
    assert not site.spool_files()


def test_a_run_folder_that_cannot_be_written_is_said(site: Site) -> None:
    site.run_dir.rmdir()
    site.run_dir.write_text("a file where the folder should be")
    done = site.call("suspend.py", "c1-gx-2")
    assert done.returncode == 0
    assert "cannot record this call" in done.stderr
    assert "none could be started" in done.stderr or "no slurm-flex program" in done.stderr


@pytest.mark.parametrize("content", ["run_dir = [", "run_dir = 3\n", "\udcff", 'run_dir = "x"'])
def test_a_bad_settings_file_loses_no_call(site: Site, content: str) -> None:
    site.settings.write_bytes(content.encode(errors="surrogateescape"))
    hook_site = HookSite(site.env)
    assert str(hook_site.run_dir) == "/run/slurm-flex"
    assert str(site.settings) in hook_site.complaint


def test_a_mistake_elsewhere_in_the_settings_keeps_the_folders(site: Site, ear: Ear) -> None:
    with site.settings.open("a") as file:
        file.write("interval = oops\n")
    site.call("suspend.py", "c1-gx-2")
    assert len(site.records()) == 1
    assert "is not TOML" in site.log()


def test_hooks_and_daemon_look_for_the_settings_in_the_same_places(site: Site) -> None:
    elsewhere = {"SLURM_FLEX_CONFIG": "/somewhere/else.toml"}
    for env in (site.env, elsewhere, {**site.env, **elsewhere}, {}):
        assert find_settings_file(env) == settings.find_settings_file(env)
    plain = settings.Settings()
    hook_site = HookSite({"SLURM_CONF": "/nowhere/slurm.conf"})
    assert (str(hook_site.run_dir), str(hook_site.state_dir)) == (plain.run_dir, plain.state_dir)


def test_forty_calls_at_once_are_forty_records(site: Site, ear: Ear) -> None:
    callers = [
        threading.Thread(target=site.call, args=("resume.py", f"c1-gx-{n}")) for n in range(40)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert {record["nodes"] for record in site.records()} == {f"c1-gx-{n}" for n in range(40)}
    assert {file.suffix for file in site.spool_files()} == {".json"}


def test_what_it_writes_is_for_its_owner_alone(site: Site, ear: Ear) -> None:
    site.call("suspend.py", "c1-gx-2")
    for file in (*site.spool_files(), site.state_dir / "hooks.log"):
        assert file.stat().st_mode & 0o777 == 0o600


def test_odd_bytes_in_an_argument_break_nothing(site: Site, ear: Ear) -> None:
    odd = b"c1-\xff\x1b[31m\nforged line".decode(errors="surrogateescape")
    assert site.call("suspend.py", odd).returncode == 0
    (record,) = site.records()
    assert record["nodes"] == odd
    assert len(site.log().splitlines()) == 1
    assert "\x1b" not in site.log()


def test_the_log_file_does_not_grow_for_ever(site: Site, ear: Ear) -> None:
    site.state_dir.mkdir()
    (site.state_dir / "hooks.log").write_text("x" * 1_000_001)
    site.call("suspend.py", "c1-gx-2")
    assert len(site.log().splitlines()) == 1
    assert (site.state_dir / "hooks.log.1").stat().st_size == 1_000_001


WATCHED = """
import json, os, runpy, sys
events = []
sys.addaudithook(lambda event, _: events.append(event))
sys.argv = sys.argv[1:]
out = os.dup(1)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit:
    pass
born = [event for event in events if event in {
    "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system",
    "subprocess.Popen", "_thread.start_new_thread"}]
os.write(out, json.dumps({"modules": sorted(sys.modules), "born": born}).encode())
"""


@pytest.mark.parametrize("script", ["resume.py", "suspend.py"])
def test_a_hook_imports_only_the_standard_library_and_starts_no_process(
    site: Site, ear: Ear, script: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-IS", "-c", WATCHED, str(ROOT / "scripts" / script), "c1-gx-2"],
        env=site.env, capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    seen = json.loads(done.stdout)
    assert seen["born"] == []
    foreign = {name.partition(".")[0] for name in seen["modules"]} - {"__main__", "slurm_flex"}
    assert foreign <= set(sys.stdlib_module_names)
    ours = {name for name in seen["modules"] if name.startswith("slurm_flex.")}
    names = "folders hooks hook_site oneshot spool wake".split()
    assert ours == {f"slurm_flex.{name}" for name in names}


def test_without_a_daemon_a_hook_forks_once_and_the_rest_is_detached(site: Site) -> None:
    site.install_program(["exit 0"])
    script = str(site.root / "scripts" / "suspend.py")
    done = subprocess.run(
        [sys.executable, "-IS", "-c", WATCHED, script, "c1-gx-2"],
        env=site.env, capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["born"] == ["os.fork"]
