"""Code as it stands in the field: scripts that know nothing of the emulator and get an endpoint.

Only ``connect`` and the endpoint are ours; the functions are what people write from Google's
samples: list, insert, wait in a loop, resize, deleteInstances, batches, partial responses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import google.api_core.exceptions
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1
from googleapiclient import discovery
from googleapiclient.errors import HttpError

from slurm_flex.emulator.launcher import Emulator
from tests.contract.inside import FAST

PROJECT, ZONE = "my-project", "us-central1-a"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(knobs={**FAST, "op_delay": 0.3}) as found:
        yield found


def connect(emulator: Emulator, version: str = "v1") -> Any:
    """The client as a script has it, but for its endpoint."""
    return discovery.build(
        "compute",
        version,
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        static_discovery=True,
        client_options={"api_endpoint": f"{emulator.url}/compute/{version}/"},
    )


def wait_for_operation(compute: Any, project: str, zone: str | None, operation: str) -> Any:
    while True:
        if zone:
            call = compute.zoneOperations().get(project=project, zone=zone, operation=operation)
        else:
            call = compute.globalOperations().get(project=project, operation=operation)
        result = call.execute()
        if result["status"] == "DONE":
            if "error" in result:
                raise Exception(result["error"])
            return result
        time.sleep(0.1)


def create_template(compute: Any, project: str, name: str, machine_type: str) -> None:
    body = {
        "name": name,
        "properties": {
            "machineType": machine_type,
            "disks": [
                {
                    "boot": True,
                    "autoDelete": True,
                    "initializeParams": {
                        "sourceImage": "projects/debian-cloud/global/images/family/debian-12"
                    },
                }
            ],
            "networkInterfaces": [{"network": "global/networks/default"}],
        },
    }
    operation = compute.instanceTemplates().insert(project=project, body=body).execute()
    wait_for_operation(compute, project, None, operation["name"])


def create_group(
    compute: Any, project: str, zone: str, name: str, template: str, size: int
) -> None:
    body = {
        "name": name,
        "baseInstanceName": name,
        "instanceTemplate": f"projects/{project}/global/instanceTemplates/{template}",
        "targetSize": size,
    }
    managers = compute.instanceGroupManagers()
    operation = managers.insert(project=project, zone=zone, body=body).execute()
    wait_for_operation(compute, project, zone, operation["name"])


def list_instances(compute: Any, project: str, zone: str) -> list[Any]:
    items: list[Any] = []
    request = compute.instances().list(project=project, zone=zone)
    while request is not None:
        response = request.execute()
        items.extend(response.get("items", []))
        request = compute.instances().list_next(
            previous_request=request, previous_response=response
        )
    return items


def wait_until_stable(compute: Any, project: str, zone: str, name: str) -> Any:
    while True:
        group = (
            compute.instanceGroupManagers()
            .get(project=project, zone=zone, instanceGroupManager=name)
            .execute()
        )
        if group["status"]["isStable"]:
            return group
        time.sleep(0.1)


def test_list_insert_wait_resize_and_delete_instances(emulator: Emulator) -> None:
    compute = connect(emulator)
    create_template(compute, PROJECT, "web", "n2-standard-4")
    create_group(compute, PROJECT, ZONE, "web", "web", 2)
    wait_until_stable(compute, PROJECT, ZONE, "web")
    assert [item["status"] for item in list_instances(compute, PROJECT, ZONE)] == ["RUNNING"] * 2

    operation = (
        compute.instanceGroupManagers()
        .resize(project=PROJECT, zone=ZONE, instanceGroupManager="web", size=4)
        .execute()
    )
    wait_for_operation(compute, PROJECT, ZONE, operation["name"])
    wait_until_stable(compute, PROJECT, ZONE, "web")
    members = (
        compute.instanceGroupManagers()
        .listManagedInstances(project=PROJECT, zone=ZONE, instanceGroupManager="web")
        .execute()["managedInstances"]
    )
    assert len(members) == 4

    operation = (
        compute.instanceGroupManagers()
        .deleteInstances(
            project=PROJECT, zone=ZONE, instanceGroupManager="web",
            body={"instances": [member["instance"] for member in members[:3]]},
        )
        .execute()
    )  # fmt: skip
    wait_for_operation(compute, PROJECT, ZONE, operation["name"])
    group = wait_until_stable(compute, PROJECT, ZONE, "web")
    assert group["targetSize"] == 1
    assert len(list_instances(compute, PROJECT, ZONE)) == 1


def test_a_batch_of_calls_and_the_callback_of_each(emulator: Emulator) -> None:
    compute = discovery.build(
        "compute", "v1", static_discovery=False,
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        discoveryServiceUrl=f"{emulator.url}/discovery/v1/apis/{{api}}/{{apiVersion}}/rest",
    )  # fmt: skip
    found: dict[str, Any] = {}
    failed: dict[str, int] = {}

    def callback(request_id: str, response: Any, exception: Any) -> None:
        if exception is not None:
            failed[request_id] = exception.status_code
        else:
            found[request_id] = response["name"]

    batch = compute.new_batch_http_request(callback=callback)
    batch.add(compute.zones().get(project=PROJECT, zone=ZONE), request_id="a")
    batch.add(compute.zones().get(project=PROJECT, zone="nowhere"), request_id="b")
    batch.add(
        compute.machineTypes().get(project=PROJECT, zone=ZONE, machineType="a3-ultragpu-8g"),
        request_id="c",
    )
    batch.execute()
    assert found == {"a": ZONE, "c": "a3-ultragpu-8g"}
    assert failed == {"b": 404}


def test_an_aggregated_list_with_filter_and_fields(emulator: Emulator) -> None:
    compute = connect(emulator)
    create_template(compute, PROJECT, "agg", "n2-standard-4")
    create_group(compute, PROJECT, ZONE, "agg", "agg", 2)
    wait_until_stable(compute, PROJECT, ZONE, "agg")
    names = []
    request = compute.instances().aggregatedList(
        project=PROJECT,
        filter="name:agg-* AND status=RUNNING",
        fields="items.zones.instances(name,status,resourceStatus/physicalHost),nextPageToken",
        maxResults=1,
    )
    while request is not None:
        result = request.execute()
        for scoped in result.get("items", {}).values():
            for instance in scoped.get("instances", []):
                assert set(instance) == {"name", "status", "resourceStatus"}
                names.append(instance["name"])
        request = compute.instances().aggregatedList_next(request, result)
    assert len(names) == 2


def test_the_error_of_a_missing_thing_is_what_scripts_expect(emulator: Emulator) -> None:
    compute = connect(emulator)
    with pytest.raises(HttpError) as caught:
        compute.instances().get(project=PROJECT, zone=ZONE, instance="none").execute()
    assert caught.value.resp.status == 404
    assert caught.value.reason == (
        f"The resource 'projects/{PROJECT}/zones/{ZONE}/instances/none' was not found"
    )
    assert caught.value.error_details[0]["reason"] == "notFound"


def test_the_beta_client_works_as_the_v1_client_does(emulator: Emulator) -> None:
    compute = connect(emulator, "beta")
    create_template(compute, PROJECT, "beta", "a3-ultragpu-8g")
    body = {
        "name": "beta", "targetSize": 0,
        "instanceTemplate": f"projects/{PROJECT}/global/instanceTemplates/beta",
        "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
    }  # fmt: skip
    operation = compute.instanceGroupManagers().insert(project=PROJECT, zone=ZONE, body=body)
    wait_for_operation(compute, PROJECT, ZONE, operation.execute()["name"])
    request = {"name": "r", "instances": [{"name": "beta-0"}]}
    requests = compute.instanceGroupManagerResizeRequests()
    place = {"project": PROJECT, "zone": ZONE, "instanceGroupManager": "beta"}
    inserted = requests.insert(body=request, **place).execute()
    wait_for_operation(compute, PROJECT, ZONE, inserted["name"])
    found = requests.get(resizeRequest="r", **place).execute()
    assert "/compute/beta/" in found["selfLink"]


def _cloud(kind: Any, emulator: Emulator) -> Any:
    return kind(
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        client_options={"api_endpoint": emulator.url},
    )


def test_the_cloud_client_waits_for_an_extended_operation(emulator: Emulator) -> None:
    """op.result() polls through clients of its own, made without the endpoint: a script for
    another endpoint has to hand its own in. (Measured with google-cloud-compute 1.57.)"""
    templates = _cloud(compute_v1.InstanceTemplatesClient, emulator)
    operations = _cloud(compute_v1.GlobalOperationsClient, emulator)
    templates.transport._extended_operations_services["global_operations"] = operations
    template = compute_v1.InstanceTemplate(
        name="ext", properties=compute_v1.InstanceProperties(machine_type="n2-standard-4")
    )
    operation = templates.insert(project=PROJECT, instance_template_resource=template)
    operation.result(timeout=20)
    assert operation.done() and not operation.error_code
    assert templates.get(project=PROJECT, instance_template="ext").name == "ext"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("too_many_requests", google.api_core.exceptions.TooManyRequests),
        ("server_error", google.api_core.exceptions.InternalServerError),
        ("bad_gateway", google.api_core.exceptions.BadGateway),
        ("rate_limited", google.api_core.exceptions.Forbidden),
        ("permission_denied", google.api_core.exceptions.Forbidden),
    ],
)
def test_the_cloud_client_raises_its_own_errors(
    emulator: Emulator, fault: str, error: type[Exception]
) -> None:
    zones = _cloud(compute_v1.ZonesClient, emulator)
    emulator.faults.set(fault, method="zones.get", times=1)
    with pytest.raises(error):
        zones.get(project=PROJECT, zone=ZONE, timeout=10)
    assert zones.get(project=PROJECT, zone=ZONE).name == ZONE


def test_the_cloud_client_retries_a_read_after_503_by_itself(emulator: Emulator) -> None:
    zones = _cloud(compute_v1.ZonesClient, emulator)
    emulator.faults.set("unavailable", method="zones.get", times=2)
    assert zones.get(project=PROJECT, zone=ZONE).name == ZONE


def test_unknown_values_and_fields_pass_through_both_clients(emulator: Emulator) -> None:
    zones = _cloud(compute_v1.ZonesClient, emulator)
    emulator.faults.set("unknown_field", method="zones.get", times=2)
    emulator.faults.set("unknown_enum", method="zones.get", field="status", times=2)
    assert zones.get(project=PROJECT, zone=ZONE).status == "NEW_IN_2027"
    found = connect(emulator).zones().get(project=PROJECT, zone=ZONE).execute()
    assert (found["status"], found["newIn2027"]) == ("NEW_IN_2027", "as yet unheard of")


def test_managed_instances_are_read_page_by_page_through_empty_ones(emulator: Emulator) -> None:
    compute = connect(emulator)
    create_template(compute, PROJECT, "pages", "n2-standard-4")
    create_group(compute, PROJECT, ZONE, "pages", "pages", 3)
    managers = _cloud(compute_v1.InstanceGroupManagersClient, emulator)
    place = {"project": PROJECT, "zone": ZONE, "instance_group_manager": "pages"}
    managers.patch_unary(
        instance_group_manager_resource=compute_v1.InstanceGroupManager(
            list_managed_instances_results="PAGINATED"
        ),
        **place,
    )
    emulator.faults.set("empty_pages", method="instanceGroupManagers.listManagedInstances")
    request = compute_v1.ListManagedInstancesInstanceGroupManagersRequest(max_results=1, **place)
    pager = managers.list_managed_instances(request=request)
    pages = [len(page.managed_instances) for page in pager.pages]
    emulator.faults.clear()
    assert pages == [0, 1, 0, 1, 0, 1]
