"""Resource Manager, IAM, Filestore, Secret Manager, metadata server, batches."""

from __future__ import annotations

import base64
import json
from urllib.parse import parse_qs

import pytest

from slurm_flex.emulator.web.batch import batch
from slurm_flex.emulator.web.exchange import Asked
from slurm_flex.emulator.web.metadata import metadata
from slurm_flex.emulator.web.neighbours import neighbours
from tests.unit.emulator.here import ZONE, Here, Json


def _ask(here: Here, verb: str, path: str, body: object = None) -> tuple[int, Json]:
    raw = json.dumps(body).encode() if body is not None else b""
    address, _, query = path.partition("?")
    every = parse_qs(query)
    last = {name: values[-1] for name, values in every.items()}
    answer = neighbours(here.world.knobs, Asked(verb, address, last, raw, repeated=every))
    return answer.code, json.loads(answer.body)


def test_a_project_has_the_same_number_everywhere() -> None:
    here = Here()
    _, project = _ask(here, "GET", "/v3/projects/p")
    assert project["name"] == f"projects/{here.ok('GET', '')['id']}"
    assert project["projectId"] == "p"


def test_the_policy_names_the_service_agent_and_can_be_changed() -> None:
    here = Here()
    number = here.ok("GET", "")["id"]
    _, policy = _ask(here, "POST", "/v3/projects/p:getIamPolicy", {})
    agent = f"serviceAccount:{number}@cloudservices.gserviceaccount.com"
    assert policy["bindings"] == [{"role": "roles/editor", "members": [agent]}]
    here.knob(iam_bindings={"roles/owner": {"members": ["user:a"], "condition": {"title": "t"}}})
    _, policy = _ask(here, "POST", "/v3/projects/p:getIamPolicy", {})
    assert policy["version"] == 3
    assert policy["bindings"][0]["condition"] == {"title": "t"}


def test_a_policy_may_be_unreadable_and_an_api_disabled() -> None:
    here = Here(policy_readable=False)
    code, body = _ask(here, "POST", "/v3/projects/p:getIamPolicy", {})
    assert (code, body["error"]["details"][0]["reason"]) == (403, "IAM_PERMISSION_DENIED")
    here.knob(disabled_apis="cloudresourcemanager.*")
    code, body = _ask(here, "GET", "/v3/projects/p")
    assert (code, body["error"]["details"][0]["reason"]) == (403, "SERVICE_DISABLED")


def test_a_disabled_api_is_refused_as_google_does_and_compute_engines_with_errors_too() -> None:
    here = Here(disabled_apis="compute.*, lustre.*")
    code, answer = here.call("GET", f"{ZONE}/instances")
    refused = answer["error"]
    assert code == 403
    assert refused["errors"][0]["reason"] == "accessNotConfigured"
    assert refused["errors"][0]["domain"] == "usageLimits"
    number = refused["details"][0]["metadata"]["consumer"].removeprefix("projects/")
    assert refused["message"].startswith(
        f"Compute Engine API has not been used in project {number} before or it is disabled. Enable"
    )
    here.knob(disabled_apis="")
    assert here.ok("GET", f"{ZONE}/instances")["id"]
    here.knob(disabled_apis="lustre.*", filestores={"*/fast": {"mount_point": "x@tcp:/y"}, "*": {}})
    base = "/v1/projects/p/locations/us-central1-a/instances"
    code, refused = _ask(here, "GET", f"{base}/fast")
    assert (code, "errors" in refused["error"]) == (403, False)
    assert refused["error"]["details"][0]["metadata"]["service"] == "lustre.googleapis.com"
    assert _ask(here, "GET", f"{base}/home")[0] == 200


def _states(found: Json) -> dict[str, str]:
    return {one["config"]["name"].partition(".")[0]: one["state"] for one in found["services"]}


def test_service_usage_tells_which_apis_are_enabled() -> None:
    here = Here(disabled_apis="file.*")
    of = "/v1/projects/p/services"
    names = "&".join(
        f"names=projects/p/services/{one}.googleapis.com" for one in ("file", "compute")
    )
    code, found = _ask(here, "GET", f"{of}:batchGet?{names}")
    assert (code, _states(found)) == (200, {"file": "DISABLED", "compute": "ENABLED"})
    assert _ask(here, "GET", f"{of}/file.googleapis.com")[1] == found["services"][0]
    seen: list[str] = []
    token = "0"
    while token:
        _, page = _ask(here, "GET", f"{of}?filter=state:ENABLED&pageSize=5&pageToken={token}")
        assert len(page["services"]) <= 5
        seen += _states(page)
        token = page.get("nextPageToken", "")
    assert len(seen) == len(set(seen)) > 5
    assert "compute" in seen and "file" not in seen
    assert set(_states(_ask(here, "GET", f"{of}?filter=state:DISABLED")[1])) == {"file"}


@pytest.mark.parametrize(
    ("knobs", "call", "code", "reason"),
    [
        ({"denied_permissions": "serviceusage.services.get"},
         ":batchGet?names=projects/p/services/file.googleapis.com", 403, "AUTH_PERMISSION_DENIED"),
        ({"denied_permissions": "serviceusage.*"}, "", 403, "AUTH_PERMISSION_DENIED"),
        ({"disabled_apis": "serviceusage.*"}, "", 403, "SERVICE_DISABLED"),
        ({}, "/nowhere.googleapis.com", 403, "SERVICE_CONFIG_NOT_FOUND_OR_PERMISSION_DENIED"),
        ({}, ":batchGet", 400, None),
        ({}, ":batchGet?names=projects/other/services/file.googleapis.com", 400, None),
        ({}, f":batchGet?{'&'.join(['names=projects/p/services/file.googleapis.com'] * 31)}", 400,
         None),
        ({}, "?filter=enabled", 400, None),
        ({}, "?pageToken=x", 400, None),
        ({}, ":disableAll", 404, None),
    ],
)  # fmt: skip
def test_service_usage_refuses_what_google_refuses(
    knobs: Json, call: str, code: int, reason: str | None
) -> None:
    found, body = _ask(Here(**knobs), "GET", f"/v1/projects/p/services{call}")
    details = body["error"].get("details", [{}])
    assert (found, details[0].get("reason")) == (code, reason)


def test_only_permissions_that_are_held_come_back() -> None:
    here = Here(denied_permissions="compute.instanceGroupManagers.*, iam.*")
    wanted = ["compute.instanceGroupManagers.update", "compute.instances.list"]
    body = {"permissions": wanted}
    assert _ask(here, "POST", "/v3/projects/p:testIamPermissions", body) == (
        200, {"permissions": ["compute.instances.list"]},
    )  # fmt: skip
    path = "/v1/projects/-/serviceAccounts/a@b.c:testIamPermissions"
    assert _ask(here, "POST", path, {"permissions": ["iam.serviceAccounts.actAs"]}) == (200, {})


def test_a_service_account_has_a_policy_of_its_own() -> None:
    here = Here(service_account_bindings={"a@*": {"roles/iam.serviceAccountUser": ["user:x"]}})
    _, policy = _ask(here, "POST", "/v1/projects/-/serviceAccounts/a@b.c:getIamPolicy", {})
    assert policy["bindings"] == [{"role": "roles/iam.serviceAccountUser", "members": ["user:x"]}]


def test_file_systems_are_found_by_name() -> None:
    here = Here(
        filestores={
            "*/locations/us-central1-a/instances/home": {"address": "10.9.8.7", "share": "vol1"},
            "*/instances/scratch": {"mount_point": "10.9.8.8@tcp:/lfs"},
        }
    )
    base = "/v1/projects/p/locations/us-central1-a/instances"
    _, home = _ask(here, "GET", f"{base}/home")
    assert home["networks"][0]["ipAddresses"] == ["10.9.8.7"]
    assert home["fileShares"][0]["name"] == "vol1"
    assert _ask(here, "GET", f"{base}/scratch")[1]["mountPoint"] == "10.9.8.8@tcp:/lfs"
    code, body = _ask(here, "GET", f"{base}/none")
    assert (code, body["error"]["status"]) == (404, "NOT_FOUND")


def test_secrets_are_read_in_base64() -> None:
    here = Here(secrets={"munge": "s3cret"})
    path = "/v1/projects/p/secrets/munge/versions/latest:access"
    _, body = _ask(here, "GET", path)
    assert base64.b64decode(body["payload"]["data"]) == b"s3cret"
    assert _ask(here, "GET", path.replace("munge", "none"))[0] == 404


def test_a_project_that_does_not_exist_has_nothing() -> None:
    here = Here(projects="c1-*")
    assert here.refused(404, "GET", f"{ZONE}/instances") == (
        "The resource 'projects/p' was not found"
    )


def test_a_vm_reads_its_own_metadata() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0")

    def read(path: str, vm: str = "n-0", *, flavored: bool = True, recursive: bool = False) -> str:
        answer = metadata(here.world, vm, path, flavored=flavored, recursive=recursive)
        return f"{answer.code} {answer.body.decode()}"

    assert read("instance/name") == "200 n-0"
    assert read("instance/zone").endswith("/zones/us-central1-a")
    assert read("instance/attributes/created-by").endswith("instanceGroupManagers/g")
    assert read("instance/attributes/") == "200 instance-template\ncreated-by\n"
    assert json.loads(read("instance/service-accounts/default", recursive=True)[4:])["email"]
    assert read("project/numeric-project-id") == f"200 {here.ok('GET', '')['id']}"
    assert read("instance/name", flavored=False).startswith("403")
    assert read("instance/none").startswith("404")
    assert read("instance/name", vm="none").startswith("404")


def test_a_batch_answers_each_call_on_its_own() -> None:
    here = Here()
    parts = "".join(
        f"--b\r\nContent-Type: application/http\r\nContent-ID: <x+{n}>\r\n\r\n"
        f"GET /compute/v1/projects/p/zones/{zone}?alt=json HTTP/1.1\r\nHost: x\r\n\r\n\r\n"
        for n, zone in enumerate(("us-central1-a", "nowhere"))
    )
    answer = batch("multipart/mixed; boundary=b", f"{parts}--b--".encode(), "", here.service.answer)
    text = answer.body.decode()
    assert answer.content_type.startswith("multipart/mixed; boundary=")
    assert "Content-ID: <response-x+0>" in text and "HTTP/1.1 200 OK" in text
    assert "Content-ID: <response-x+1>" in text and "HTTP/1.1 404 Not Found" in text
