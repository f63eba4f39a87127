"""Operations and request ids."""

from __future__ import annotations

import pytest

from tests.unit.emulator.here import ZONE, Here

UUID = "5b1a54f6-6a53-4a0c-9b29-0d40d1f1c4d1"


def test_an_operation_is_pending_then_running_then_done() -> None:
    here = Here()
    group = here.group()
    operation = here.ok("PATCH", group, {"updatePolicy": {"type": "OPPORTUNISTIC"}})
    assert (operation["status"], operation["progress"]) == ("PENDING", 0)
    path = operation["selfLink"].partition("/projects/p/")[2]
    here.wait(1)
    assert here.ok("GET", path)["status"] == "RUNNING"
    here.wait(1)
    done = here.ok("GET", path)
    assert (done["status"], done["progress"]) == ("DONE", 100)
    assert done["targetLink"].endswith(group)
    assert done["zone"].endswith(ZONE)


def test_an_operation_is_found_by_its_number_too() -> None:
    here = Here()
    operation = here.ok("PATCH", here.group(), {})
    assert here.ok("GET", f"{ZONE}/operations/{operation['id']}")["name"] == operation["name"]


@pytest.mark.parametrize("carries", [True, False])
def test_a_failed_operation_carries_an_http_code_or_not(carries: bool) -> None:
    here = Here(operation_http_status=carries)
    done = here.done(here.ask(here.group(), "j1-1", "n-0", seconds=1))
    assert done["error"]["errors"][0]["code"] == "INVALID_ARGUMENT"
    assert ("httpErrorStatusCode" in done) is carries
    if carries:
        assert (done["httpErrorStatusCode"], done["httpErrorMessage"]) == (400, "BAD REQUEST")


def test_a_repeated_request_id_leads_to_the_same_operation_and_does_nothing_more() -> None:
    here = Here(capacity="never")
    group = here.group()
    first = here.ask(group, "j1-1", "n-0", requestId=UUID)
    again = here.ask(group, "j1-1", "n-0", requestId=UUID)
    assert again["name"] == first["name"]
    assert again["clientOperationId"] == UUID
    assert here.size(group) == 1


def test_a_second_deletion_under_the_same_id_is_swallowed_and_under_a_new_one_is_not() -> None:
    here = Here()
    group = here.group()
    body = {"instances": [f"{ZONE}/instances/n-0"]}
    here.up(group, "j1-1", "n-0")
    here.ok("POST", f"{group}/deleteInstances", body, requestId=UUID)
    here.wait(40)
    here.up(group, "j1-2", "n-0")
    here.ok("POST", f"{group}/deleteInstances", body, requestId=UUID)
    here.wait(40)
    assert here.instances() == {"n-0": "RUNNING"}
    here.ok("POST", f"{group}/deleteInstances", body, requestId=UUID.replace("5b", "6b"))
    here.wait(40)
    assert here.instances() == {}


def test_a_request_id_is_forgotten_after_a_while() -> None:
    here = Here(capacity="never")
    group = here.group()
    here.ask(group, "j1-1", "n-0", requestId=UUID)
    here.wait(3700)
    body = {"name": "j1-1", "instances": [{"name": "n-0"}]}
    here.refused(409, "POST", f"{group}/resizeRequests", body, requestId=UUID)


@pytest.mark.parametrize("bad", ["1", "00000000-0000-0000-0000-000000000000", "x" * 36])
def test_a_request_id_that_is_no_uuid_is_refused(bad: str) -> None:
    here = Here()
    group = here.group()
    assert "requestId" in here.refused(400, "PATCH", group, {}, requestId=bad)


def test_a_refused_call_does_not_use_up_its_request_id() -> None:
    here = Here()
    group = here.group()
    here.refused(400, "POST", f"{group}/resizeRequests", {"name": "J"}, requestId=UUID)
    here.ask(group, "j1-1", "n-0", requestId=UUID)


def test_old_operations_are_forgotten() -> None:
    here = Here(operation_retention="1h")
    operation = here.ok("PATCH", here.group(), {})
    path = operation["selfLink"].partition("/projects/p/")[2]
    here.wait(3500)
    here.ok("GET", path)
    here.wait(200)
    here.refused(404, "GET", path)


def test_operations_are_listed_by_zone_and_over_all_of_them() -> None:
    here = Here()
    here.group()
    zonal = here.ok("GET", f"{ZONE}/operations")["items"]
    overall = here.ok("GET", "global/operations")["items"]
    assert [item["operationType"] for item in zonal] == ["compute.instanceGroupManagers.insert"]
    assert [item["operationType"] for item in overall] == ["insert"]
    items = here.ok("GET", "aggregated/operations")["items"]
    assert len(items[ZONE]["operations"]) == len(items["global"]["operations"]) == 1


def test_done_operations_are_filtered_by_status() -> None:
    here = Here()
    group = here.group()
    here.wait(10)
    here.ok("PATCH", group, {})
    found = here.ok("GET", f"{ZONE}/operations", filter='status!="DONE"')["items"]
    assert [item["operationType"] for item in found] == ["compute.instanceGroupManagers.patch"]
