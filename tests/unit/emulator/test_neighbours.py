"""Resource Manager, IAM, Filestore, Secret Manager, metadata server, batches."""

from __future__ import annotations

import base64
import json

from slurm_flex.emulator.web.batch import batch
from slurm_flex.emulator.web.exchange import Asked
from slurm_flex.emulator.web.metadata import metadata
from slurm_flex.emulator.web.neighbours import neighbours
from tests.unit.emulator.here import ZONE, Here, Json


def _ask(here: Here, verb: str, path: str, body: object = None) -> tuple[int, Json]:
    raw = json.dumps(body).encode() if body is not None else b""
    answer = neighbours(here.world.knobs, Asked(verb, path, {}, raw))
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
