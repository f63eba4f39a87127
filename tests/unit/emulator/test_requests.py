"""The life of a resize request."""

from __future__ import annotations

import pytest

from tests.unit.emulator.here import REGION, ZONE, Here


def test_a_request_is_created_accepted_provisioned_and_succeeds() -> None:
    here = Here()
    group = here.group()
    operation = here.ask(group, "j1-1", "n-0", "n-1")
    assert operation["operationType"] == "compute.instanceGroupManagerResizeRequests.insert"
    assert here.request(group, "j1-1")["state"] == "CREATING"
    assert here.size(group) == 2
    here.wait(5)
    assert here.request(group, "j1-1")["state"] == "ACCEPTED"
    assert here.instances() == {"n-0": "PROVISIONING", "n-1": "PROVISIONING"}
    here.wait(10)
    assert here.instances() == {"n-0": "STAGING", "n-1": "STAGING"}
    here.wait(20)
    assert here.instances() == {"n-0": "RUNNING", "n-1": "RUNNING"}
    assert here.request(group, "j1-1")["state"] == "SUCCEEDED"
    assert here.members(group)["n-0"]["currentAction"] == "NONE"


def test_the_insert_operation_is_done_only_when_the_request_is_accepted() -> None:
    here = Here(accept_delay="60s")
    operation = here.ask(here.group(), "j1-1", "n-0")
    path = operation["selfLink"].partition("/projects/p/")[2]
    here.wait(59)
    assert here.ok("GET", path)["status"] == "RUNNING"
    here.wait(2)
    assert here.ok("GET", path)["status"] == "DONE"


def test_a_request_without_capacity_waits_and_says_why() -> None:
    here = Here(capacity="never")
    group = here.group()
    here.ask(group, "j1-1", "n-0")
    here.wait(86400)
    found = here.request(group, "j1-1")
    assert found["state"] == "ACCEPTED"
    error = found["status"]["lastAttempt"]["error"]["errors"][0]
    assert error["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert error["errorDetails"][0]["errorInfo"]["reason"] == "resource_availability"
    member = here.members(group)["n-0"]
    assert member["currentAction"] == "CREATING"
    assert "id" not in member and "instanceStatus" not in member


def test_capacity_that_comes_later_serves_the_oldest_request_first() -> None:
    here = Here(capacity="never")
    group = here.group()
    here.ask(group, "old", "n-0")
    here.wait(10)
    here.ask(group, "new", "n-1")
    here.wait(10)
    here.knob(capacity=1)
    here.wait(40)
    assert here.request(group, "old")["state"] == "SUCCEEDED"
    assert here.request(group, "new")["state"] == "ACCEPTED"
    here.fault("instance_lost", instance="n-0")
    here.wait(40)
    assert here.request(group, "new")["state"] == "SUCCEEDED"


def test_all_of_a_request_comes_or_none() -> None:
    here = Here(capacity=3)
    group = here.group()
    here.ask(group, "four", "n-0", "n-1", "n-2", "n-3")
    here.wait(600)
    assert here.instances() == {}
    here.knob(capacity=4)
    here.wait(40)
    assert len(here.instances()) == 4


def test_capacity_after_a_delay_comes_that_long_after_acceptance() -> None:
    here = Here(capacity={"us-central1-a/*": "90s"})
    group = here.group()
    here.ask(group, "j1-1", "n-0")
    here.wait(4 + 89)
    assert here.instances() == {}
    here.wait(2)
    assert here.instances() == {"n-0": "PROVISIONING"}


def test_a_cancelled_request_gives_its_places_back() -> None:
    here = Here(capacity="never")
    group = here.group()
    here.ask(group, "j1-1", "n-0", "n-1")
    here.wait(5)
    done = here.done(here.ok("POST", f"{group}/resizeRequests/j1-1/cancel"))
    assert "error" not in done
    assert here.request(group, "j1-1")["state"] == "CANCELLED"
    assert here.size(group) == 0
    assert here.members(group) == {}


def test_a_request_that_is_being_provisioned_still_reads_accepted_and_refuses_to_be_cancelled() -> (
    None
):
    here = Here()
    group = here.group()
    here.ask(group, "j1-1", "n-0")
    here.wait(6)
    assert here.request(group, "j1-1")["state"] == "ACCEPTED"
    message = here.refused(412, "POST", f"{group}/resizeRequests/j1-1/cancel")
    assert message == ("Cancelling resize request that has reached a final state is not possible.")


def test_a_late_cancel_is_refused_by_its_operation_where_the_knob_says_so() -> None:
    here = Here(cancel_race="operation")
    group = here.group()
    here.up(group, "j1-1", "n-0")
    error = here.failure(here.ok("POST", f"{group}/resizeRequests/j1-1/cancel"))
    assert error["code"] == "CONDITION_NOT_MET"
    assert here.request(group, "j1-1")["state"] == "SUCCEEDED"


def test_a_request_can_be_deleted_only_when_it_has_ended_and_its_instances_stay() -> None:
    here = Here()
    group = here.group()
    here.ask(group, "j1-1", "n-0")
    here.wait(6)
    here.refused(412, "DELETE", f"{group}/resizeRequests/j1-1")
    here.wait(40)
    here.ok("DELETE", f"{group}/resizeRequests/j1-1")
    here.refused(404, "GET", f"{group}/resizeRequests/j1-1")
    assert here.instances() == {"n-0": "RUNNING"}


def test_a_finished_request_is_forgotten_after_fourteen_days() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0")
    here.wait(14 * 86400 - 60)
    assert here.request(group, "j1-1")["state"] == "SUCCEEDED"
    here.wait(120)
    here.refused(404, "GET", f"{group}/resizeRequests/j1-1")


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"instances": [{"name": "n-0"}]}, 400, "Required field 'resource.name'"),
        ({"name": "J1", "resizeBy": 1}, 400, "Must be a match of regex"),
        ({"name": "j" * 64, "resizeBy": 1}, 400, "Must be a match of regex"),
        ({"name": "j1"}, 400, "Exactly one of"),
        ({"name": "j1", "resizeBy": 1, "instances": [{"name": "n"}]}, 400, "Exactly one of"),
        ({"name": "j1", "resizeBy": 0}, 400, "greater than or equal to 1"),
        ({"name": "j1", "resizeBy": 1001}, 400, "less than or equal to 1000"),
        ({"name": "j1", "instances": [{"name": "N_0"}]}, 400, "instances[0].name"),
        ({"name": "j1", "instances": [{"name": "n"}, {"name": "n"}]}, 400, "unique"),
        ({"name": "j1", "resizeBy": 1, "colour": "red"}, 400, 'Unknown name "colour"'),
        ({"name": "j1", "resizeBy": "one"}, 400, "TYPE_INT32"),
        ({"name": "j1", "resizeBy": 1, "requestedRunDuration": {"nanos": 1}}, 400, "seconds"),
    ],
)
def test_a_malformed_request_is_refused_at_once(body: object, code: int, words: str) -> None:
    here = Here()
    group = here.group()
    assert words in here.refused(code, "POST", f"{group}/resizeRequests", body)
    assert here.size(group) == 0


def test_a_second_request_of_the_same_name_is_a_conflict_and_so_is_a_taken_node() -> None:
    here = Here(capacity="never")
    group = here.group()
    here.ask(group, "j1-1", "n-0")
    body = {"name": "j1-1", "instances": [{"name": "n-1"}]}
    assert "already exists" in here.refused(409, "POST", f"{group}/resizeRequests", body)
    body = {"name": "j1-2", "instances": [{"name": "n-0"}]}
    assert "already exists" in here.refused(409, "POST", f"{group}/resizeRequests", body)


def test_both_spellings_of_a_request_are_read() -> None:
    here = Here()
    group = here.group()
    body = {"name": "j1", "resize_by": 2, "requested_run_duration": {"seconds": 1200}}
    here.ok("POST", f"{group}/resizeRequests", body)
    found = here.request(group, "j1")
    assert found["resizeBy"] == 2
    assert found["requestedRunDuration"] == {"seconds": "1200"}
    assert len(here.members(group)) == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(599, "too short. Minimum value is equal to 10 minutes."), (604801, "too long")],
)
def test_a_run_duration_out_of_range_fails_the_operation(seconds: int, words: str) -> None:
    here = Here()
    group = here.group()
    error = here.failure(here.ask(group, "j1-1", "n-0", seconds=seconds))
    assert error["code"] == "INVALID_ARGUMENT"
    assert words in error["message"]
    assert here.request(group, "j1-1")["state"] == "FAILED"
    assert here.size(group) == 0


def test_a_request_whose_insert_failed_may_not_be_there_at_all() -> None:
    here = Here(failed_insert="absent")
    group = here.group()
    here.failure(here.ask(group, "j1-1", "n-0", seconds=10))
    here.refused(404, "GET", f"{group}/resizeRequests/j1-1")


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("n2-standard-8", "UNSUPPORTED_OPERATION"),
        ("a4x-highgpu-4g", "UNSUPPORTED_OPERATION"),
        ("a9-gigagpu-8g", "INVALID_MACHINE_TYPE"),
    ],
)
def test_flex_start_is_for_machine_types_with_accelerators(machine: str, code: str) -> None:
    here = Here()
    assert here.failure(here.ask(here.group(machine=machine), "j1-1", "n-0"))["code"] == code


def test_any_machine_type_will_do_where_the_knob_says_so() -> None:
    here = Here(flex_machine_types="any")
    here.up(here.group(machine="n2-standard-8"), "j1-1", "n-0")


def test_h4d_has_no_gpu_and_is_offered_all_the_same() -> None:
    here = Here()
    here.up(here.group(machine="h4d-standard-192"), "j1-1", "n-0")


def test_a_machine_type_that_the_zone_lacks_is_invalid_there() -> None:
    here = Here(not_offered="us-central1-a/a3-*, us-east1-b/*")
    group = here.group()
    assert here.failure(here.ask(group, "j1-1", "n-0"))["code"] == "INVALID_MACHINE_TYPE"
    here.refused(404, "GET", f"{ZONE}/machineTypes/a3-ultragpu-8g")
    here.ok("GET", "zones/us-central1-b/machineTypes/a3-ultragpu-8g")
    names = {item["name"] for item in here.ok("GET", f"{ZONE}/machineTypes")["items"]}
    assert "g2-standard-4" in names and "a3-ultragpu-8g" not in names


def test_an_unknown_accelerator_fails_the_operation() -> None:
    here = Here()
    template = {
        "name": "odd",
        "properties": {
            "machineType": "a3-ultragpu-8g",
            "guestAccelerators": [{"acceleratorType": "nvidia-abacus", "acceleratorCount": 1}],
        },
    }
    here.ok("POST", "global/instanceTemplates", template)
    group = here.group(versions=[{"instanceTemplate": "global/instanceTemplates/odd"}])
    assert here.failure(here.ask(group, "j1-1", "n-0"))["code"] == "INVALID_GPU_TYPE"


def test_the_hundred_and_first_active_request_of_a_region_fails_with_a_quota() -> None:
    here = Here(capacity="never", active_resize_requests=3)
    group = here.group()
    for number in range(3):
        assert "error" not in here.done(here.ask(group, f"j{number}", f"n-{number}"))
    error = here.failure(here.ask(group, "j3", "n-3"))
    assert error["code"] == "QUOTA_EXCEEDED"
    assert error["message"] == (
        "Quota 'ACTIVE_RESIZE_REQUESTS' exceeded.  Limit: 3.0 in region us-central1."
    )
    assert here.size(group) == 3


def test_a_group_has_a_largest_size_and_pagination_doubles_it() -> None:
    here = Here(zonal_group_size=2, zonal_group_size_paginated=4)
    group = here.group()
    error = here.failure(here.ask(group, "j1", "n-0", "n-1", "n-2"))
    assert error["code"] == "LIMIT_EXCEEDED"
    assert "MAX_INSTANCES_IN_INSTANCE_GROUP" in error["message"]
    here.ok("PATCH", group, {"listManagedInstancesResults": "PAGINATED"})
    here.up(group, "j2", "n-0", "n-1", "n-2")


def test_missing_quota_leaves_the_request_accepted_with_the_reason() -> None:
    here = Here(quotas={"us-central1/PREEMPTIBLE_NVIDIA_H200_GPUS": 8})
    group = here.group()
    here.up(group, "j1", "n-0")
    here.ask(group, "j2", "n-1")
    here.wait(600)
    found = here.request(group, "j2")
    assert found["state"] == "ACCEPTED"
    error = found["status"]["lastAttempt"]["error"]["errors"][0]
    assert error["code"] == "QUOTA_EXCEEDED"
    assert error["message"] == (
        "Quota 'PREEMPTIBLE_NVIDIA_H200_GPUS' exceeded.  Limit: 8.0 in region us-central1."
    )


def test_flex_start_takes_standard_quota_where_no_preemptible_quota_was_granted() -> None:
    here = Here(quotas={"PREEMPTIBLE_NVIDIA_H200_GPUS": 0, "NVIDIA_H200_GPUS": 8})
    group = here.group()
    here.up(group, "j1", "n-0")
    quotas = {q["metric"]: q for q in here.ok("GET", REGION)["quotas"]}
    assert quotas["NVIDIA_H200_GPUS"]["usage"] == 8.0
    assert quotas["PREEMPTIBLE_NVIDIA_H200_GPUS"]["usage"] == 0.0


def test_a_group_that_repairs_or_has_two_versions_takes_no_resize_requests() -> None:
    here = Here()
    group = here.group(instanceLifecyclePolicy={"defaultActionOnFailure": "REPAIR"})
    body = {"name": "j1", "resizeBy": 1}
    assert "DO_NOTHING" in here.refused(412, "POST", f"{group}/resizeRequests", body)
    here.knob(strict_groups=False)
    here.ok("POST", f"{group}/resizeRequests", body)


def test_a_request_may_succeed_as_soon_as_its_instances_exist() -> None:
    here = Here(succeeded_when="created")
    group = here.group()
    here.ask(group, "j1-1", "n-0")
    here.wait(5)
    assert here.request(group, "j1-1")["state"] == "SUCCEEDED"
    assert here.instances() == {"n-0": "PROVISIONING"}


def test_a_regional_request_comes_in_one_zone_that_has_room_for_all_of_it() -> None:
    here = Here(capacity={"*": "never", "us-central1-c/*": 2, "us-central1-b/*": 1})
    here.place = REGION
    group = here.group()
    here.ask(group, "j1-1", "n-0", "n-1")
    here.wait(40)
    found = here.members(group)
    assert [item["instance"].split("/")[-3] for item in found.values()] == ["us-central1-c"] * 2
    shown = here.request(group, "j1-1")
    assert shown["region"].endswith("regions/us-central1") and "zone" not in shown


def test_a_node_that_exists_elsewhere_in_the_zone_keeps_the_request_waiting() -> None:
    here = Here()
    group = here.group()
    other = here.group("other")
    here.up(other, "j1-1", "n-0")
    here.ask(group, "j2-1", "n-0")
    here.wait(600)
    error = here.request(group, "j2-1")["status"]["lastAttempt"]["error"]["errors"][0]
    assert error["code"] == "RESOURCE_ALREADY_EXISTS"
    here.fault("instance_lost", instance="n-0")
    here.wait(40)
    assert here.request(group, "j2-1")["state"] == "SUCCEEDED"
