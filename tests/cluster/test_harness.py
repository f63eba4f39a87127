"""What the other tests stand on: a plain slurmctld, its nodes, and no trace of either."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from slurm_flex.demo.commands import NotInTime
from slurm_flex.demo.controller import Controller
from slurm_flex.demo.layout import CloudNode, Layout, Partition, Programs
from slurm_flex.demo.release_tree import host_release

pytestmark = pytest.mark.cluster

AT_ONCE = timedelta(seconds=20)
# Slurm sees that a job's nodes are up on a tick of 30 s.
TICK = timedelta(seconds=60)


def processes_with(word: str) -> list[int]:
    """Pids of the processes that have ``word`` in their command line or environment."""

    def mentions(folder: Path) -> bool:
        try:
            return any(word.encode() in (folder / f).read_bytes() for f in ("cmdline", "environ"))
        except OSError:
            return False  # it has ended

    found = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [int(entry.name) for entry in found if mentions(entry)]


def until(condition: Callable[[], object], what: str, limit: float = 20) -> None:
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"not within {limit} s: {what}"
        time.sleep(0.05)


def test_a_node_powers_up_for_a_job_runs_it_and_powers_down(controller: Controller) -> None:
    job = controller.sbatch(
        "--gres=gpu:2", script="#!/bin/sh\necho gpus $CUDA_VISIBLE_DEVICES\nsrun hostname\n"
    )
    controller.wait_for_node("c1-gx-0", AT_ONCE, has="POWERING_UP")
    controller.wait_for_node("c1-gx-0", AT_ONCE, lacks="POWERING_UP")
    controller.wait_for_job(job, "COMPLETED", TICK)
    assert controller.output(job) == "gpus 0,1\nc1-gx-0\n"
    controller.wait_for_node("c1-gx-0", TICK, has="POWERED_DOWN+IDLE", lacks="POWERING_DOWN")
    assert not (controller.folder / "vm-c1-gx-0.pid").exists()
    assert "idle~" in controller.sinfo("-h", "-o", "%t")
    assert controller.node("c1-gx-1")["BootTime"] == "None"


def test_a_vm_that_is_killed_takes_its_steps_with_it(controller: Controller) -> None:
    job = controller.sbatch(script="#!/bin/sh\nsetsid sleep 98761 &\nsrun sleep 98762\n")
    controller.wait_for_job(job, "RUNNING", TICK)
    until(lambda: processes_with("sleep\x0098761"), "the batch step runs")
    until(lambda: processes_with("sleep\x0098762"), "the job step runs")
    os.kill(int((controller.folder / "vm-c1-gx-0.pid").read_text()), signal.SIGKILL)
    until(lambda: not processes_with("sleep\x00987"), "all of the VM is gone", limit=2)
    assert controller.job(job)["JobState"] == "RUNNING", "nobody has told Slurm"


def test_a_new_vm_of_the_same_name_remembers_nothing(controller: Controller) -> None:
    left_over = controller.folder / "spool/c1-gx-0/left-over"
    for boot in (1, 2):
        vm = subprocess.Popen(
            controller.slurmd_argv("c1-gx-0"), env=controller.env, start_new_session=True
        )
        log = controller.log_dir / "slurmd-c1-gx-0.log"
        until(partial(has_started, log, boot), "slurmd has started")
        assert not left_over.exists()
        left_over.touch()
        vm.kill()
        assert vm.wait() == -signal.SIGKILL


def has_started(slurmd_log: Path, times: int) -> bool:
    return slurmd_log.exists() and slurmd_log.read_text().count("slurmd started") == times


def test_slurmctld_that_is_killed_comes_back_with_its_jobs(controller: Controller) -> None:
    job = controller.sbatch("--wrap=true", "--begin=now+1hour")
    # sbatch is answered a moment before the job is on disk; a crash in between forgets it.
    until((controller.folder / "state/job_state").exists, "the job's state is saved")
    before = controller.pid
    controller.kill()
    assert controller.pid is None
    controller.start()
    assert controller.pid != before
    assert controller.job(job)["JobState"] == "PENDING"
    controller.stop()
    controller.start()
    assert controller.job(job)["JobState"] == "PENDING"


def test_the_wrappers_reach_the_cluster_from_anywhere(controller: Controller) -> None:
    words = ["two words", "it's", '"quoted"', "$HOME", "back\\slash", "*"]
    for folder in ("/", "/var/lib", str(Path.home())):
        done = subprocess.run(
            [controller.bin_dir / "sbatch", "--parsable", "--hold", "-o/dev/null",
             f"--comment={' '.join(words)}", "--wrap=true"],
            cwd=folder, env={}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        shown = subprocess.run(
            [controller.bin_dir / "squeue", "-h", "-o", "%k", "-j", done.stdout.strip()],
            cwd=folder, env={}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert shown.stdout.strip() == " ".join(words)
    bad = subprocess.run(
        [controller.bin_dir / "scontrol", "show", "node", "nowhere"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert bad.returncode != 0
    assert "nowhere" in bad.stdout + bad.stderr


def test_a_reconfigure_answers_at_once_though_no_node_is_in_the_machines_hosts_file(
    controller: Controller,
) -> None:
    began = time.monotonic()
    controller.scontrol("reconfigure")
    controller.sinfo()
    assert time.monotonic() - began < 5
    assert "c1-gx-0" not in Path("/etc/hosts").read_text()


def test_a_rendered_slurm_conf_d_drives_a_real_controller(
    start_controller: Callable[[Layout], Controller], tmp_path: Path, power_programs: Programs
) -> None:
    (tmp_path / "slurm-flex.conf").write_text(
        f"ResumeProgram={power_programs.resume}\nSuspendProgram={power_programs.suspend}\n"
        "ResumeTimeout=21600\nSuspendTime=300\nGresTypes=gpu\n"
        "SlurmctldParameters=idle_on_node_suspend\n"
        "NodeName=c1-a3u-[0-1] State=CLOUD CPUs=224 RealMemory=2900000 Gres=gpu:8 Feature=h200\n"
        "PartitionName=a3u Nodes=c1-a3u-[0-1] MaxTime=7-00:00:00 Default=YES\n"
    )
    controller = start_controller(Layout(include=tmp_path, timeouts=None))
    assert "ResumeTimeout           = 21600 sec" in controller.scontrol("show", "config")
    controller.scontrol("update", "nodename=c1-a3u-1", "state=power_up")
    node = controller.wait_for_node(
        "c1-a3u-1", AT_ONCE, has="IDLE+CLOUD", lacks="POWERED_DOWN+POWERING_UP"
    )
    assert (node["Gres"], node["CPUTot"], node["State"]) == ("gpu:8", "224", "IDLE+CLOUD")


def test_a_wait_that_fails_shows_every_log(
    controller: Controller, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "daemon.log").write_text("the daemon's last words\n")
    controller.watched["daemon.log"] = tmp_path / "daemon.log"
    with pytest.raises(NotInTime, match="pigs fly"):
        controller.wait_for(lambda: False, timedelta(seconds=0.1), "pigs fly")
    shown = capsys.readouterr().err
    assert "the daemon's last words" in shown
    assert "Running as primary controller" in shown


OWNER = """
import subprocess, sys, time
from slurm_flex.demo.controller import Controller
from slurm_flex.demo.layout import CloudNode, Layout, Partition
layout = Layout(nodes=[CloudNode("n-0")], partitions=[Partition("p", "n-0")])
with Controller(layout, release=sys.argv[1]) as controller:
    vm = subprocess.Popen(controller.slurmd_argv("n-0"), start_new_session=True)
    controller.wait_for(lambda: "slurmd started" in controller.logs().get("slurmd-n-0.log", ""),
                        __import__("datetime").timedelta(seconds=20), "slurmd started")
    print(controller.folder, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_cluster_whose_owner_ends(release: str, end: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, release], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert owner.stdout is not None
    folder = owner.stdout.readline().decode().strip()
    owner.stdout.close()
    assert len(processes_with(folder)) >= 4  # munged, slurmctld, the VM and its slurmd
    owner.send_signal(end)
    owner.wait(20)
    until(lambda: not processes_with(folder), "every process has ended")
    until(lambda: not Path(folder).exists(), "the folder is gone")


def test_nothing_is_mounted_on_the_machine(
    start_controller: Callable[[Layout], Controller],
) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    start_controller(Layout(nodes=[CloudNode("n-0")], partitions=[Partition("p", "n-0")]))
    assert Path("/proc/self/mountinfo").read_text() == before


def test_the_controller_is_of_the_release_that_was_asked_for(
    controller: Controller, release: str
) -> None:
    assert controller.scontrol("--version").split()[1].startswith(f"{release}.")
    if release != host_release():
        assert controller.space.tree is not None


def test_without_the_right_to_it_there_is_a_plain_word_and_no_folder_left(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/usr/bin/setpriv", "--bounding-set=-sys_admin", sys.executable, "-c",
         "from slurm_flex.demo.world_space import WorldSpace; WorldSpace()"],
        env={"TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "NoSpace" in done.stderr
    assert "run as root" in done.stderr
    assert list(tmp_path.iterdir()) == []
