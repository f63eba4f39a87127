"""prolog.py, epilog.py and health.py as slurmd calls them: by path, with almost no environment."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from health_builders import alive, program

NODE = "c1-gx-1"
ALL_GPUS = {"SLURM_JOB_GPUS": "0,1,2,3,4,5,6,7"}
PYENV = Path.home() / ".pyenv/versions"  # the oldest Python that a node may have, if it is here
INTERPRETERS = [
    (),
    ("/usr/bin/python3", "-I"),
    *[
        (str(path), "-I")
        for path in sorted((Path.home() / ".pyenv/versions").glob("3.9*/bin/python3"))
    ],
]


@pytest.mark.parametrize("interpreter", INTERPRETERS, ids=str)
def test_a_healthy_node_takes_the_job_and_scontrol_is_not_called(install, interpreter):
    done = install.run("prolog", interpreter=interpreter)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert install.scontrol.calls() == []
    assert install.events() == []


@pytest.mark.parametrize("script", ["prolog", "epilog", "health"])
def test_the_scripts_are_executable_and_isolated(install, script):
    path = install.folder / "scripts" / f"{script}.py"
    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!/usr/bin/python3 -I")
    evil = install.folder / "evil"
    (evil / "json").mkdir(parents=True)
    (evil / "json/__init__.py").write_text("raise SystemExit(99)")
    assert install.run(script, PYTHONPATH=str(evil), PYTHONHOME="/x").returncode == 0


@pytest.mark.parametrize("interpreter", INTERPRETERS, ids=str)
def test_a_gpu_off_the_bus_drains_the_node_and_gives_the_job_back(install, interpreter):
    install.gpus.fell_off_the_bus(NODE, 3)
    done = install.run("prolog", interpreter=interpreter)
    assert done.returncode == 1
    reason = (
        "slurm-flex:health: gpu-count: 7 of 8 GPUs answer, "
        "but not 0000:5B:00.0 (Unknown Error) (prolog; also xid)"
    )
    assert install.scontrol.reasons() == [reason]
    assert ("VM_PROLOG_ERROR", "gpu-count") in install.kinds()
    assert "gpu-count: bad: 7 of 8 GPUs answer" in done.stderr


FAULTS = {
    "gpu-count": lambda gpus: gpus.fell_off_the_bus(NODE, 3),
    "gpu-ecc": lambda gpus: gpus.ecc_error(NODE, 5, 2),
    "gpu-row-remap": lambda gpus: gpus.row_remap_failed(NODE, 1),
    "nvlink": lambda gpus: gpus.link_down(NODE, 7, 17),
    "xid": lambda gpus: gpus.xid(NODE, 2, 95),
    "nvidia-smi": lambda gpus: gpus.unload_driver(NODE),
}


@pytest.mark.parametrize("check", FAULTS)
def test_each_fault_is_named_by_its_check(install, check):
    FAULTS[check](install.gpus)
    assert install.run("prolog").returncode == 1
    assert install.scontrol.reasons()[0].startswith(f"slurm-flex:health: {check}: ")


def test_an_epilog_drains_and_exits_0(install):
    install.gpus.ecc_error(NODE, 0)
    assert install.run("epilog").returncode == 0
    assert len(install.scontrol.reasons()) == 1
    assert install.kinds() == [("VM_EPILOG_ERROR", "gpu-ecc")]


def test_a_periodic_look_drains_and_exits_0(install):
    install.gpus.ecc_error(NODE, 0)
    assert install.run("health").returncode == 0
    assert len(install.scontrol.reasons()) == 1
    assert install.kinds() == [("VM_CONTINUOUS_GPU_ERROR", "gpu-ecc")]
    assert install.scontrol.reasons()[0].endswith(" (periodic)")


@pytest.mark.parametrize("script", ["prolog", "epilog"])
@pytest.mark.parametrize(
    ("job", "whole_node_jobs", "told"),
    [
        (ALL_GPUS, False, ""),
        ({"SLURM_JOB_GPUS": "2,3"}, False, ", part of the node"),
        ({"SLURM_JOB_GPUS": "2,3"}, True, ""),
        ({}, False, ""),
        ({"SLURM_JOB_GPUS": ""}, False, ""),
    ],
)
def test_the_reason_says_whether_the_job_had_only_a_part(
    install, script, job, whole_node_jobs, told
):
    install.set_node(whole_node_jobs=whole_node_jobs, tools={"dcgmi": "/nowhere"})
    install.gpus.ecc_error(NODE, 0)
    install.run(script, **job)
    assert install.scontrol.reasons()[0].endswith(f" ({script}{told})")


def test_what_a_periodic_look_finds_beside_the_gpus_is_a_scans(install):
    install.only_checks("mounts")
    install.set_node(mounts=["/nowhere"])
    assert install.run("health").returncode == 0
    assert install.kinds() == [("VM_SCAN_ERROR", "mounts")]


def test_an_applications_xid_lets_the_job_start(install):
    install.gpus.xid(NODE, 3, 31)
    assert install.run("prolog").returncode == 0
    assert install.kinds() == [("HEALTH_NOTE", "xid")]
    assert install.run("prolog").returncode == 0
    assert len(install.kinds()) == 1, "it is told once"


def test_a_node_that_an_admin_drained_meanwhile_keeps_his_reason(install):
    install.scontrol.answers("ALLOCATED+DRAIN")
    install.gpus.ecc_error(NODE, 0)
    assert install.run("epilog").returncode == 0
    assert install.scontrol.reasons() == []
    assert install.kinds() == [("VM_EPILOG_ERROR", "gpu-ecc"), ("HEALTH_NOTE", "")]


def test_an_xid_whose_drain_failed_is_seen_again(install):
    install.only_checks("xid")
    install.gpus.xid(NODE, 0, 79)
    install.scontrol.answers(status=1)
    assert install.run("epilog").returncode == 0
    assert ("HEALTH_DRAIN_FAILED", "") in install.kinds()
    install.scontrol.answers()
    assert install.run("prolog").returncode == 1
    assert len(install.scontrol.reasons()) == 1
    assert install.run("prolog").returncode == 0, "once drained for, it is behind the cursor"


def test_a_new_vm_of_the_same_name_is_well(install):
    install.gpus.fell_off_the_bus(NODE, 3)
    assert install.run("prolog").returncode == 1
    install.gpus.replaced(NODE)
    assert install.run("prolog").returncode == 0
    install.gpus.xid(NODE, 0, 79)
    assert install.run("prolog").returncode == 1


def test_a_dcgmi_that_hangs_is_an_event_and_the_job_starts_within_the_budget(install):
    install.gpus.hang(NODE, "dcgmi")
    install.set_node(budgets={"prolog": "5s"})
    began = time.monotonic()
    done = install.run("prolog", **ALL_GPUS)
    assert time.monotonic() - began < 7
    assert done.returncode == 0
    assert install.scontrol.calls() == []
    assert install.kinds() == [("HEALTH_UNKNOWN", "dcgm")]


def test_dcgm_is_asked_only_when_the_job_has_every_gpu(install):
    install.set_node()
    install.gpus.dcgm_fails(NODE, 3)
    assert install.run("prolog", SLURM_JOB_GPUS="0,1").returncode == 0
    assert install.run("prolog").returncode == 0
    assert install.run("prolog", **ALL_GPUS).returncode == 1
    assert "dcgm: software on GPU 3: GPU memory is corrupted." in install.scontrol.reasons()[0]


def test_an_nvidia_smi_that_hangs_twice_in_a_row_is_unfit(install):
    install.gpus.hang(NODE, "nvidia-smi")
    install.set_node(budgets={"prolog": "3s", "epilog": "3s"}, tools={"dcgmi": "/nowhere"})
    assert install.run("prolog").returncode == 0
    assert install.run("epilog").returncode == 0
    assert "nvidia-smi: nvidia-smi hangs" in install.scontrol.reasons()[0]


def test_a_missing_nvidia_smi_is_unfit_where_gpus_should_be(install):
    install.set_node(tools={"nvidia-smi": "/nowhere"})
    assert install.run("prolog").returncode == 1
    install.set_node(tools={"nvidia-smi": "/nowhere"}, gpus=0)
    assert install.run("prolog").returncode == 0


@pytest.mark.parametrize("key", ["SLURM_JOB_EXTRA", "SLURM_JOB_COMMENT"])
def test_a_job_opts_out_where_the_site_allows_it(install, key):
    install.gpus.fell_off_the_bus(NODE, 3)
    install.set_node(allow_opt_out=True)
    assert install.run("prolog", **{key: "health=off"}).returncode == 0
    assert install.kinds() == [("HEALTH_OPTED_OUT", "")]
    assert install.run("prolog").returncode == 1, "the next job looks again"


def test_a_job_cannot_opt_out_where_the_site_does_not_say_so(install):
    install.gpus.fell_off_the_bus(NODE, 3)
    assert install.run("prolog", SLURM_JOB_COMMENT="health=off").returncode == 1


@pytest.mark.parametrize(
    "broken",
    ["{", "", "[]", '{"name": "disk"}', '{"name": "x", "contexts": ["prolog"], "command": ["x"]}'],
)
def test_a_broken_site_check_never_drains_and_the_others_run(install, broken):
    install.add_check("05-site.json", broken)
    assert install.run("prolog").returncode == 0
    assert {kind for kind, _ in install.kinds()} == {"HEALTH_CONFIG_ERROR"}
    assert all("05-site.json" in event["text"] for event in install.events())
    install.gpus.ecc_error(NODE, 0)
    assert install.run("prolog").returncode == 1


def test_slips_in_the_node_file_never_drain(install):
    install.set_node(gpus="eight", gpuz=8)
    assert install.run("prolog").returncode == 0
    assert install.scontrol.calls() == []
    assert install.kinds() == [("HEALTH_CONFIG_ERROR", "")] * 2


@pytest.mark.parametrize(
    "text", ["raise ValueError('ours')", "this is no Python", "import nowhere"]
)
@pytest.mark.parametrize("script", ["prolog", "epilog", "health"])
def test_a_fault_of_ours_lets_the_job_start(install, script, text):
    (install.folder / "slurm_flex/health/dcgm.py").write_text(text)
    done = install.run(script)
    assert done.returncode == 0
    assert "Traceback" in done.stderr


def test_an_interpreter_that_is_too_old_lets_the_job_start(install):
    (install.folder / "slurm_flex/health/verdict.py").write_text(
        "from __future__ import a_feature_of_a_later_python\n"
    )
    done = install.run("prolog")
    assert done.returncode == 0
    assert "SyntaxError" in done.stderr


def test_a_sites_own_check_drains_with_its_line(install):
    tool = program(install.folder / "fan", "#!/bin/sh\necho 'fan 3: 0 rpm \"dead\"'\nexit 1\n")
    install.add_check(
        "60-fan.json", {"name": "fan", "contexts": ["prolog"], "command": [str(tool)]}
    )
    assert install.run("prolog").returncode == 1
    assert install.scontrol.reasons() == ["slurm-flex:health: fan: fan 3: 0 rpm 'dead' (prolog)"]


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\nhead -c 4096 /dev/zero | tr '\\000' x\nexit 1\n",
        "#!/bin/sh\nprintf '\\377\\376\\033[2J\\000\\n\\n%%s $(reboot)'\nexit 1\n",
        "#!/bin/sh\nexit 1\n",
    ],
    ids=["4 KB on a line", "no UTF-8", "nothing"],
)
def test_a_sites_check_may_say_anything(install, text):
    tool = program(install.folder / "odd", text)
    install.add_check("60.json", {"name": "odd", "contexts": ["prolog"], "command": [str(tool)]})
    assert install.run("prolog").returncode == 1
    (reason,) = install.scontrol.reasons()
    assert reason.startswith("slurm-flex:health: odd: ")
    assert len(reason) <= 200
    assert reason.isprintable()
    assert install.events()[-1]["check"] == "odd"


def test_state_is_for_its_owner_only(install):
    install.gpus.xid(NODE, 3, 31)
    install.run("prolog")
    assert install.state.stat().st_mode & 0o777 == 0o700
    files = sorted(path.name for path in install.state.iterdir())
    assert files == [f"{NODE}.cursor.json", "events.jsonl"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in install.state.iterdir())


def test_events_are_kept_within_bounds(install):
    install.state.mkdir(mode=0o700)
    (install.state / "events.jsonl").write_text("x" * 1_100_000)
    install.gpus.xid(NODE, 3, 31)
    install.run("prolog")
    assert len(install.events()) == 1
    assert (install.state / "events.jsonl.old").stat().st_size == 1_100_000


def test_a_state_folder_that_cannot_be_written_drains_nothing(install):
    install.state.write_text("in the way")
    install.gpus.xid(NODE, 3, 31)
    done = install.run("prolog")
    assert done.returncode == 0
    assert "can't be written" in done.stderr


def test_being_told_to_stop_ends_what_was_started_and_says_nothing_of_the_node(install):
    pids = install.folder / "pids"
    tool = program(install.folder / "slow", f"#!/bin/sh\necho $$ > '{pids}'\nsleep 600\n")
    install.add_check("60.json", {"name": "slow", "contexts": ["prolog"], "command": [str(tool)]})
    environ = {"SLURMD_NODENAME": NODE, "SLURM_CONF": str(install.conf)}
    with subprocess.Popen([str(install.folder / "scripts/prolog.py")], env=environ) as prolog:
        until = time.monotonic() + 10
        while time.monotonic() < until and not (pids.exists() and pids.read_text().strip()):
            time.sleep(0.01)
        prolog.send_signal(signal.SIGTERM)
        assert prolog.wait(10) == 0
    # Killed before the prolog ended; when the kernel gets to it on a busy machine is its affair.
    until = time.monotonic() + 10
    while time.monotonic() < until and alive(int(pids.read_text())):
        time.sleep(0.01)
    assert not alive(int(pids.read_text()))
    assert install.scontrol.calls() == []


COUNTING = """
import json, runpy, sys
counts = {"subprocess.Popen": [], "os.fork": [], "os.posix_spawn": [], "os.system": []}
def hook(event, arguments):
    if event in counts:
        counts[event].append(str(arguments[0]) if arguments else "")
sys.addaudithook(hook)
try:
    runpy.run_path(sys.argv[1], run_name="__main__")
finally:
    print(json.dumps(counts))
"""


def forks(install, **job: str) -> dict[str, list[str]]:
    done = install.run("prolog", interpreter=("/usr/bin/python3", "-IS", "-c", COUNTING), **job)
    return json.loads(done.stdout)


def test_a_healthy_node_without_dcgmi_costs_three_forks(install):
    counts = forks(install)
    assert [Path(tool).name for tool in counts.pop("subprocess.Popen")] == ["nvidia-smi"] * 3
    assert not any(counts.values())


def test_a_node_without_gpus_costs_no_fork(install):
    install.set_node(gpus=0)
    assert not any(forks(install).values())


def test_dcgm_is_one_fork_more_and_a_drain_two(install):
    install.set_node()
    assert len(forks(install, **ALL_GPUS)["subprocess.Popen"]) == 4
    install.gpus.ecc_error(NODE, 0)
    names = [Path(tool).name for tool in forks(install, **ALL_GPUS)["subprocess.Popen"]]
    assert names == ["nvidia-smi"] * 3 + ["scontrol"] * 2
