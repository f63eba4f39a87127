"""Managed instance groups and templates."""

from __future__ import annotations

import pytest

from tests.unit.emulator.here import REGION, ZONE, Here


def test_a_group_needs_its_template_and_a_name_of_its_own() -> None:
    here = Here()
    group = here.group()
    groups = f"{ZONE}/instanceGroupManagers"
    body = {"name": "h", "targetSize": 0, "instanceTemplate": "global/instanceTemplates/none"}
    assert here.refused(404, "POST", groups, body) == (
        "The resource 'projects/p/global/instanceTemplates/none' was not found"
    )
    body["instanceTemplate"] = "global/instanceTemplates/g-t"
    assert "already exists" in here.refused(409, "POST", groups, {**body, "name": "g"})
    assert "malformed" in here.refused(400, "POST", groups, {**body, "instanceTemplate": "g-t"})
    del body["targetSize"]
    assert "targetSize" in here.refused(400, "POST", groups, body)
    assert here.ok("GET", group)["targetSize"] == 0


def test_a_patch_merges_and_an_old_fingerprint_is_refused() -> None:
    here = Here()
    group = here.group()
    before = here.ok("GET", group)
    policy = {"updatePolicy": {"type": "OPPORTUNISTIC", "minimalAction": "REFRESH"}}
    here.ok("PATCH", group, {**policy, "fingerprint": before["fingerprint"]})
    after = here.ok("GET", group)
    assert after["updatePolicy"]["minimalAction"] == "REFRESH"
    assert after["instanceLifecyclePolicy"]["defaultActionOnFailure"] == "DO_NOTHING"
    assert after["fingerprint"] != before["fingerprint"]
    stale = {**policy, "fingerprint": before["fingerprint"]}
    assert here.refused(412, "PATCH", group, stale) == "Invalid fingerprint."


def test_a_new_template_is_for_instances_to_come() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0")
    properties = {
        "machineType": "a3-megagpu-8g",
        "scheduling": {"provisioningModel": "FLEX_START"},
    }
    here.ok("POST", "global/instanceTemplates", {"name": "t2", "properties": properties})
    here.ok("PATCH", group, {"versions": [{"instanceTemplate": "global/instanceTemplates/t2"}]})
    here.up(group, "j2-1", "n-1")
    types = {
        name: here.ok("GET", f"{ZONE}/instances/{name}")["machineType"].rsplit("/", 1)[-1]
        for name in ("n-0", "n-1")
    }
    assert types == {"n-0": "a3-ultragpu-8g", "n-1": "a3-megagpu-8g"}


def test_a_template_in_use_is_not_deleted() -> None:
    here = Here()
    group = here.group()
    message = here.refused(400, "DELETE", "global/instanceTemplates/g-t")
    assert "already being used by" in message
    here.ok("DELETE", group)
    here.wait(10)
    here.ok("DELETE", "global/instanceTemplates/g-t")
    here.refused(404, "GET", "global/instanceTemplates/g-t")


def test_the_target_size_is_not_changed_by_hand_while_a_request_is_active() -> None:
    here = Here(capacity="never")
    group = here.group()
    here.ask(group, "j1-1", "n-0")
    here.wait(5)
    here.refused(412, "POST", f"{group}/resize", size="5")
    here.refused(412, "PATCH", group, {"targetSize": 5})


def test_resizing_makes_instances_with_names_of_their_own_and_takes_them_away() -> None:
    here = Here()
    group = here.group(baseInstanceName="base")
    here.ok("POST", f"{group}/resize", size="3")
    here.wait(40)
    names = list(here.instances())
    assert len(names) == 3 and all(name.startswith("base-") for name in names)
    here.ok("POST", f"{group}/resize", size="1")
    here.wait(40)
    assert len(here.instances()) == 1
    assert here.size(group) == 1


def test_created_instances_come_one_by_one_as_there_is_room() -> None:
    here = Here(capacity=1)
    group = here.group()
    body = {"instances": [{"name": "n-0"}, {"name": "n-1"}]}
    here.done(here.ok("POST", f"{group}/createInstances", body))
    here.wait(40)
    assert here.instances() == {"n-0": "RUNNING"}
    waiting = here.members(group)["n-1"]
    assert waiting["currentAction"] == "CREATING"
    error = waiting["lastAttempt"]["errors"]["errors"][0]
    assert error["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    listed = here.ok("GET", f"{group}/listErrors")["items"]
    assert listed[0]["error"]["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert listed[0]["instanceActionDetails"]["instance"].endswith("/instances/n-1")
    here.knob(capacity=2)
    here.wait(40)
    assert here.instances()["n-1"] == "RUNNING"


def test_creating_a_name_that_is_taken_fails_the_operation() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0")
    operation = here.ok("POST", f"{group}/createInstances", {"instances": [{"name": "n-0"}]})
    assert here.failure(operation)["code"] == "RESOURCE_ALREADY_EXISTS"


def test_deleting_a_group_takes_its_instances_and_waiting_requests_along() -> None:
    here = Here(capacity=1)
    group = here.group()
    here.up(group, "j1-1", "n-0")
    here.ask(group, "j2-1", "n-1")
    here.wait(5)
    operation = here.ok("DELETE", group)
    here.wait(10)
    assert here.ok("GET", group)["targetSize"] == 0
    here.wait(30)
    here.refused(404, "GET", group)
    assert here.instances() == {}
    assert "error" not in here.done(operation)


@pytest.mark.parametrize("waits", [True, False])
def test_deleting_a_group_waits_for_a_request_that_is_being_provisioned(waits: bool) -> None:
    here = Here(group_delete_waits=waits)
    group = here.group()
    here.ask(group, "j1-1", "n-0")
    here.wait(6)
    here.ok("DELETE", group)
    here.wait(10)
    assert (here.instances() == {}) is not waits
    here.wait(90)
    here.refused(404, "GET", group)
    assert here.instances() == {}


def test_a_stable_group_counts_its_actions_and_statuses() -> None:
    here = Here()
    group = here.group()
    assert here.ok("GET", group)["status"]["isStable"] is True
    here.ask(group, "j1-1", "n-0")
    here.wait(6)
    found = here.ok("GET", group)
    assert found["status"]["isStable"] is False
    assert found["currentActions"]["creating"] == 1
    assert found["status"]["currentInstanceStatuses"]["provisioning"] == 1
    here.wait(40)
    assert here.ok("GET", group)["currentActions"]["none"] == 1


def test_flex_start_instances_are_not_recreated() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0")
    body = {"instances": [f"{ZONE}/instances/n-0"]}
    operation = here.ok("POST", f"{group}/recreateInstances", body)
    assert here.failure(operation)["code"] == "UNSUPPORTED_OPERATION"


def test_standard_instances_are_recreated_under_their_name() -> None:
    here = Here()
    group = here.group(model="STANDARD", targetSize=1)
    here.wait(40)
    ((name, _),) = here.instances().items()
    first = here.ok("GET", f"{ZONE}/instances/{name}")["id"]
    here.ok("POST", f"{group}/recreateInstances", {"instances": [f"{ZONE}/instances/{name}"]})
    assert here.members(group)[name]["currentAction"] == "RECREATING"
    here.wait(90)
    assert here.ok("GET", f"{ZONE}/instances/{name}")["id"] != first
    assert here.size(group) == 1


def test_updates_are_applied_by_recreating_what_differs() -> None:
    here = Here()
    group = here.group(model="STANDARD", targetSize=2)
    here.wait(40)
    here.ok("POST", "global/instanceTemplates",
            {"name": "t2", "properties": {"machineType": "g2-standard-4"}})  # fmt: skip
    here.ok("PATCH", group, {"versions": [{"instanceTemplate": "global/instanceTemplates/t2"}]})
    operation = here.ok("POST", f"{group}/applyUpdatesToInstances",
                        {"allInstances": True, "mostDisruptiveAllowedAction": "NONE"})  # fmt: skip
    assert here.failure(operation)["code"] == "CONDITION_NOT_MET"
    here.ok("POST", f"{group}/applyUpdatesToInstances", {"allInstances": True})
    here.wait(90)
    found = here.ok("GET", f"{ZONE}/instances")["items"]
    assert [item["machineType"].rsplit("/", 1)[-1] for item in found] == ["g2-standard-4"] * 2


def test_abandoned_instances_live_on_without_their_group() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0")
    here.ok("POST", f"{group}/abandonInstances", {"instances": [f"{ZONE}/instances/n-0"]})
    assert here.members(group) == {}
    assert here.size(group) == 0
    here.ok("DELETE", group)
    here.wait(60)
    assert here.instances() == {"n-0": "RUNNING"}


def test_a_regional_group_lives_under_its_region_and_in_the_aggregated_list() -> None:
    here = Here()
    here.group()
    here.place = REGION
    here.group("r")
    zonal = here.ok("GET", f"{ZONE}/instanceGroupManagers")["items"]
    regional = here.ok("GET", f"{REGION}/instanceGroupManagers")["items"]
    assert [item["name"] for item in zonal] == ["g"]
    assert [item["name"] for item in regional] == ["r"]
    items = here.ok("GET", "aggregated/instanceGroupManagers")["items"]
    assert [g["name"] for g in items[ZONE]["instanceGroupManagers"]] == ["g"]
    assert [g["name"] for g in items[REGION]["instanceGroupManagers"]] == ["r"]
    assert items["zones/us-east1-b"]["warning"]["code"] == "NO_RESULTS_ON_PAGE"


def test_there_is_no_group_in_a_zone_that_is_none() -> None:
    here = Here()
    assert here.refused(404, "GET", "zones/us-central1-z/instanceGroupManagers/g") == (
        "The resource 'projects/p/zones/us-central1-z' was not found"
    )


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({"provisioningModel": "FLEX_START", "onHostMaintenance": "MIGRATE"}, "TERMINATE"),
        (
            {"maxRunDuration": {"seconds": 600}, "terminationTime": "2027-01-01T00:00:00Z"},
            "only one",
        ),
        ({"provisioningModel": "FLUX_START"}, "TYPE_ENUM"),
    ],
)
def test_a_template_that_can_not_be_is_refused(schedule: object, words: str) -> None:
    here = Here()
    body = {"name": "t", "properties": {"machineType": "g2-standard-4", "scheduling": schedule}}
    assert words in here.refused(400, "POST", "global/instanceTemplates", body)
