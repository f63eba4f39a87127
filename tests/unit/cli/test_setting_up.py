"""init, render, apply, doctor: what a new operator types, with no Slurm and no cloud at hand."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_flex.cluster import load_cluster
from slurm_flex.cluster.site import load_site
from tests.unit.cli.conftest import Done, Site

FLAGS = (
    "--project my-project --zone us-central1-b --nodes 4 --home home1 "
    "--image projects/my-project/global/images/family/slurm"
).split()
EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster_config.json"


@pytest.fixture
def slurm(site: Site, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a slurm.conf, and an scontrol that says its release and finds no fault."""
    programs = site.folder / "bin"
    programs.mkdir()
    scontrol = programs / "scontrol"
    scontrol.write_text(
        '#!/bin/sh\necho "$SLURM_CONF $*" >>"$0.calls"\n'
        'case "$1" in -V) echo slurm-wlm 24.11.5;; ping) exit 1;;\n'
        'show) [ "$2" = node ] && cat "$0.nodes" 2>/dev/null || { [ "$2" = hostnames ]; }; esac\n'
    )
    scontrol.chmod(0o755)
    conf = site.folder / "etc" / "slurm.conf"
    conf.parent.mkdir()
    with (site.folder / "slurm-flex.toml").open("a") as settings:
        settings.write(f'slurm_bin_dir = "{programs}"\nslurm_conf = "{conf}"\n')
    (site.folder / "cluster_config.json").write_text(EXAMPLE.read_text())
    return conf


def resize(site: Site, least: int, most: int) -> None:
    path = site.folder / "cluster_config.json"
    data = json.loads(path.read_text())
    data["node_pools"][1]["scaling_spec"] = {"min_node_count": least, "max_node_count": most}
    path.write_text(json.dumps(data))


def runs(site: Site, *nodes: str) -> None:
    """Let scontrol show these nodes as busy."""
    lines = [f"NodeName={n} State=IDLE+CLOUD ThreadsPerCore=2 BootTime=None\n" for n in nodes]
    (site.folder / "bin" / "scontrol.nodes").write_text("".join(lines))


class TestInit:
    def test_flags_make_two_files_that_are_read_without_a_complaint(
        self, site: Site, tmp_path: Path
    ) -> None:
        folder = tmp_path / "new"
        done = site.call("init", "demo", *FLAGS, "--folder", str(folder), "--no-check")
        assert done.code == 0, done.err
        found = load_site({"SLURM_FLEX_CONFIG": str(folder / "slurm-flex.toml")})
        assert found.cluster == load_cluster(folder / "cluster_config.json")
        assert (found.cluster.id, found.cluster.pools[1].max_node_count) == ("demo", 4)
        assert f"export SLURM_FLEX_CONFIG={folder}/slurm-flex.toml" in done.out
        assert found.settings.install_dir == str(EXAMPLE.parents[1]), "where this runs from"
        again = site.call("init", "demo", *FLAGS, "--folder", str(folder))
        assert again.code == 1
        assert again.err.count("is there already") == 2

    def test_what_is_needed_and_not_given_is_named_where_nobody_can_be_asked(
        self, site: Site, tmp_path: Path
    ) -> None:
        done = site.call("init", "demo", "--folder", str(tmp_path / "new"))
        assert done.code == 1
        for flag in ("--project", "--home", "--image"):
            assert f"{flag}: is needed" in done.err
        assert not (tmp_path / "new").exists()

    def test_a_machine_type_that_is_none_is_guessed(self, site: Site, tmp_path: Path) -> None:
        wrong = ["--machine-type", "a3-ultragpu-9g"]
        done = site.call("init", "demo", *FLAGS, *wrong, "--folder", str(tmp_path / "new"))
        assert done.code == 1
        assert "did you mean a3-ultragpu-8g?" in done.err

    def test_then_it_says_what_is_missing_around_the_files(
        self, site: Site, tmp_path: Path
    ) -> None:
        done = site.call("init", "demo", *FLAGS, "--folder", str(tmp_path / "new"))
        assert done.code == 0, done.err
        assert "# slurm-flex render --check" in done.out
        assert "# slurm-flex doctor" in done.out
        assert "daemon: there is no status yet" in done.out

    def test_at_a_terminal_it_asks_for_what_is_not_given(self, tmp_path: Path) -> None:
        answers = {
            "project id": "my-project\n",
            "Zone": "\n",
            "Machine type of the compute": "h4d-standard-192\n",
            "/home": "home1\n",
            "Image": "projects/p/global/images/family/f\n",
        }
        said = at_a_terminal(
            ["init", "demo", "--nodes", "3", "--no-check", "--folder", str(tmp_path / "new")],
            answers,
        )
        cluster = load_cluster(tmp_path / "new" / "cluster_config.json")
        assert cluster.id == "demo"
        assert (cluster.project, cluster.region) == ("my-project", "us-central1")
        pool = cluster.pool("h4ds")
        assert pool is not None
        assert pool.max_node_count == 3
        assert "Cluster id" not in said, "what was given isn't asked"

    def test_a_wrong_answer_can_be_put_right(self, tmp_path: Path) -> None:
        answers = {
            "project id": "my-project\n",
            "Zone": "us-central1\n",
            "/home": "home1\n",
            "Image": "projects/p/global/images/family/f\n",
            "once more": "\n",
            "[us-central1]": "us-central1-a\n",
        }
        said = at_a_terminal(["init", "--no-check", "--folder", str(tmp_path / "new")], answers)
        assert "a zone such as" in said
        cluster = load_cluster(tmp_path / "new" / "cluster_config.json")
        assert (cluster.project, cluster.pools[1].zone) == ("my-project", "us-central1-a")


class TestRender:
    def test_a_fresh_controller_gets_a_whole_slurm_conf_once(self, site: Site, slurm: Path) -> None:
        done = site.call("render", "--full")
        assert done.code == 0, done.err
        assert f"written: {slurm}" in done.out
        assert next_steps(done) == ["slurm-flex render --check", "systemctl restart slurmctld"]
        assert site.call("render", "--check").out == f"{slurm} fits\n"
        slurm.write_text(slurm.read_text() + "MessageTimeout=30\n")
        again = site.call("render", "--full")
        assert f"left alone: {slurm} (it isn't slurm-flex's" in again.out
        assert "MessageTimeout=30" in slurm.read_text()

    def test_the_check_asks_the_sites_own_scontrol(self, site: Site, slurm: Path) -> None:
        site.call("render", "--full")
        site.call("render", "--check")
        calls = (site.folder / "bin" / "scontrol.calls").read_text().splitlines()
        assert f"{slurm} show hostnames x" in calls

    def test_without_a_slurm_conf_it_says_how_to_get_one(self, site: Site, slurm: Path) -> None:
        done = site.call("render", "--check")
        assert done.code == 1
        assert "slurm-flex render --full" in done.err
        assert f"next: write `Include slurm-flex.conf` into {slurm}" in site.call("render").out

    def test_more_nodes_are_told_and_written(self, site: Site, slurm: Path) -> None:
        site.call("render", "--full")
        resize(site, 1, 4)
        done = site.call("render")
        assert "+ demo-a3u-[2-3]: new, off until a job wants them" in done.out
        assert "~ demo-a3u-0: static from now on" in done.out
        assert next_steps(done) == [
            "slurm-flex render --check", "scontrol reconfigure", "systemctl reload slurm-flex",
        ]  # fmt: skip
        assert "demo-a3u-[1-3]" in (slurm.parent / "slurm-flex.conf").read_text()
        quiet = site.call("render")
        assert quiet.out.count("as it was") == 2
        assert "next" not in quiet.out

    def test_an_old_slurmctld_is_restarted_where_nodes_change(
        self, site: Site, slurm: Path
    ) -> None:
        """A reconfigure that brings other nodes ends slurmctld before 23.11."""
        site.call("render", "--full", "--release", "22.05")
        resize(site, 1, 2)
        same = site.call("render", "--release", "22.05")
        assert next_steps(same)[1] == "scontrol reconfigure"
        resize(site, 1, 3)
        other = site.call("render", "--release", "22.05")
        assert next_steps(other)[1].startswith("systemctl restart slurmctld (not reconfigure")

    def test_a_node_that_runs_stays_until_it_is_off(self, site: Site, slurm: Path) -> None:
        resize(site, 0, 4)
        site.call("render", "--full")
        resize(site, 0, 2)
        runs(site, "demo-a3u-0", "demo-a3u-3")
        done = site.call("render", "--json")
        assert done.data["follows"] == [
            "- demo-a3u-3: leaving: drained, in slurm.conf until they are idle and off; "
            "then render again",
            "- demo-a3u-2: off: taken out",
        ]
        conf = slurm.parent / "slurm-flex.conf"
        assert "NodeName=demo-a3u-3 " in conf.read_text()
        assert site.call("render", "--check").code == 0
        runs(site, "demo-a3u-0")
        site.call("render")
        assert "demo-a3u-3" not in conf.read_text()

    def test_where_slurmctld_does_not_answer_all_stay(self, site: Site, slurm: Path) -> None:
        resize(site, 0, 4)
        site.call("render", "--full")
        resize(site, 0, 2)
        done = site.call("render")
        assert "slurmctld doesn't answer" in done.err
        assert "NodeName=demo-a3u-[2-3] " in (slurm.parent / "slurm-flex.conf").read_text()

    def test_what_is_printed_is_not_written(self, site: Site, slurm: Path) -> None:
        done = site.call("render", "--print", "--release", "24.11")
        assert "NodeName=demo-a3u-[0-1]" in done.out
        files = site.call("render", "--print", "--full", "--json").data
        assert {"slurm.conf", "slurm-flex.conf", "gres.conf", "cgroup.conf"} == set(files)
        assert not any(slurm.parent.iterdir())

    def test_somebody_elses_gres_conf_is_left_alone(self, site: Site, slurm: Path) -> None:
        (slurm.parent / "gres.conf").write_text("AutoDetect=nvml\n")
        done = site.call("render")
        assert f"left alone: {slurm.parent}/gres.conf" in done.out
        assert (slurm.parent / "gres.conf").read_text() == "AutoDetect=nvml\n"

    def test_hooks_that_are_not_on_this_host_are_noted(self, site: Site, slurm: Path) -> None:
        assert "set install_dir" in site.call("render").err
        with (site.folder / "slurm-flex.toml").open("a") as settings:
            settings.write(f'install_dir = "{EXAMPLE.parents[1]}"\n')
        assert "install_dir" not in site.call("render").err

    def test_a_folder_that_is_not_there_is_named(self, site: Site, slurm: Path) -> None:
        done = site.call("render", "--folder", str(site.folder / "none"))
        assert done.code == 1
        assert "no such folder" in done.err


def next_steps(done: Done) -> list[str]:
    return [line.removeprefix("next: ") for line in done.out.splitlines() if line[:5] == "next:"]


def at_a_terminal(arguments: list[str], answers: dict[str, str]) -> str:
    """Run a command at a terminal and answer its questions, Enter to all others; what it said."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "slurm_flex.cli.main", *arguments])
    said, begun, deadline = "", 0, time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 1)
        if not ready:
            continue
        try:
            said += os.read(terminal, 4096).decode()
        except OSError:  # the other end is closed
            break
        question = said[begun:]
        if question.rstrip(" ").endswith(":"):
            asked = question.splitlines()[-1]
            fits = [text for words, text in answers.items() if words in asked]
            answer = fits[-1] if fits else "\n"
            os.write(terminal, answer.encode())
            begun = len(said)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0, said
    return said


def test_apply_asks_nobody_with_json(site: Site, slurm: Path) -> None:
    done = site.call("apply", "--destroy", "--json")
    assert done.code == 1
    assert "--yes" in done.err


def test_the_example_is_valid_by_the_printed_schema(site: Site) -> None:
    schema = json.loads(site.call("render", "--schema").out)
    assert schema["type"] == "object"
    done = subprocess.run(
        [sys.executable, "-c",
         "import json, sys, jsonschema; jsonschema.validate(*map(json.loads, sys.argv[1:]))",
         EXAMPLE.read_text(), json.dumps(schema)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
