"""The emulated cloud's VMs as this machine's slurmds: they register, and die without a goodbye."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slurm_flex.demo.controller import Controller
from slurm_flex.demo.layout import CloudNode, Layout, Partition, Programs
from slurm_flex.emulator.drivers.processes import find
from slurm_flex.emulator.launcher import Emulator

pytestmark = pytest.mark.cluster

AT_ONCE = timedelta(seconds=20)
ZONE = "projects/p1/zones/us-central1-a"
# slurmd got --instance-id with 23.11. slurmctld 26.05.5 logs it ("powered up with instance_id=")
# and shows it nowhere; the node is told from its VM as on 22.05.
KEEP_THE_INSTANCE_ID = ("24.11",)


@pytest.fixture
def controller(start_controller: Callable[[Layout], Controller]) -> Controller:
    """Power programs that do nothing: the VMs are asked for by hand."""
    return start_controller(
        Layout(
            nodes=[CloudNode("c1-gx-0"), CloudNode("c1-gx-1")],
            partitions=[Partition("gx", "c1-gx-[0-1]", "Default=YES")],
            programs=Programs(resume=Path("/bin/true"), suspend=Path("/bin/true")),
        )
    )


@pytest.fixture
def emulator(controller: Controller, release: str) -> Iterator[Emulator]:
    options = [] if release == "22.05" else ["--instance-id={id}"]
    with Emulator(
        driver="slurmd",
        slurmd_argv=controller.slurmd_argv(extra=options),
        knobs={"boot_delay": "2s"},
        state=controller.folder / "emulator.sqlite",
        vm_folder=controller.folder / "consoles",
        log=controller.log_dir / "emulator.log",
    ) as emulator:
        template = {
            "name": "t1",
            "properties": {
                "machineType": "a3-ultragpu-8g",
                "scheduling": {"provisioningModel": "FLEX_START"},
            },
        }
        group = {
            "name": "c1-gx",
            "instanceTemplate": "global/instanceTemplates/t1",
            "targetSize": 0,
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
        }
        post(emulator, "projects/p1/global/instanceTemplates", template)
        post(emulator, f"{ZONE}/instanceGroupManagers", group)
        yield emulator


def post(emulator: Emulator, path: str, body: dict[str, Any]) -> None:
    request = urllib.request.Request(
        f"{emulator.url}/compute/v1/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()


def ask_for(emulator: Emulator, name: str, *nodes: str) -> None:
    body = {
        "name": name,
        "instances": [{"name": node} for node in nodes],
        "requestedRunDuration": {"seconds": "3600"},
    }
    post(emulator, f"{ZONE}/instanceGroupManagers/c1-gx/resizeRequests", body)


def instances(emulator: Emulator) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in emulator.world()["instances"]}


def test_a_resize_request_becomes_slurmds_that_register_and_die_with_their_vm(
    controller: Controller, emulator: Emulator, release: str
) -> None:
    controller.scontrol("update", "nodename=c1-gx-[0-1]", "state=power_up")
    controller.wait_for_node("c1-gx-1", AT_ONCE, has="POWERING_UP")
    ask_for(emulator, "r1", "c1-gx-0", "c1-gx-1")
    for name in ("c1-gx-0", "c1-gx-1"):
        node = controller.wait_for_node(
            name, AT_ONCE, has="IDLE+CLOUD", lacks="POWERED_DOWN+POWERING_UP"
        )
        if release in KEEP_THE_INSTANCE_ID:
            assert node["InstanceId"] == instances(emulator)[name]["id"]

    job = controller.sbatch("-N2", script="#!/bin/sh\nsrun /bin/sleep 600\n")
    controller.wait_for_job(job, "RUNNING", timedelta(seconds=60))
    lost = instances(emulator)["c1-gx-0"]["id"]
    kept = instances(emulator)["c1-gx-1"]["id"]
    controller.wait_for(lambda: runs(lost, "/bin/sleep\0"), AT_ONCE, "the job's step runs")
    emulator.faults.set("end_of_life", instance="c1-gx-0")
    controller.wait_for(lambda: not find({lost}), AT_ONCE, "all of the VM is gone")
    assert find({kept}), "the other VM lives on"
    assert controller.job(job)["JobState"] == "RUNNING", "nobody has told Slurm"
    # A message that is due just then finds it silent (26.05); DOWN takes SlurmdTimeout.
    assert controller.flags("c1-gx-0") - {"NOT_RESPONDING"} == {"MIXED", "CLOUD"}


def runs(vm: str, program: str) -> bool:
    """Whether this program is among the VM's processes."""
    return any(
        Path(f"/proc/{pid}/cmdline").read_bytes().startswith(program.encode()) for pid in find({vm})
    )


def test_guests_outlive_an_emulator_that_is_killed_and_are_taken_over(
    controller: Controller, emulator: Emulator
) -> None:
    ask_for(emulator, "r1", "c1-gx-0")
    controller.wait_for(
        lambda: instances(emulator).get("c1-gx-0", {}).get("status") == "RUNNING",
        AT_ONCE,
        "the VM runs",
    )
    vm = instances(emulator)["c1-gx-0"]["id"]
    controller.wait_for(lambda: runs(vm, "/usr/sbin/slurmd"), AT_ONCE, "slurmd runs")
    emulator.kill()
    guest = set(find({vm}))
    assert guest
    emulator.start()
    assert set(find({vm})) == guest
    assert instances(emulator)["c1-gx-0"]["status"] == "RUNNING"
    emulator.faults.set("instance_lost", instance="c1-gx-0")
    controller.wait_for(lambda: not find({vm}), AT_ONCE, "all of the VM is gone")
