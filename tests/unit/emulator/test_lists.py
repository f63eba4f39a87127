"""Filters, pages, orders, partial responses."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_flex.emulator.core.errors import ApiError
from slurm_flex.emulator.core.filters import parse_filter
from slurm_flex.emulator.web.definitions import document
from slurm_flex.emulator.web.partial import select
from tests.unit.emulator.here import ZONE, Here

ITEM: dict[str, Any] = {
    "name": "c-gx-7",
    "status": "RUNNING",
    "id": "123",
    "labels": {"x": "y", "slurm_cluster_name": "c"},
    "scheduling": {"preemptible": False},
    "networkInterfaces": [{"name": "nic0", "networkIP": "10.0.0.7"}],
    "creationTimestamp": "2026-12-01T04:00:04.000-08:00",
}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("labels.x=y AND name:c-*", True),
        ("labels.slurm_cluster_name=c AND name:c-*", True),
        ('labels.x = "y"', True),
        ("labels.x=z", False),
        ("labels.absent=y", False),
        ("labels.absent!=y", True),
        ("labels.x:*", True),
        ("labels.absent:*", False),
        ("labels:x", True),
        ("name:gx", True),
        ("name:tx", False),
        ("name=c-gx-*", True),
        ("status=RUNNING OR status=STAGING", True),
        ("(status=STAGING OR status=STOPPING) AND labels.x=y", False),
        ("NOT status=STOPPING", True),
        ("-status=RUNNING", False),
        ("(status = RUNNING) (name = c-gx-7)", True),
        ("scheduling.preemptible=false", True),
        ("scheduling.preemptible = true", False),
        ("id>100", True),
        ("id<=100", False),
        ("networkInterfaces.networkIP=10.0.0.7", True),
        ('creationTimestamp>"2026-11-01"', True),
        ("name eq c-.*", True),
        ("name eq 'gx'", False),
        ("name ne c-gx-7", False),
        ("labels.absent ne y", True),
        ("scheduling.preemptible eq false", True),
        ("(status eq RUNNING) (name eq .*-7)", True),
        ("(status eq RUNNING) (name eq .*-8)", False),
    ],
)
def test_both_syntaxes_of_filters_say_what_matches(text: str, matches: bool) -> None:
    assert parse_filter(text)(ITEM) is matches


@pytest.mark.parametrize("text", ["name", "name=", "(name=a", "name=a)", "name ~ a", "name eq ("])
def test_a_filter_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match="Invalid list filter expression") as caught:
        parse_filter(text)
    assert caught.value.code == 400


def _names(here: Here, **params: str) -> tuple[list[str], str]:
    found = here.ok("GET", f"{ZONE}/instances", **params)
    return [item["name"] for item in found.get("items", [])], found.get("nextPageToken", "")


def _five() -> Here:
    here = Here()
    group = here.group()
    for number in (3, 1, 0, 2, 4):
        here.up(group, f"j{number}", f"n-{number}")
    return here


def test_pages_follow_the_names_even_when_some_vanish_in_between() -> None:
    here = _five()
    first, token = _names(here, maxResults="2")
    assert first == ["n-0", "n-1"]
    here.fault("instance_lost", instance="n-0")
    second, token = _names(here, maxResults="2", pageToken=token)
    assert second == ["n-2", "n-3"]
    third, token = _names(here, maxResults="2", pageToken=token)
    assert (third, token) == (["n-4"], "")


def test_a_filtered_list_is_cut_into_pages_too() -> None:
    here = _five()
    first, token = _names(here, maxResults="2", filter="name!=n-1")
    second, rest = _names(here, maxResults="2", filter="name!=n-1", pageToken=token)
    assert (first, second, rest) == (["n-0", "n-2"], ["n-3", "n-4"], "")


def test_the_newest_come_first_where_that_is_asked() -> None:
    assert _names(_five(), orderBy="creationTimestamp desc")[0] == [
        "n-4", "n-2", "n-0", "n-1", "n-3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"maxResults": "501"}, "maxResults"),
        ({"maxResults": "many"}, "maxResults"),
        ({"pageToken": "nonsense"}, "pageToken"),
        ({"orderBy": "status"}, "orderBy"),
        ({"filter": "name"}, "filter"),
        ({"fields": "items(colour)"}, "items/colour"),
        ({"fields": "items("}, "Invalid field selection"),
    ],
)
def test_bad_parameters_of_a_list_are_named(params: dict[str, str], words: str) -> None:
    assert words in _five().refused(400, "GET", f"{ZONE}/instances", **params)


def test_managed_instances_come_in_pages_only_where_the_group_says_so() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0", "n-1", "n-2")
    found = here.ok("POST", f"{group}/listManagedInstances", maxResults="2")
    assert len(found["managedInstances"]) == 3
    here.ok("PATCH", group, {"listManagedInstancesResults": "PAGINATED"})
    found = here.ok("POST", f"{group}/listManagedInstances", maxResults="2")
    assert [item["name"] for item in found["managedInstances"]] == ["n-0", "n-1"]
    token = found["nextPageToken"]
    found = here.ok("POST", f"{group}/listManagedInstances", maxResults="2", pageToken=token)
    assert [item["name"] for item in found["managedInstances"]] == ["n-2"]


def test_an_aggregated_list_runs_over_zones_in_pages() -> None:
    here = _five()
    here.place = "zones/us-east1-b"
    here.up(here.group("h"), "j", "m-0")
    names: list[str] = []
    token = ""
    while True:
        params = {"maxResults": "4", **({"pageToken": token} if token else {})}
        found = here.ok("GET", "aggregated/instances", **params)
        names += [
            i["name"] for scope in found["items"].values() for i in scope.get("instances", [])
        ]
        token = found.get("nextPageToken", "")
        if not token:
            break
    assert names == ["n-0", "n-1", "n-2", "n-3", "n-4", "m-0"]


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ("nextPageToken", {"nextPageToken": "t"}),
        ("items(name,status)", {"items": [{"name": "a", "status": "RUNNING"}]}),
        ("items/scheduling/preemptible", {"items": [{"scheduling": {"preemptible": True}}]}),
        ("items(name,scheduling(preemptible)),nextPageToken",
         {"items": [{"name": "a", "scheduling": {"preemptible": True}}], "nextPageToken": "t"}),
        ("*", {"items": [{"name": "a", "status": "RUNNING",
                          "scheduling": {"preemptible": True, "automaticRestart": False}}],
               "nextPageToken": "t"}),
        ("items(labels)", {"items": [{}]}),
    ],
)  # fmt: skip
def test_fields_choose_what_is_answered(fields: str, kept: dict[str, Any]) -> None:
    scheduling = {"preemptible": True, "automaticRestart": False}
    body = {
        "items": [{"name": "a", "status": "RUNNING", "scheduling": scheduling}],
        "nextPageToken": "t",
    }
    assert select(body, fields, document("v1")["schemas"], "InstanceList") == kept


def test_fields_of_an_aggregated_list_may_name_the_kind_of_scope() -> None:
    here = _five()
    fields = "items.zones.instances(name,status),nextPageToken"
    found = here.ok("GET", "aggregated/instances", fields=fields)
    assert found["items"][ZONE]["instances"][0] == {"name": "n-0", "status": "RUNNING"}
    assert set(found) == {"items"}


def test_machine_types_zones_and_accelerators_are_listed() -> None:
    here = Here()
    types = here.ok("GET", f"{ZONE}/machineTypes", filter="name:a3-*")["items"]
    assert {"a3-ultragpu-8g", "a3-megagpu-8g", "a3-highgpu-8g"} <= {t["name"] for t in types}
    one = here.ok("GET", f"{ZONE}/machineTypes/a3-ultragpu-8g")
    assert one["accelerators"] == [
        {"guestAcceleratorType": "nvidia-h200-141gb", "guestAcceleratorCount": 8}
    ]
    assert one["memoryMb"] == 2952 * 1024
    here.refused(404, "GET", f"{ZONE}/machineTypes/a9-none")
    assert here.ok("GET", f"{ZONE}/acceleratorTypes/nvidia-l4")["maximumCardsPerInstance"] == 8
    zones = {zone["name"] for zone in here.ok("GET", "zones")["items"]}
    assert "asia-northeast3-a" in zones
    assert here.ok("GET", "regions/us-central1")["zones"][0].endswith("zones/us-central1-a")
    assert here.ok("GET", "")["id"].isdigit()
