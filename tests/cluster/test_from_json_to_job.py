"""The guide's own example, from its JSON to jobs that ran, by the commands of docs/setup.md.

Everything is as in the field but for tests.cluster.fresh.ONE_MACHINE: `render --full` writes the
controller's files, `apply` the templates, and each VM boots by its template's startup script.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from slurm_flex.demo.world_space import REPOSITORY
from tests.cluster.fresh import Fresh

pytestmark = pytest.mark.cluster

EXAMPLE = json.loads((REPOSITORY / "etc/cluster_config.json").read_text())
SOON = timedelta(seconds=30)
# Slurm sees that a job's nodes are up on a tick of 30 s.
TICK = timedelta(seconds=90)
WHOLE = "#!/bin/sh\nsrun sh -c 'echo $SLURMD_NODENAME has $CUDA_VISIBLE_DEVICES'\n"


@pytest.fixture
def site(release: str) -> Iterator[Fresh]:
    with Fresh(release) as fresh:
        yield fresh


def set_up(site: Fresh, least: int, most: int) -> None:
    """From the JSON to a controller and a cloud that fit, without the daemon."""
    site.write_cluster(EXAMPLE, least, most)
    site.flex("render", "--full", "--release", site.release)
    site.fit_onto_one_machine()
    site.start_slurm("demo-a3u-[0-3]")
    assert "fits" in site.flex("render", "--check")
    site.flex("apply")


def test_the_guides_example_goes_from_json_to_jobs_that_ran(site: Fresh) -> None:
    set_up(site, 0, 2)
    before = json.loads(site.flex("doctor", "--json", code=1))
    assert [check["name"] for check in before if check["status"] != "ok"] == ["daemon"]
    site.daemon.start()
    after = json.loads(site.flex("doctor", "--json"))
    assert {check["status"] for check in after} == {"ok"}, after

    whole = site.slurm.sbatch("--gres=gpu:8", script=WHOLE)
    site.slurm.wait_for_job(whole, "COMPLETED", TICK)
    assert site.slurm.output(whole) == "demo-a3u-0 has 0,1,2,3,4,5,6,7\n"
    assert "mounted 10.0.0.2:/nfsshare on /home" in site.console("demo-a3u-0")
    assert "8 GPUs answer" in site.console("demo-a3u-0")
    assert "slurmd runs as demo-a3u-0" in site.console("demo-a3u-0")

    # Two halves share the node, memory included: one VM, not two.
    halves = [
        site.slurm.sbatch("--gres=gpu:4", script="#!/bin/sh\nsrun sleep 3\n") for _ in range(2)
    ]
    for job in halves:
        assert site.slurm.wait_for_job(job, "RUNNING", SOON)["NodeList"] == "demo-a3u-0"
    assert len(site.vms()) == 1
    for job in halves:
        site.slurm.wait_for_job(job, "COMPLETED", SOON)

    last = site.slurm.sbatch("--gres=gpu:8", script="#!/bin/sh\nsrun sleep 6\n")
    site.slurm.wait_for_job(last, "COMPLETED", SOON)
    # The checks that came with the template stand between a broken GPU and the next job.
    site.gpus.fell_off_the_bus("demo-a3u-0", 3)
    unlucky = site.slurm.sbatch("--gres=gpu:8", script=WHOLE)
    drained = site.slurm.wait_for_node("demo-a3u-0", SOON, has="DRAIN")
    assert drained["Reason"].startswith("slurm-flex:health:"), drained
    assert site.slurm.wait_for_job(unlucky, "PENDING", SOON)["Priority"] != "0", "not held"
    site.slurm.scancel(unlucky)

    site.slurm.wait_for(lambda: not site.vms(), TICK, "the VM is given back")
    site.flex("doctor")


def test_a_pool_is_resized_under_running_jobs(site: Fresh) -> None:
    set_up(site, 0, 2)
    site.daemon.start()
    long = site.slurm.sbatch("-wdemo-a3u-1", script="#!/bin/sh\nsrun sleep 600\n")
    site.slurm.wait_for_job(long, "RUNNING", TICK)

    site.write_cluster(EXAMPLE, 0, 3)
    assert "+ demo-a3u-2: new" in site.flex("apply")
    take_in(site, site.flex("render"))
    more = site.slurm.sbatch("-wdemo-a3u-2", script="#!/bin/sh\necho ran\n")
    site.slurm.wait_for_job(more, "COMPLETED", TICK)

    site.write_cluster(EXAMPLE, 1, 1)
    said = site.flex("render")
    assert "~ demo-a3u-0: static from now on" in said
    assert "- demo-a3u-[1-2]: leaving" in said
    take_in(site, said)
    assert site.slurm.job(long)["JobState"] == "RUNNING"
    # The static node comes by itself; what leaves takes no more jobs and ends with its last.
    site.slurm.wait_for_node("demo-a3u-0", TICK, has="IDLE", lacks="POWERED_DOWN+POWERING_UP")
    site.slurm.wait_for_node("demo-a3u-1", SOON, has="DRAIN")
    site.slurm.scancel(long)
    site.slurm.wait_for(lambda: names(site) == ["demo-a3u-0"], TICK, "what left is given back")
    site.slurm.wait_for_node("demo-a3u-1", SOON, has="POWERED_DOWN", lacks="POWERING_DOWN")

    said = site.flex("render")
    assert "- demo-a3u-[1-2]: off: taken out" in said
    take_in(site, said)
    assert names(site) == ["demo-a3u-0"]
    assert "demo-a3u-1" not in site.slurm.sinfo("-N")
    site.flex("doctor")


def names(site: Fresh) -> list[str]:
    return sorted(vm["name"] for vm in site.vms())


def take_in(site: Fresh, said: str) -> None:
    """Do what render says comes next, in its order."""
    steps = [line.removeprefix("next: ") for line in said.splitlines() if line[:5] == "next:"]
    for step in steps:
        if step == "slurm-flex render --check":
            site.flex("render", "--check")
        elif step == "scontrol reconfigure":
            site.slurm.scontrol("reconfigure")
            site.slurm.wait_for(lambda: site.slurm.try_run("sinfo").returncode == 0, SOON, "it is")
        elif step.startswith("systemctl restart slurmctld"):
            site.slurm.stop()
            site.slurm.start()
        elif step == "systemctl reload slurm-flex":
            site.daemon.reload()
        else:
            raise AssertionError(step)
