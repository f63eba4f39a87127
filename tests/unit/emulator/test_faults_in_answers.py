"""Faults of the HTTP in between, and of what answers show."""

from __future__ import annotations

from datetime import timedelta

from slurm_flex.emulator.web.exchange import Asked
from tests.unit.emulator.here import ZONE, Here

REFUSED = {"zone": "us-central1-a", "times": 1}


def _reason(here: Here, code: int, path: str = f"{ZONE}/instances") -> str:
    found_code, body = here.call("GET", path)
    assert found_code == code, body
    return str(body["error"]["errors"][0]["reason"])


def test_a_rate_limit_can_be_reported_without_being_reached() -> None:
    here = Here()
    here.fault("rate_limited", **REFUSED)
    assert _reason(here, 403) == "rateLimitExceeded"
    here.ok("GET", f"{ZONE}/instances")


def test_calls_can_be_refused_with_429_500_and_503() -> None:
    here = Here()
    here.fault("too_many_requests", **REFUSED)
    assert _reason(here, 429) == "rateLimitExceeded"
    here.fault("server_error", **REFUSED)
    assert _reason(here, 500) == "backendError"
    here.fault("unavailable", **REFUSED)
    assert _reason(here, 503) == "backendError"
    here.ok("GET", f"{ZONE}/instances")


def test_a_bad_gateway_answers_in_html() -> None:
    here = Here()
    here.fault("bad_gateway", method="instances.list")
    code, body = here.call("GET", f"{ZONE}/instances")
    assert code == 502
    assert body["html"].startswith("<!DOCTYPE html>")


def test_a_permission_can_be_denied() -> None:
    here = Here()
    here.fault("permission_denied", method="*ResizeRequests.insert")
    group = here.group()
    message = here.refused(403, "POST", f"{group}/resizeRequests", {"name": "j", "resizeBy": 1})
    assert message.startswith("Required 'compute.instanceGroupManagerResizeRequests.insert'")


def test_a_connection_can_break_before_anything_is_done_or_after_it() -> None:
    here = Here()
    group = here.group()
    body = b'{"name": "j1", "instances": [{"name": "n-0"}]}'
    asked = Asked("POST", f"/compute/v1/projects/p/{group}/resizeRequests", {}, body)
    here.fault("reset_before", times=1)
    assert here.service.answer(asked).drop
    assert here.size(group) == 0
    here.fault("reset_after", times=1, method="*.insert")
    assert here.service.answer(asked).drop
    assert here.size(group) == 1


def test_answers_can_be_slow() -> None:
    here = Here()
    here.fault("slow_answers", delay="3s", times=1)
    asked = Asked("GET", f"/compute/v1/projects/p/{ZONE}/instances", {})
    assert here.service.answer(asked).delay == timedelta(seconds=3)
    assert here.service.answer(asked).delay == timedelta(0)


def test_lists_can_lag_behind_while_single_reads_do_not() -> None:
    here = Here()
    group = here.group()
    here.fault("stale_lists", lag="5s")
    here.up(group, "j1-1", "n-0")
    assert here.instances() == {}
    assert here.ok("GET", f"{ZONE}/instances/n-0")["status"] == "RUNNING"
    assert "items" not in here.ok("GET", f"{group}/resizeRequests")
    for _ in range(2):
        here.wall += 5
        here.service.settle()
    assert here.instances() == {"n-0": "RUNNING"}
    here.fault("instance_lost", instance="n-0")
    assert here.instances() == {"n-0": "RUNNING"}
    here.service.cloud.clear_fault("stale_lists")
    assert here.instances() == {}


def test_an_unreachable_zone_is_a_warning_in_aggregated_lists() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0")
    here.fault("unreachable_zone", zone="us-central1-a")
    found = here.ok("GET", "aggregated/instances")
    assert found["items"][ZONE]["warning"]["code"] == "UNREACHABLE"
    assert [url.rsplit("/", 1)[-1] for url in found["unreachables"]] == ["us-central1-a"]
    assert _reason(here, 503) == "backendError"
    assert {z["name"]: z["status"] for z in here.ok("GET", "zones")["items"]}["us-central1-a"] == (
        "DOWN"
    )


def test_empty_pages_have_a_token_that_leads_on() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0", "n-1")
    here.fault("empty_pages", method="instances.list")
    names: list[str] = []
    pages = 0
    token = ""
    while True:
        params = {"maxResults": "1", **({"pageToken": token} if token else {})}
        found = here.ok("GET", f"{ZONE}/instances", **params)
        names += [item["name"] for item in found.get("items", [])]
        pages += 1
        token = found.get("nextPageToken", "")
        if not token:
            break
    assert names == ["n-0", "n-1"]
    assert pages == 4


def test_values_and_fields_of_the_future_can_appear() -> None:
    here = Here()
    group = here.group()
    here.up(group, "j1-1", "n-0")
    here.fault("unknown_enum", field="state", times=1)
    assert here.request(group, "j1-1")["state"] == "NEW_IN_2027"
    here.fault("unknown_enum", field="currentAction", value="TELEPORTING", times=1)
    assert here.members(group)["n-0"]["currentAction"] == "TELEPORTING"
    here.fault("unknown_field", times=1)
    found = here.ok("GET", f"{ZONE}/instances")
    assert "newIn2027" in found and "newIn2027" in found["items"][0]
    assert here.request(group, "j1-1")["state"] == "SUCCEEDED"
    assert "newIn2027" not in here.ok("GET", f"{ZONE}/instances")


def test_operations_can_be_lost() -> None:
    here = Here()
    operation = here.ok("PATCH", here.group(), {})
    here.fault("lost_operations", times=1)
    path = operation["selfLink"].partition("/projects/p/")[2]
    here.refused(404, "GET", path)
    here.ok("GET", path)
