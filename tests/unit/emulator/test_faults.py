"""Every fault by its name."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slurm_flex.emulator.core.faults import FAULTS
from slurm_flex.errors import FlexError
from tests.unit.emulator.here import T0, ZONE, Here


def _last_attempt(here: Here, group: str, name: str = "j1-1") -> dict[str, Any]:
    found = here.request(group, name)
    assert found["state"] == "ACCEPTED"
    return dict(found["status"]["lastAttempt"]["error"]["errors"][0])


def test_every_fault_is_used_by_a_test_beside_this_one() -> None:
    files = Path(__file__).parent.glob("test_faults*.py")
    text = "".join(file.read_text("utf-8") for file in files)
    assert set(re.findall(r'fault\(\s*"(\w+)"', text)) == set(FAULTS)


def test_a_stockout_for_a_time_ends_by_itself() -> None:
    here = Here()
    group = here.group()
    here.fault("stockout", zone="us-central1-a", lasting="10m")
    here.ask(group, "j1-1", "n-0")
    here.wait(590)
    assert _last_attempt(here, group)["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    here.wait(11)
    here.wait(40)
    assert here.request(group, "j1-1")["state"] == "SUCCEEDED"


def test_a_stockout_elsewhere_does_not_matter() -> None:
    here = Here()
    here.fault("stockout", zone="us-central1-b")
    here.fault("stockout", machine_type="a3-mega*")
    here.up(here.group(), "j1-1", "n-0")


def test_a_stockout_with_an_estimate_says_when() -> None:
    here = Here()
    group = here.group()
    here.fault("stockout", estimate="9999-12-31T23:59:59.997Z")
    here.ask(group, "j1-1", "n-0")
    here.wait(10)
    error = _last_attempt(here, group)
    assert error["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
    assert error["message"].endswith("Expected time is indefinite.")
    metadata = error["errorDetails"][0]["errorInfo"]["metadatas"]
    assert metadata["estimatedAvailabilityTime"] == "9999-12-31T23:59:59.997Z"
    assert here.service.cloud.clear_fault() == 1
    here.wait(40)
    assert here.request(group, "j1-1")["state"] == "SUCCEEDED"


def test_quota_on_insert_fails_the_operation() -> None:
    here = Here()
    group = here.group()
    here.fault("quota_on_insert", times=1, metric="NVIDIA_H200_GPUS", limit=8)
    error = here.failure(here.ask(group, "j1-1", "n-0"))
    assert (error["code"], error["message"]) == (
        "QUOTA_EXCEEDED",
        "Quota 'NVIDIA_H200_GPUS' exceeded.  Limit: 8.0 in region us-central1.",
    )
    assert error["errorDetails"][0]["quotaInfo"]["dimensions"] == {"region": "us-central1"}
    here.up(group, "j1-2", "n-0")


def test_quota_in_the_last_attempt_leaves_the_request_waiting() -> None:
    here = Here()
    group = here.group()
    here.fault("quota_last_attempt", metric="SSD_TOTAL_GB", limit=125)
    here.ask(group, "j1-1", "n-0")
    here.wait(3600)
    assert _last_attempt(here, group)["message"] == (
        "Quota 'SSD_TOTAL_GB' exceeded.  Limit: 125.0 in region us-central1."
    )


def test_the_quota_of_active_requests_can_be_said_to_be_used_up() -> None:
    here = Here()
    here.fault("active_requests_quota")
    error = here.failure(here.ask(here.group(), "j1-1", "n-0"))
    assert "ACTIVE_RESIZE_REQUESTS" in error["message"]


def test_an_insert_can_fail_with_any_error() -> None:
    here = Here()
    group = here.group()
    here.fault("insert_error", times=1)
    error = here.failure(here.ask(group, "j1-1", "n-0"))
    assert error["code"] == "QUEUING_INFEASIBLE_NO_CAPACITY"
    here.fault("insert_error", code="PERMISSION_DENIED", message="This feature is not supported.")
    error = here.failure(here.ask(group, "j1-2", "n-0"))
    assert error == {"code": "PERMISSION_DENIED", "message": "This feature is not supported."}


def test_a_waiting_request_can_fail() -> None:
    here = Here(capacity="never")
    group = here.group()
    here.ask(group, "j1-1", "n-0", "n-1")
    here.wait(10)
    here.fault("request_fails", group="g")
    found = here.request(group, "j1-1")
    assert found["state"] == "FAILED"
    assert found["status"]["error"]["errors"][0]["code"] == "IP_SPACE_EXHAUSTED"
    assert "lastAttempt" not in found["status"]
    assert here.size(group) == 0


def test_a_part_that_came_is_rolled_back_when_the_rest_fails() -> None:
    here = Here()
    group = here.group()
    here.fault("partial_provisioning", created=2, code="QUOTA_EXCEEDED")
    here.ask(group, "j1-1", "n-0", "n-1", "n-2")
    here.wait(40)
    assert here.instances() == {"n-0": "RUNNING", "n-1": "RUNNING"}
    assert here.request(group, "j1-1")["state"] == "ACCEPTED"
    here.wait(30)
    assert here.request(group, "j1-1")["state"] == "FAILED"
    assert here.size(group) == 0
    here.wait(40)
    assert here.instances() == {}


def test_a_guest_that_never_comes_up_leaves_the_instance_running() -> None:
    here = Here()
    here.fault("no_guest", instance="n-0")
    here.up(here.group(), "j1-1", "n-0", "n-1")
    assert [item.guest for item in here.world.instances] == [False, True]


def test_a_slow_boot_stays_in_staging() -> None:
    here = Here()
    here.fault("slow_boot", delay="10m")
    here.ask(here.group(), "j1-1", "n-0")
    here.wait(600)
    assert here.instances() == {"n-0": "STAGING"}
    here.wait(60)
    assert here.instances() == {"n-0": "RUNNING"}


def test_slow_operations_take_longer_than_a_minute() -> None:
    here = Here()
    group = here.group()
    here.fault("slow_operations", method="compute.instanceGroupManagers.patch", delay="90s")
    operation = here.ok("PATCH", group, {})
    path = operation["selfLink"].partition("/projects/p/")[2]
    here.wait(89)
    assert here.ok("GET", path)["status"] == "RUNNING"
    here.wait(4)
    assert here.ok("GET", path)["status"] == "DONE"


@pytest.mark.parametrize("shape", ["http", "operation"])
def test_a_cancel_can_lose_the_race_against_provisioning(shape: str) -> None:
    here = Here(capacity="never")
    group = here.group()
    here.ask(group, "j1-1", "n-0")
    here.wait(10)
    here.fault("cancel_race", shape=shape, times=1)
    path = f"{group}/resizeRequests/j1-1/cancel"
    if shape == "http":
        here.refused(412, "POST", path)
    else:
        assert here.failure(here.ok("POST", path))["code"] == "CONDITION_NOT_MET"
    here.wait(40)
    assert here.instances() == {"n-0": "RUNNING"}
    assert here.request(group, "j1-1")["state"] == "SUCCEEDED"


def test_an_end_of_life_can_be_late() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0", seconds=600)
    here.fault("late_end_of_life", by="5m")
    here.wait(600 + 290)
    assert here.instances() == {"n-0": "RUNNING"}
    here.wait(10)
    assert here.instances() == {"n-0": "STOPPING"}


def test_an_early_end_of_life_is_listed_truthfully() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0", "n-1", seconds=604800)
    here.fault("end_of_life", instance="n-0", within="20s")
    shown = here.members(group)["n-0"]["scheduling"]["terminationTimestamp"]
    assert datetime.fromisoformat(shown) == T0 + timedelta(seconds=40 + 20)
    here.wait(19)
    assert here.instances() == {"n-0": "RUNNING", "n-1": "RUNNING"}
    here.wait(1)
    assert here.instances() == {"n-0": "STOPPING", "n-1": "RUNNING"}


def test_a_host_error_terminates_and_with_automatic_restart_repairs() -> None:
    here = Here(repair_delay="60s")
    here.up(here.group(), "j1-1", "n-0")
    here.ok("POST", f"{ZONE}/instances",
            {"name": "alone", "machineType": "g2-standard-4",
             "scheduling": {"automaticRestart": True}})  # fmt: skip
    here.wait(40)
    here.fault("host_error", instance="*")
    assert here.instances() == {"n-0": "TERMINATED", "alone": "REPAIRING"}
    here.wait(60)
    assert here.instances() == {"n-0": "TERMINATED", "alone": "RUNNING"}


def test_an_instance_in_repair_comes_back_when_told_or_never_and_can_be_deleted() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0", "n-1")
    here.fault("host_error", instance="n-0", repair="10m")
    here.fault("host_error", instance="n-1", repair="never")
    guests = {item.name: item.guest for item in here.world.instances}
    assert guests == {"n-0": False, "n-1": False}
    here.wait(599)
    assert here.instances() == {"n-0": "REPAIRING", "n-1": "REPAIRING"}
    assert here.members(group)["n-1"]["instanceStatus"] == "REPAIRING"
    here.wait(2)
    assert here.instances()["n-0"] == "RUNNING"
    here.wait(1800)
    assert here.instances()["n-1"] == "REPAIRING"
    here.done(here.ok("POST", f"{group}/deleteInstances", {"instances": [f"{ZONE}/instances/n-1"]}))
    here.wait(60)
    assert "n-1" not in here.instances()
    with pytest.raises(FlexError):
        here.fault("host_error", instance="n-0", repair="soon")


def test_a_lost_instance_is_gone_at_once() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0", "n-1")
    here.fault("instance_lost", instance="n-0")
    assert here.instances() == {"n-1": "RUNNING"}
    assert list(here.members(group)) == ["n-1"]


def test_a_spot_instance_can_be_preempted() -> None:
    here = Here()
    group = here.group(model="SPOT")
    here.ok("POST", f"{group}/createInstances", {"instances": [{"name": "n-0"}]})
    here.wait(40)
    here.fault("preempted", instance="n-0")
    assert here.instances() == {"n-0": "STOPPING"}
    here.wait(31)
    assert here.instances() == {}


def test_a_guest_can_die_while_its_instance_runs() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0")
    here.fault("guest_died", instance="n-0")
    assert here.instances() == {"n-0": "RUNNING"}
    assert [item.guest for item in here.world.instances] == [False]


def test_an_upcoming_maintenance_is_shown_and_can_be_performed() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0")
    one = f"{ZONE}/instances/n-0"
    here.refused(400, "POST", f"{one}/performMaintenance")
    here.fault("maintenance", instance="n-0", within="1h", type="UNSCHEDULED")
    shown = here.ok("GET", one)["resourceStatus"]["upcomingMaintenance"]
    assert shown["type"] == "UNSCHEDULED"
    assert datetime.fromisoformat(shown["windowStartTime"]) == T0 + timedelta(seconds=3640)
    here.ok("POST", f"{one}/performMaintenance")
    assert here.instances() == {"n-0": "TERMINATED"}


def test_a_maintenance_that_begins_takes_the_vm_down() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0", seconds=86400)
    here.fault("maintenance", instance="n-0", within="1h")
    here.fault("maintenance", instance="n-0", within="2h")  # it is moved
    here.wait(3660)
    assert here.instances() == {"n-0": "RUNNING"}
    here.wait(3600)
    assert here.instances() == {"n-0": "TERMINATED"}


def test_a_maintenance_that_is_called_off_does_nothing() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0", seconds=86400)
    here.fault("maintenance", instance="n-0", within="1h")
    here.fault("maintenance", instance="n-0", type="NONE")
    assert "upcomingMaintenance" not in here.ok("GET", f"{ZONE}/instances/n-0")["resourceStatus"]
    here.wait(7200)
    assert here.instances() == {"n-0": "RUNNING"}


def test_a_simulated_maintenance_takes_a_vm_down_that_can_not_migrate() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0")
    here.ok("POST", f"{ZONE}/instances/n-0/simulateMaintenanceEvent")
    assert here.instances() == {"n-0": "TERMINATED"}


def test_a_fault_is_used_as_often_as_it_says() -> None:
    here = Here()
    here.fault("unavailable", times=2, method="instances.*")
    codes = [here.call("GET", f"{ZONE}/instances")[0] for _ in range(3)]
    assert codes == [503, 503, 200]


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"name": "gremlins"}, "there is no fault 'gremlins'"),
        ({"name": "stockout", "colour": "red"}, "fault stockout has no 'colour'"),
        ({"name": "slow_boot", "delay": "soon"}, "is not a duration"),
        ({"name": "stockout", "times": "twice"}, "times is 'twice'"),
        ({"name": "stockout", "times": 0}, "times is 0"),
        (
            {"name": "unavailable", "method": "*resizeRequests.insert"},
            "no method here fits '*resizeRequests.insert' (perhaps "
            "instanceGroupManagerResizeRequests.insert, "
            "regionInstanceGroupManagerResizeRequests.insert; capital letters count",
        ),
        ({"name": "unavailable", "method": "instance.list"}, "perhaps instances.list"),
        ({"name": "unavailable", "method": "?"}, "one of acceleratorTypes.get, "),
        (
            {"name": "slow_operations", "method": "instanceGroupManagers.patch"},
            "no type of operation here fits 'instanceGroupManagers.patch' (perhaps "
            "compute.instanceGroupManagers.patch, ",
        ),
        ({"name": "lost_operations", "method": "instances.get"}, "no type of operation here fits"),
        (
            {"name": "empty_pages", "method": "instances.get"},
            "no method that lists here fits 'instances.get' (perhaps instances.list",
        ),
    ],
)
def test_a_fault_that_is_none_is_refused_with_what_there_is(order: Any, words: str) -> None:
    with pytest.raises(FlexError, match=re.escape(words)):
        Here().service.set_fault(order)
