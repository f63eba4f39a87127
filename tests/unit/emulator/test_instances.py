"""Instances: from PROVISIONING to gone, and what the clock does to them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.unit.emulator.here import T0, ZONE, Here


def _end(item: dict[str, object]) -> datetime:
    status = item["resourceStatus"]
    assert isinstance(status, dict)
    return datetime.fromisoformat(status["scheduling"]["terminationTimestamp"])


def test_the_run_duration_is_counted_from_running_and_listed_in_both_places() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0", seconds=3600)
    running = T0 + timedelta(seconds=4 + 10 + 20)
    instance = here.ok("GET", f"{ZONE}/instances/n-0")
    assert _end(instance) == running + timedelta(hours=1)
    scheduling = here.members(group)["n-0"]["scheduling"]
    assert datetime.fromisoformat(scheduling["terminationTimestamp"]) == _end(instance)
    assert instance["scheduling"]["maxRunDuration"] == {"seconds": "3600"}


def test_no_end_of_life_is_shown_before_it_runs() -> None:
    here = Here()
    group = here.group()
    here.ask(group, "j1-1", "n-0")
    here.wait(10)
    assert "scheduling" not in here.members(group)["n-0"]


def test_the_clock_may_start_at_creation() -> None:
    here = Here(run_duration_starts="created")
    here.up(here.group(), "j1-1", "n-0", seconds=3600)
    assert _end(here.ok("GET", f"{ZONE}/instances/n-0")) == T0 + timedelta(seconds=3604)


def test_the_end_of_life_may_not_be_shown_at_all() -> None:
    here = Here(termination_timestamp="never")
    here.up(here.group(), "j1-1", "n-0")
    assert here.ok("GET", f"{ZONE}/instances/n-0")["resourceStatus"]["scheduling"] == {}


@pytest.mark.parametrize(("drops", "left"), [(True, 0), (False, 1)])
def test_at_its_end_an_instance_stops_is_gone_and_is_not_replaced(drops: bool, left: int) -> None:
    here = Here(target_size_drops_at_end_of_life=drops)
    group = here.group()
    here.up(group, "j1-1", "n-0", seconds=3600)
    here.wait(3595)
    assert here.instances() == {"n-0": "STOPPING"}
    member = here.members(group)["n-0"]
    assert (member["currentAction"], member["targetStatus"]) == ("DELETING", "DELETED")
    here.wait(31)
    assert here.instances() == {}
    assert here.members(group) == {}
    assert here.size(group) == left
    assert "was not found" in here.refused(404, "GET", f"{ZONE}/instances/n-0")


def test_the_end_may_be_late() -> None:
    here = Here(end_of_life_lateness="30s")
    here.up(here.group(), "j1-1", "n-0", seconds=600)
    here.wait(594 + 25)
    assert here.instances() == {"n-0": "RUNNING"}
    here.wait(10)
    assert here.instances() == {"n-0": "STOPPING"}


def test_deleted_members_leave_at_once_in_size_and_soon_in_fact() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0", "n-1")
    body = {"instances": [f"{ZONE}/instances/n-0"]}
    operation = here.ok("POST", f"{group}/deleteInstances", body)
    assert here.size(group) == 1
    assert here.instances()["n-0"] == "STOPPING"
    assert "error" not in here.done(operation)
    assert here.instances()["n-0"] == "STOPPING"
    here.wait(31)
    assert here.instances() == {"n-1": "RUNNING"}


def test_a_second_deletion_fails_unless_it_skips_what_is_no_member() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0")
    body = {"instances": [f"{ZONE}/instances/n-0"]}
    here.ok("POST", f"{group}/deleteInstances", body)
    assert here.failure(here.ok("POST", f"{group}/deleteInstances", body))["code"] == (
        "INVALID_ARGUMENT"
    )
    body["skipInstancesOnValidationError"] = True  # type: ignore[assignment]
    assert "error" not in here.done(here.ok("POST", f"{group}/deleteInstances", body))


def test_queued_members_are_deleted_by_cancelling_their_request() -> None:
    here = Here(capacity="never")
    group = here.group()
    here.ask(group, "j1-1", "n-0", "n-1")
    here.wait(5)
    error = here.failure(here.ok("POST", f"{group}/deleteInstances", {"instances": ["n-0"]}))
    assert error["code"] == "CONDITION_NOT_MET"
    here.knob(delete_queued_member="allow")
    here.done(here.ok("POST", f"{group}/deleteInstances", {"instances": ["n-0"]}))
    assert list(here.members(group)) == ["n-1"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([f"{ZONE}/instances/n-0", "n-1"], "both URLs and names"),
        (["zones/us-east1-b/instances/n-0"], "not in the group's zone"),
        (["instances/n-0"], "malformed"),
        ([], "not specified"),
    ],
)
def test_names_that_make_no_sense_are_refused(names: list[str], words: str) -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0", "n-1")
    body = {"instances": names}
    assert words in here.refused(400, "POST", f"{group}/deleteInstances", body)


def test_at_most_a_thousand_names_a_call() -> None:
    here = Here(instances_per_call=2)
    group = here.group()
    body = {"instances": [f"{ZONE}/instances/n-{number}" for number in range(3)]}
    assert "at most 2" in here.refused(400, "POST", f"{group}/deleteInstances", body)


def test_a_terminated_member_stays_until_it_is_deleted() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0")
    here.fault("host_error", instance="n-0")
    here.wait(86400 // 30)
    assert here.instances() == {"n-0": "TERMINATED"}
    assert here.size(group) == 1
    here.ok("POST", f"{group}/deleteInstances", {"instances": [f"{ZONE}/instances/n-0"]})
    here.wait(1)
    assert here.instances() == {}
    assert here.size(group) == 0


def test_a_terminated_member_may_leave_by_itself() -> None:
    here = Here(terminated_member="leave")
    group = here.group()
    here.up(group, "j1-1", "n-0")
    here.fault("host_error", instance="n-0")
    here.wait(1)
    assert here.members(group) == {}


def test_a_group_with_repair_makes_a_lost_instance_anew() -> None:
    here = Here()
    group = here.group(model="STANDARD", instanceLifecyclePolicy={}, targetSize=1)
    here.wait(40)
    ((name, _),) = here.instances().items()
    first = here.ok("GET", f"{ZONE}/instances/{name}")["id"]
    here.fault("instance_lost", instance=name)
    assert here.members(group)[name]["currentAction"] == "RECREATING"
    here.wait(40)
    assert here.instances() == {name: "RUNNING"}
    assert here.ok("GET", f"{ZONE}/instances/{name}")["id"] != first


@pytest.mark.parametrize(("drops", "left"), [(True, 0), (False, 1)])
def test_a_lost_flex_start_instance_is_not_replaced(drops: bool, left: int) -> None:
    here = Here(target_size_drops_when_lost=drops)
    group = here.group()
    here.up(group, "j1-1", "n-0")
    here.fault("instance_lost", instance="n-0")
    here.wait(600)
    assert here.members(group) == {}
    assert here.size(group) == left


def test_deleting_an_instance_is_done_when_it_is_gone() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0")
    operation = here.ok("DELETE", f"{ZONE}/instances/n-0")
    path = operation["selfLink"].partition("/projects/p/")[2]
    here.wait(29)
    assert here.ok("GET", path)["status"] == "RUNNING"
    here.wait(2)
    assert here.ok("GET", path)["status"] == "DONE"
    assert here.instances() == {}


def test_an_instance_of_its_own_is_inserted_from_a_template_and_stopped_at_its_end() -> None:
    here = Here()
    here.group()
    body = {
        "name": "alone",
        "scheduling": {"provisioningModel": "FLEX_START", "maxRunDuration": {"seconds": 600},
                       "instanceTerminationAction": "STOP"},
    }  # fmt: skip
    here.ok(
        "POST", f"{ZONE}/instances", body, sourceInstanceTemplate="global/instanceTemplates/g-t"
    )
    here.wait(31)
    assert here.instances() == {"alone": "RUNNING"}
    here.refused(409, "POST", f"{ZONE}/instances", {**body, "machineType": "g2-standard-4"})
    here.wait(600)
    here.wait(31)
    assert here.instances() == {"alone": "TERMINATED"}


def test_an_instance_without_capacity_fails_its_insert() -> None:
    here = Here(capacity="never")
    body = {"name": "alone", "machineType": f"{ZONE}/machineTypes/a3-ultragpu-8g"}
    operation = here.ok("POST", f"{ZONE}/instances", body)
    assert here.failure(operation)["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert here.instances() == {}


def test_labels_and_metadata_change_only_with_their_present_fingerprint() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0")
    one = f"{ZONE}/instances/n-0"
    found = here.ok("GET", one)
    body = {"labels": {"a": "b"}, "labelFingerprint": found["labelFingerprint"]}
    here.ok("POST", f"{one}/setLabels", body)
    here.refused(412, "POST", f"{one}/setLabels", body)
    assert here.ok("GET", one)["labels"] == {"a": "b"}
    body = {
        "fingerprint": found["metadata"]["fingerprint"],
        "items": [{"key": "k", "value": "v"}],
    }
    here.ok("POST", f"{one}/setMetadata", body)
    here.refused(412, "POST", f"{one}/setMetadata", body)
    assert here.ok("GET", one)["metadata"]["items"] == [{"key": "k", "value": "v"}]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "FAULT_REASONS_EMPTY_SHOULD_BE_SPECIFIED"),
        ({"faultReasons": [{"behavior": "UNRECOVERABLE_GPU_ERROR"}]},
         "INSTANCES_WITHOUT_RESERVATION_NOT_SUPPORTED"),
    ],
)  # fmt: skip
def test_a_broken_host_can_not_be_reported_for_flex_start(body: object, code: str) -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0")
    operation = here.ok("POST", f"{ZONE}/instances/n-0/reportHostAsFaulty", body)
    assert here.failure(operation)["code"] == code


def test_an_allow_listed_project_may_report_a_broken_host() -> None:
    here = Here(faulty_host_reports="accepted")
    here.up(here.group(), "j1-1", "n-0")
    body = {"faultReasons": [{"behavior": "PERFORMANCE"}], "disruptionSchedule": "IMMEDIATE"}
    here.done(here.ok("POST", f"{ZONE}/instances/n-0/reportHostAsFaulty", body))
    assert here.instances() == {"n-0": "TERMINATED"}


def test_timestamps_carry_an_offset_and_milliseconds() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0")
    assert here.ok("GET", f"{ZONE}/instances/n-0")["creationTimestamp"] == (
        "2026-12-01T04:00:04.000-08:00"
    )
    here.knob(timestamp_offset_minutes=540)
    assert here.ok("GET", f"{ZONE}/instances/n-0")["creationTimestamp"] == (
        "2026-12-01T21:00:04.000+09:00"
    )


def test_what_was_paid_for_is_the_time_from_running_to_gone() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0", seconds=600)
    here.wait(1000)
    (bill,) = here.world.bills
    assert bill.seconds == 600 + 30
    assert bill.since is None


def test_the_console_tells_of_the_boot_and_is_read_from_an_offset() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0")
    whole = here.ok("GET", f"{ZONE}/instances/n-0/serialPort")
    assert "login: started" in whole["contents"]
    rest = here.ok("GET", f"{ZONE}/instances/n-0/serialPort", start="10")
    assert rest["contents"] == whole["contents"][10:]
    assert rest["next"] == whole["next"] == str(len(whole["contents"]))
    last = here.ok("GET", f"{ZONE}/instances/n-0/serialPort", start="-10")
    assert last["contents"] == whole["contents"][-10:], "negative: from its end"
