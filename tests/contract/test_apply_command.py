"""slurm-flex apply, as it is typed: what it says, what it does, how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from slurm_flex import status_file
from slurm_flex.cli.main import run
from slurm_flex.cluster.site import load_site
from slurm_flex.emulator.launcher import Emulator
from slurm_flex.render.conf import render_slurm_conf

EXAMPLE = Path(__file__).parents[2] / "etc" / "cluster_config.json"
FAST = {"op_delay": "0.02s", "provision_delay": "0.02s", "boot_delay": "0.02s",
        "stopping_delay": "0.02s"}  # fmt: skip


class Site:
    """A cluster file, settings that lead to an emulator, and the command."""

    def __init__(self, folder: Path, emulator: Emulator, said: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.emulator = emulator
        self.cluster_file = folder / "cluster_config.json"
        self._said = said
        self.change(lambda _: None)
        (folder / "slurm-flex.toml").write_text(
            f'endpoint = "{emulator.url}"\ncredentials = "anonymous"\n'
            'node_image = "projects/example-project/global/images/family/slurm"\n'
            f'slurm_conf = "{folder}/slurm.conf"\nslurm_bin_dir = "{folder}"\n'
            f'run_dir = "{folder}/run"\nconf_server = "controller"\n'
        )

    def change(self, how: Any) -> None:
        data = json.loads(EXAMPLE.read_text())
        how(data["node_pools"])
        self.cluster_file.write_text(json.dumps(data))

    def apply(self, *arguments: str, code: int = 0) -> str:
        try:
            ended = run(["apply", *arguments])
        except SystemExit as end:
            ended = int(end.code or 0)
        out, self.err = self._said.readouterr()
        assert ended == code, f"{out}\n{self.err}"
        return out

    def there(self) -> dict[str, list[str]]:
        world = self.emulator.world()
        return {
            "groups": sorted(one["name"] for one in world["groups"]),
            "vms": sorted(one["name"] for one in world["instances"]),
        }


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Site]:
    monkeypatch.setenv("SLURM_FLEX_CONFIG", str(tmp_path / "slurm-flex.toml"))
    with Emulator(knobs=FAST) as emulator:
        yield Site(tmp_path, emulator, capsys)


def bigger_disk(pools: list[dict[str, Any]]) -> None:
    pools[1]["boot_disk"]["boot_disk_size_gb"] = 300


def two_logins(pools: list[dict[str, Any]]) -> None:
    pools[0]["scaling_spec"] = {"min_node_count": 2, "max_node_count": 2}


def test_the_guides_example_is_shown_made_and_verified(site: Site) -> None:
    shown = site.apply("--dry-run").splitlines()
    assert [line.split()[:3] for line in shown] == [
        ["would", "create", "template"],
        ["would", "create", "template"],
        ["would", "create", "group"],
        ["would", "create", "group"],
        ["would", "create", "login"],
    ]
    assert site.there() == {"groups": [], "vms": []}

    made = site.apply()

    assert made.splitlines()[-1] == "verified by reading back"
    assert site.there() == {"groups": ["demo-a3u", "demo-login"], "vms": ["demo-login-0"]}
    assert site.apply() == "all is as the cluster file says\n"


def test_drift_is_shown_part_by_part_and_mended(site: Site) -> None:
    site.apply()
    site.change(bigger_disk)

    shown = site.apply("--dry-run")

    assert "(disks[0].initialize_params.disk_size_gb: 200 -> 300)" in shown
    assert "would change group demo-a3u in us-central1-b (instance_template: " in shown
    assert "(out of use)" in shown
    assert "demo-login" not in shown
    told = json.loads(site.apply("--json"))
    assert {step["stage"] for step in told["steps"]} == {"done"}
    assert told["left"] == []
    assert site.apply() == "all is as the cluster file says\n"


def test_another_startup_script_is_named_and_not_printed(site: Site) -> None:
    site.apply()
    site.change(lambda pools: pools[1].update(startup_script="#!/bin/sh\necho secret-of-mine\n"))

    shown = site.apply("--dry-run")

    assert "(another startup script)" in shown
    assert "secret-of-mine" not in shown


def test_the_login_pool_grows_and_shrinks(site: Site) -> None:
    site.apply()
    site.change(two_logins)
    assert "create login node demo-login-1" in site.apply()
    assert site.there()["vms"] == ["demo-login-0", "demo-login-1"]
    site.change(lambda _: None)
    assert "delete login node demo-login-1" in site.apply()
    assert site.there()["vms"] == ["demo-login-0"]


def test_what_follows_in_slurm_is_said(site: Site) -> None:
    site.apply()
    found = load_site({"SLURM_FLEX_CONFIG": str(site.folder / "slurm-flex.toml")})
    for name, text in render_slurm_conf(found.cluster, found.settings, "24.11").items():
        (site.folder / name).write_text(text)
    site.change(lambda pools: pools[1]["scaling_spec"].update(min_node_count=1, max_node_count=3))

    said = site.apply("--dry-run").splitlines()

    assert said == [
        "in Slurm, by `slurm-flex render` and `systemctl reload slurm-flex`:",
        "  + demo-a3u-2: new, off until a job wants them",
        "  ~ demo-a3u-0: static from now on: asked for at once, and kept up",
        "all is as the cluster file says",
    ]
    assert len(json.loads(site.apply("--json"))["follows"]) == 2


def test_destroy_shows_first_and_asks(site: Site) -> None:
    site.apply()
    there = site.there()

    said = site.apply("--destroy", code=1)

    assert "will delete group demo-login in us-central1-b (with demo-login-0)" in said
    assert "nobody to ask (--yes)" in site.err
    assert site.there() == there
    assert "with --json nobody is asked" in (site.apply("--destroy", "--json", code=1) or site.err)
    would = site.apply("--destroy", "--dry-run")
    assert would.count("would delete template") == 2
    assert site.there() == there


def test_destroy_with_yes_leaves_nothing_of_ours_and_all_else(site: Site) -> None:
    site.apply()

    done = site.apply("--destroy", "--yes").splitlines()

    assert [line for line in done if line.startswith("done")] == [
        line.replace("started", "done") for line in done if line.startswith("started")
    ]
    kinds = [line.split()[2] for line in done if line.startswith("done")]
    assert kinds == ["group", "group", "template", "template"]
    assert site.there() == {"groups": [], "vms": []}
    assert site.apply("--destroy", "--yes") == "nothing is left\n"


def test_destroy_tells_of_a_daemon_that_would_make_it_all_again(site: Site) -> None:
    site.apply()
    now = datetime.now(timezone.utc).isoformat()
    status = {"format": status_file.FORMAT, "daemon": {"heartbeat": now, "errors": []}}
    status_file.write(site.folder / "run", status)

    site.apply("--destroy", "--dry-run")

    assert "systemctl stop slurm-flex" in site.err


def test_a_step_that_fails_is_said_and_ends_with_1(site: Site) -> None:
    site.emulator.faults.set("permission_denied", method="instanceGroupManagers.insert")

    site.apply(code=1)

    assert "failed: create group demo-a3u" in site.err
    assert "steps are left" in site.err


def test_storage_that_is_gone_is_named_once(site: Site) -> None:
    site.emulator.knobs.set(filestores={})

    site.apply(code=1)

    assert site.err.count("instances/home: it couldn't be looked up: HTTP 404") == 1
