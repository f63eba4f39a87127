"""The doctor's look at Slurm and at this host."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from slurm_flex import status_file
from slurm_flex.cluster import Pool, load_cluster
from slurm_flex.cluster.settings import parse_settings
from slurm_flex.cluster.site import Site
from slurm_flex.cluster.storage import Share
from slurm_flex.compute.errors import PermissionDenied, Unreachable
from slurm_flex.compute.provision import ProvisionPlan, Step, StepKind
from slurm_flex.doctor import groups, host, is_fine
from slurm_flex.doctor import slurm as slurm_side
from slurm_flex.doctor.check import Check, Status, error, guarded, ok, skipped, warn
from slurm_flex.doctor.examine import examine
from slurm_flex.doctor.hooks import Account, missing_interpreter, obstacle
from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.model import CloudError
from slurm_flex.render.full import render_full
from slurm_flex.render.installed import installed

NOW = datetime(2026, 12, 1, 12, tzinfo=timezone.utc)
CLUSTER = load_cluster(Path(__file__).parents[3] / "etc" / "cluster_config.json")
RELEASE = "24.11.5"
SCONTROL = """#!{python}
import os, sys
if sys.argv[1:] == ["-V"]:
    print("slurm 24.11.5")
elif sys.argv[1:] == ["show", "config"]:
    if os.path.exists({config!r}):
        print(open({config!r}).read())
    else:
        sys.exit("slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)")
elif sys.argv[1:3] == ["show", "node"]:
    for name in {nodes!r}:
        print(f"NodeName={{name}} State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=2 BootTime=None")
elif sys.argv[1:3] == ["show", "hostnames"]:
    print("x")
"""


class Controller:
    """A controller as its files show it: slurm.conf, and what `scontrol show config` prints."""

    def __init__(self, folder: Path, static: int = 0) -> None:
        self.folder = folder
        self.config_file = folder / "config"
        bin_dir = folder / "bin"
        bin_dir.mkdir()
        scontrol = bin_dir / "scontrol"
        self.scontrol = scontrol
        self.knows("demo-a3u-0", "demo-a3u-1")
        scontrol.chmod(0o755)
        install = folder / "opt"
        (install / "scripts").mkdir(parents=True)
        self.hooks = [install / "scripts" / name for name in ("resume.py", "suspend.py")]
        for hook in self.hooks:
            hook.write_text("#!/usr/bin/python3\n")
            hook.chmod(0o755)
        settings = parse_settings(
            {
                "slurm_bin_dir": str(bin_dir),
                "slurm_conf": str(folder / "slurm.conf"),
                "install_dir": str(install),
                "run_dir": str(folder / "run"),
                "state_dir": str(folder / "state"),
                "endpoint": "http://127.0.0.1:1",
                "credentials": "anonymous",
                "cloud_timeout": "1s",
            }
        )
        pools = tuple(
            replace(item, min_node_count=static if not item.is_login else item.min_node_count)
            for item in CLUSTER.pools
        )
        cluster = replace(CLUSTER, pools=pools)
        self.site = Site(cluster, settings, folder / "cluster_config.json", None)
        (folder / "slurm-flex.toml").write_text(
            f'run_dir = "{settings.run_dir}"\nstate_dir = "{settings.state_dir}"\n'
        )
        for name, text in render_full(cluster, settings, RELEASE, "localhost").items():
            (folder / name).write_text(text)
        self.here = installed(settings, {"PATH": "/usr/bin:/bin"})
        self.commands = self.here.commands
        resume, suspend = map(str, self.hooks)
        self.values: dict[str, str] = {
            "Epilog[0]": str(install / "scripts/epilog.py"),
            "GresTypes": "gpu",
            "HealthCheckProgram": str(install / "scripts/health.py"),
            "Prolog[0]": str(install / "scripts/prolog.py"),
            "PrologFlags": "Alloc,Contain",
            "ResumeFailProgram": suspend,
            "ResumeProgram": resume,
            "ResumeTimeout": "21600 sec",
            "ReturnToService": "2",
            "SchedulerParameters": "nohold_on_prolog_fail",
            "SelectType": "select/cons_tres",
            "SlurmUser": f"somebody({os.getuid()})",
            "SlurmctldParameters": "idle_on_node_suspend,enable_configless",
            "CommunicationParameters": "NoAddrCache",
            "SuspendExcNodes": "demo-a3u-[0-1]" if static else "(null)",
            "SuspendProgram": suspend,
            "SuspendTimeout": "60 sec",
            "TreeWidth": "65533",
            "SLURM_VERSION": RELEASE,
        }

    def knows(self, *nodes: str) -> None:
        """Let slurmctld know exactly these nodes."""
        text = SCONTROL.format(python=sys.executable, config=str(self.config_file), nodes=nodes)
        self.scontrol.write_text(text)

    def running(self, **changes: str) -> list[Check]:
        """What the doctor says with these values in force."""
        lines = [f"{key:24} = {value}" for key, value in {**self.values, **changes}.items()]
        text = "\n".join(["Configuration data as of 2026-12-01T12:00:00", *sorted(lines)])
        self.config_file.write_text(text)
        return list(
            guarded(slurm_side.RUNNING, lambda: slurm_side.running_config(self.site, self.here))
        )


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    return Controller(tmp_path)


def wrong(checks: Iterable[Check]) -> list[Check]:
    return [check for check in checks if check.status is not Status.OK]


def test_a_controller_with_all_that_is_needed_is_fine(controller: Controller) -> None:
    found = controller.running()

    assert wrong(found) == []
    assert {check.name for check in found} == {"slurmctld", "hooks"}


@pytest.mark.parametrize(
    ("key", "value", "status", "fix"),
    [
        ("SlurmctldParameters", "enable_configless", Status.ERROR, "idle_on_node_suspend"),
        ("SlurmctldParameters", "(null)", Status.ERROR, "idle_on_node_suspend,enable_configless"),
        ("ReturnToService", "0", Status.ERROR, "ReturnToService=2"),
        ("JobRequeue", "0", Status.ERROR, "JobRequeue=1"),
        ("SchedulerParameters", "bf_interval=5", Status.ERROR, "bf_interval=5,nohold_on_prolog"),
        ("TreeWidth", "1", Status.WARN, "TreeWidth=65533"),
        ("ResumeTimeout", "60 sec", Status.WARN, "slurm-flex render"),
        ("SuspendTimeout", "300 sec", Status.WARN, "slurm-flex render"),
        ("ResumeProgram", "(null)", Status.ERROR, "slurm-flex render"),
        ("SuspendProgram", "/opt/other/suspend", Status.ERROR, "slurm-flex render"),
    ],
)
def test_what_slurmctld_lacks_is_said_with_the_line_to_write(
    controller: Controller, key: str, value: str, status: Status, fix: str
) -> None:
    found = [check for check in wrong(controller.running(**{key: value})) if key in check.text]

    assert {check.status for check in found} == {status}
    assert fix in found[-1].fix


def test_releases_before_23_02_must_show_cloud_nodes(controller: Controller) -> None:
    assert "PrivateData" not in str(controller.running(SLURM_VERSION="23.02.1"))

    found = controller.running(SLURM_VERSION="22.05.8", PrivateData="jobs")

    (missing,) = [check for check in found if "PrivateData" in check.text]
    assert missing.status is Status.ERROR
    assert "PrivateData=jobs,cloud" in missing.fix


@pytest.mark.parametrize(
    ("excluded", "fine"),
    [
        ("demo-a3u-[0-1]", True),
        ("other,demo-a3u-[0,1]", True),
        ("(null)", False),
        ("demo-a3u-0", False),
        ("demo-a3u-[0-1]:1", False),
    ],
)
def test_static_nodes_must_be_kept_from_suspension(
    tmp_path: Path, excluded: str, fine: bool
) -> None:
    found = wrong(Controller(tmp_path, static=2).running(SuspendExcNodes=excluded))

    assert (found == []) is fine
    assert fine or "static nodes would be suspended" in found[0].text


def test_a_slurmctld_that_doesnt_answer_is_an_error_with_what_to_do(
    controller: Controller,
) -> None:
    (found,) = guarded(
        slurm_side.RUNNING,
        lambda: slurm_side.running_config(controller.site, controller.here),
    )

    assert found.status is Status.ERROR
    assert "slurmctld" in found.fix


def test_a_slurm_conf_that_fits_is_fine_and_one_that_lacks_a_line_is_told(
    controller: Controller,
) -> None:
    def look() -> list[Check]:
        return list(slurm_side.slurm_conf(controller.site, controller.here))

    assert wrong(look()) == []
    conf = controller.folder / "slurm.conf"
    conf.write_text(conf.read_text().replace("ReturnToService=2", "ReturnToService=0"))

    (found,) = wrong(look())
    assert "ReturnToService=2" in found.fix
    assert found.status is Status.ERROR


def test_a_hook_that_slurmuser_cant_execute_is_an_error(controller: Controller) -> None:
    controller.hooks[0].chmod(0o644)

    found = wrong(controller.running())

    assert [check.name for check in found] == ["hooks"]
    assert "may not read and execute it" in found[0].text
    controller.hooks[0].unlink()
    assert "No such file" in wrong(controller.running())[0].text


def test_a_hook_whose_interpreter_is_missing_is_an_error(controller: Controller) -> None:
    controller.hooks[0].write_text("#!/usr/bin/python9 -IS\n")

    (found,) = wrong(controller.running())

    assert found.status is Status.ERROR
    assert "is run by /usr/bin/python9, which isn't there" in found.text
    assert missing_interpreter(controller.hooks[1]) == ""


def test_hooks_that_would_read_other_settings_are_an_error(controller: Controller) -> None:
    """slurmctld gives them SLURM_CONF alone: a file elsewhere is found by commands only."""
    (controller.folder / "slurm-flex.toml").unlink()

    found = wrong(controller.running())

    assert {check.status for check in found} == {Status.ERROR}
    assert any(f"not {controller.site.settings.run_dir}" in check.text for check in found)
    assert f"beside {controller.folder}/slurm.conf" in found[0].fix


@pytest.mark.parametrize("closed", ["run", "run/spool"])
def test_a_folder_of_ours_that_slurmuser_cant_write_is_an_error(
    controller: Controller, closed: str
) -> None:
    run_dir = Path(controller.site.settings.run_dir)
    (run_dir / "spool").mkdir(parents=True)
    for folder in ("run", "run/spool"):
        (controller.folder / folder).chmod(0o755 if folder == closed else 0o777)
    assert wrong(controller.running()) == []

    (found,) = wrong(controller.running(SlurmUser="somebody(4711)"))[-1:]

    assert f"may not write into {controller.folder / closed}" in found.text
    assert f"chown -R somebody: {run_dir}" in found.fix
    assert "User=" in found.fix


@pytest.mark.parametrize(
    ("release", "fix"),
    [
        ("24.11.5", "slurm-flex render, then scontrol reconfigure"),
        ("22.05.8", "slurm-flex render, then systemctl restart slurmctld (not reconfigure"),
    ],
)
def test_nodes_that_slurmctld_hasnt_taken_in_are_named(
    controller: Controller, release: str, fix: str
) -> None:
    controller.knows("demo-a3u-0", "other")
    shown = {"SLURM_VERSION": release, "PrivateData": "cloud"}
    if release < "23.11":
        shown["SlurmctldParameters"] = "idle_on_node_suspend,enable_configless,cloud_reg_addrs"

    (found,) = wrong(controller.running(**shown))

    assert found.text == "slurmctld doesn't know demo-a3u-1 of the cluster file"
    assert found.fix.startswith(fix)


def test_a_slurmctld_that_checks_no_nodes_is_a_warning(controller: Controller) -> None:
    (found,) = wrong(controller.running(**{"Prolog[0]": "/opt/site/prolog"}))

    assert found.status is Status.WARN
    assert "Prolog is /opt/site/prolog, not" in found.text


def test_without_a_slurm_conf_slurmctld_isnt_asked(controller: Controller) -> None:
    (controller.folder / "slurm.conf").unlink()

    (found,) = controller.running()

    assert found.status is Status.SKIPPED


SOMEBODY = Account("somebody", 4711, frozenset({4712}))


@pytest.mark.parametrize(
    ("mode", "fine"),
    [(0o755, True), (0o700, False), (0o705, True), (0o711, False), (0o744, False)],
)
def test_mode_bits_decide_for_a_stranger(tmp_path: Path, mode: int, fine: bool) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    program = tmp_path / "hook"
    program.write_text("")
    program.chmod(mode)

    assert (obstacle(program, SOMEBODY) == "") is fine


def test_a_folder_that_cant_be_entered_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = closed / "hook"
    program.write_text("")
    program.chmod(0o755)

    assert "may not enter" in obstacle(program, SOMEBODY)
    assert obstacle(Path("hook"), SOMEBODY) == "is no absolute path"


def daemon_check(site: Site, *, pools: Sequence[dict[str, Any]] = (), **told: Any) -> Check:
    run_dir = Path(site.settings.run_dir)
    status = {
        "format": status_file.FORMAT,
        "daemon": {"heartbeat": None, "errors": [], **told},
        "pools": list(pools),
    }
    status_file.write(run_dir, status)
    (found,) = host.daemon(site, NOW)
    return found


def test_a_daemon_is_alive_by_its_last_good_pass(controller: Controller) -> None:
    (silent,) = host.daemon(controller.site, NOW)
    assert silent.status is Status.ERROR
    assert "systemctl" in silent.fix

    fresh = (NOW - timedelta(seconds=20)).isoformat().replace("+00:00", "Z")
    old = (NOW - timedelta(minutes=20)).isoformat()
    assert daemon_check(controller.site, heartbeat=fresh).status is Status.OK
    assert daemon_check(controller.site, heartbeat=old).status is Status.ERROR
    assert daemon_check(controller.site, heartbeat=None, errors=["x"]).status is Status.ERROR
    noisy = daemon_check(controller.site, heartbeat=fresh, errors=["pool gx: forbidden"])
    assert (noisy.status, noisy.text) == (Status.WARN, "pool gx: forbidden")
    assert "standing by" in daemon_check(controller.site, heartbeat=fresh, acting=False).text


def test_a_daemon_that_has_an_older_cluster_file_is_told_to_reload(
    controller: Controller,
) -> None:
    fresh = NOW.isoformat()
    pools = [{"pool": "a3u", "nodes": 2, "static": 0, "zone": "us-central1-b"}]
    assert daemon_check(controller.site, pools=pools, heartbeat=fresh).status is Status.OK
    pools[0]["nodes"] = 4

    found = daemon_check(controller.site, pools=pools, heartbeat=fresh)

    assert (found.status, found.fix) == (Status.WARN, "systemctl reload slurm-flex")
    assert "a3u" in found.text


def test_a_name_is_looked_up_quickly_found_or_not(controller: Controller) -> None:
    (found,) = host.resolver(controller.site)

    assert found.status in (Status.OK, Status.WARN)
    assert "demo-a3u-0" in found.text


def raising(problem: FlexError) -> Iterator[Check]:
    raise problem
    yield


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (PermissionDenied(CloudError("forbidden", "no")), Status.SKIPPED),
        (Unreachable(CloudError("timeout", "slow")), Status.SKIPPED),
        (FlexError("broken", where="file", fix="mend it"), Status.ERROR),
    ],
)
def test_what_cant_be_seen_is_skipped_and_what_is_broken_is_an_error(
    problem: FlexError, status: Status
) -> None:
    (found,) = guarded("name", lambda: raising(problem))

    assert (found.name, found.status) == ("name", status)


def test_many_errors_are_many_checks() -> None:
    found = guarded("x", lambda: raising(InputErrors([FlexError("a"), FlexError("b", where="w")])))

    assert [check.text for check in found] == ["a", "w: b"]


def test_only_errors_are_wrong() -> None:
    fine = [ok("a", "x"), warn("b", "x", "y"), skipped("c", "x")]

    assert is_fine(fine)
    assert not is_fine([*fine, error("d", "x")])
    assert json.loads(json.dumps(fine[1].as_json())) == {
        "name": "b",
        "status": "warn",
        "text": "x",
        "fix": "y",
    }


class Planned:
    """A workshop that has a plan."""

    def __init__(self, plan: ProvisionPlan) -> None:
        self._plan = plan

    def plan(self) -> ProvisionPlan:
        return self._plan


def test_an_obstacle_is_an_error_and_a_note_a_warning() -> None:
    step = Step(StepKind.CREATE_GROUP, "demo-a3u", pool="a3u", zone="us-central1-b")
    other = Step(StepKind.DELETE_GROUP, "demo-old", zone="us-central1-b", why="empty")
    plan = ProvisionPlan((step, other), ("not ours", "goes when empty"), ("not ours",))

    found = list(groups.templates_and_groups(CLUSTER, Planned(plan)))

    assert [(check.status, check.text) for check in found] == [
        (Status.ERROR, "not ours"),
        (Status.WARN, "goes when empty"),
        (Status.WARN, "create group demo-a3u in us-central1-b"),
        (Status.WARN, "delete group demo-old in us-central1-b (empty)"),
    ]


def test_a_template_that_vms_may_still_use_is_no_fault() -> None:
    old = Step(StepKind.DELETE_TEMPLATE, "demo-old-12345678", why="out of use")

    (found,) = groups.templates_and_groups(CLUSTER, Planned(ProvisionPlan((old,))))

    assert found.status is Status.OK
    assert "1 old templates go with the next" in found.text


class NoScripts:
    """Startup scripts of a site that mounts nothing."""

    def __call__(self, pool: Pool) -> str:
        return ""

    def shares(self) -> dict[str, Share]:
        return {}


def test_without_a_cloud_the_rest_is_looked_at_all_the_same(controller: Controller) -> None:
    controller.running()

    found = examine(controller.site, NoScripts(), {"PATH": "/usr/bin:/bin"}, NOW)

    by_name = {check.name: check for check in found}
    assert by_name["Compute Engine"].status is Status.ERROR
    assert by_name["cloud"].status is Status.SKIPPED
    assert by_name["slurm.conf"].status is Status.OK
    assert by_name["slurmctld"].status is Status.OK
    assert by_name["daemon"].status is Status.ERROR
    assert by_name["clock"].status is Status.SKIPPED
    assert not is_fine(found)
