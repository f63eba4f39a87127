"""A scenario that calls every method of the API, the same for every client."""

from __future__ import annotations

from typing import Any

from tests.contract.inside import Inside

Json = dict[str, Any]
ZONE = "us-central1-a"
REGION = "us-central1"
UUID = "5b1a54f6-6a53-4a0c-9b29-0d40d1f1c4d1"
PROPERTIES: Json = {
    "machineType": "a3-ultragpu-8g",
    "labels": {"slurm-flex-cluster": "c1"},
    "tags": {"items": ["a", "b"]},
    "metadata": {"items": [{"key": "startup-script", "value": "#!/bin/sh\nexit 0\n"}]},
    "disks": [
        {
            "boot": True,
            "autoDelete": True,
            "initializeParams": {
                "sourceImage": "projects/debian-cloud/global/images/family/debian-12",
                "diskSizeGb": "100",
                "diskType": "hyperdisk-balanced",
            },
        }
    ],
    "networkInterfaces": [{"network": "global/networks/default", "nicType": "GVNIC"}],
    "serviceAccounts": [
        {"email": "default", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}
    ],
    "scheduling": {
        "provisioningModel": "FLEX_START",
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "preemptible": False,
        "maxRunDuration": {"seconds": "604800"},
    },
    "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
}
DO_NOTHING: Json = {"defaultActionOnFailure": "DO_NOTHING"}


class Life:
    """One client's way through the API."""

    def __init__(self, inside: Inside, client: Any) -> None:
        self.inside = inside
        self.client = client

    def whole(self) -> None:
        """Everything, zonal and regional."""
        self.offer()
        self.zonal_group()
        self.requests("instanceGroupManager", "zone", ZONE)
        self.members("instanceGroupManagers", "zone", ZONE)
        self.instances()
        self.regional_group()
        self.requests("regionInstanceGroupManager", "region", REGION)
        self.members("regionInstanceGroupManagers", "region", REGION)
        self.standard_group("instanceGroupManagers", "zone", ZONE)
        self.standard_group("regionInstanceGroupManagers", "region", REGION)
        self.operations()
        self.refusals()
        self.take_down()

    def call(self, method: str, body: Json | None = None, **params: Any) -> Json:
        """A call in project p; operations are waited for."""
        found: Json = self.client.call(method, body, project="p", **params)
        if found.get("kind") == "compute#operation" and "perations." not in method:
            return self.wait(found)
        return found

    def wait(self, operation: Json) -> Json:
        """Wait for an operation by its own wait method; it must not have failed."""
        for kind in ("zone", "region"):
            if kind in operation:
                place = operation[kind].rsplit("/", 1)[-1]
                return self.finished(f"{kind}Operations", operation, **{kind: place})
        return self.finished("globalOperations", operation)

    def finished(self, resource: str, operation: Json, **place: str) -> Json:
        """The operation when it is DONE."""
        name = operation["name"]
        found: Json = self.client.call(f"{resource}.wait", project="p", operation=name, **place)
        assert found["status"] == "DONE", found
        assert "error" not in found, found
        return found

    def offer(self) -> None:
        """What the catalog has."""
        self.call("projects.get")
        self.call("zones.get", zone=ZONE)
        self.call("zones.list")
        self.call("regions.get", region=REGION)
        self.call("machineTypes.get", zone=ZONE, machineType="a3-ultragpu-8g")
        self.call("machineTypes.list", zone=ZONE, filter="name:a3-*", maxResults=2)
        self.call("acceleratorTypes.get", zone=ZONE, acceleratorType="nvidia-h200-141gb")
        self.call("acceleratorTypes.list", zone=ZONE)
        self.call("regions.list")

    def zonal_group(self) -> None:
        """A template and a group as Flex-start wants them."""
        template = {"name": "t", "description": "for g", "properties": PROPERTIES}
        self.call("instanceTemplates.insert", template, requestId=UUID)
        self.call("instanceTemplates.get", instanceTemplate="t")
        self.call("instanceTemplates.list", filter="name=t", orderBy="creationTimestamp desc")
        body = {
            "name": "g",
            "baseInstanceName": "c1-g",
            "targetSize": 0,
            "versions": [{"instanceTemplate": "projects/p/global/instanceTemplates/t"}],
            "instanceLifecyclePolicy": DO_NOTHING,
            "updatePolicy": {"type": "OPPORTUNISTIC"},
            "listManagedInstancesResults": "PAGINATED",
        }
        self.call("instanceGroupManagers.insert", body, zone=ZONE)
        place: dict[str, Any] = {"zone": ZONE, "instanceGroupManager": "g"}
        found = self.call("instanceGroupManagers.get", **place)
        assert found["instanceLifecyclePolicy"]["defaultActionOnFailure"] == "DO_NOTHING"
        patch = {"fingerprint": found["fingerprint"], "updatePolicy": {"minimalAction": "REFRESH"}}
        self.call("instanceGroupManagers.patch", patch, **place)
        self.call("instanceGroupManagers.list", zone=ZONE, filter="name=g")
        self.call("instanceGroupManagers.aggregatedList", includeAllScopes=True)

    def regional_group(self) -> None:
        """The same in a region, with a regional template."""
        template = {"name": "t", "properties": PROPERTIES}
        self.call("regionInstanceTemplates.insert", template, region=REGION)
        self.call("regionInstanceTemplates.get", region=REGION, instanceTemplate="t")
        self.call("regionInstanceTemplates.list", region=REGION)
        body = {
            "name": "g",
            "targetSize": 0,
            "versions": [
                {"instanceTemplate": "projects/p/regions/us-central1/instanceTemplates/t"}
            ],
            "instanceLifecyclePolicy": DO_NOTHING,
            "distributionPolicy": {
                "targetShape": "ANY_SINGLE_ZONE",
                "zones": [{"zone": f"zones/{ZONE}"}],
            },
            "updatePolicy": {"instanceRedistributionType": "NONE"},
            "listManagedInstancesResults": "PAGINATED",
        }
        self.call("regionInstanceGroupManagers.insert", body, region=REGION)
        place: dict[str, Any] = {"region": REGION, "instanceGroupManager": "g"}
        found = self.call("regionInstanceGroupManagers.get", **place)
        self.call(
            "regionInstanceGroupManagers.patch", {"fingerprint": found["fingerprint"]}, **place
        )
        self.call("regionInstanceGroupManagers.list", region=REGION)

    def requests(self, word: str, kind: str, place_name: str) -> None:
        """Requests that succeed, wait, are cancelled, deleted and fail."""
        rr = f"{word}ResizeRequests"
        place: dict[str, Any] = {kind: place_name, "instanceGroupManager": "g"}
        short = kind[0]
        nodes = [{"name": f"{short}-{number}"} for number in range(3)]
        body = {"name": "j1-1", "instances": nodes, "requestedRunDuration": {"seconds": "3600"},
                "description": "for job 1"}  # fmt: skip
        self.call(f"{rr}.insert", body, **place)
        self.until(f"{rr}.get", "SUCCEEDED", "j1-1", place)
        self.inside.fault("stockout", estimate="2026-12-24T18:00:00Z")
        self.call(f"{rr}.insert", {"name": "j2-1", "resizeBy": 2}, **place)
        self.inside.until(
            lambda: "lastAttempt" in str(self.call(f"{rr}.get", resizeRequest="j2-1", **place)),
            "the stockout shows",
        )
        self.call(f"{rr}.list", **place)
        self.call(f"{rr}.cancel", resizeRequest="j2-1", **place)
        self.until(f"{rr}.get", "CANCELLED", "j2-1", place)
        self.call(f"{rr}.delete", resizeRequest="j2-1", **place)
        self.inside.service.cloud.clear_fault()
        short_one = {"name": "j3-1", "resizeBy": 1, "requestedRunDuration": {"seconds": "1"}}
        failed: Json = self.client.call(f"{rr}.insert", short_one, project="p", **place)
        done = self.client.call(f"{kind}Operations.wait", project="p", operation=failed["name"],
                                **{kind: place_name})  # fmt: skip
        assert done["error"]["errors"][0]["code"] == "INVALID_ARGUMENT"
        shown = self.call(f"{rr}.get", resizeRequest="j3-1", **place)
        assert shown["state"] == "FAILED"
        assert shown["status"]["error"]["errors"][0]["code"] == "INVALID_ARGUMENT"
        self.refused(412, f"{rr}.cancel", resizeRequest="j1-1", **place)

    def until(self, method: str, state: str, name: str, place: dict[str, Any]) -> None:
        """Wait for a state of a resize request."""
        self.inside.until(
            lambda: self.call(method, resizeRequest=name, **place)["state"] == state,
            f"{name} is {state}",
        )

    def members(self, mig: str, kind: str, place_name: str) -> None:
        """What is done to members."""
        place: dict[str, Any] = {kind: place_name, "instanceGroupManager": "g"}
        short = kind[0]
        urls = [f"zones/{ZONE}/instances/{short}-{number}" for number in range(3)]
        listed = self.call(f"{mig}.listManagedInstances", maxResults=2, **place)["all"]
        assert [item["name"] for item in listed] == [f"{short}-{number}" for number in range(3)]
        assert all(item["scheduling"]["terminationTimestamp"] for item in listed)
        body = {"instances": urls[:1], "skipInstancesOnValidationError": True}
        self.call(f"{mig}.deleteInstances", body, **place)
        self.inside.fault("stockout", times=1)
        self.call(f"{mig}.createInstances", {"instances": [{"name": f"{short}-x"}]}, **place)
        self.inside.until(
            lambda: bool(self.call(f"{mig}.listErrors", **place)["all"]), "an error is listed"
        )
        self.call(f"{mig}.listManagedInstances", **place)
        self.call(f"{mig}.abandonInstances", {"instances": urls[1:2]}, **place)
        self.inside.until(
            lambda: self.call(f"{mig}.get", **place)["status"]["isStable"], "it is stable"
        )

    def instances(self) -> None:
        """Single instances."""
        one: dict[str, Any] = {"zone": ZONE, "instance": "z-2"}
        found = self.call("instances.get", **one)
        self.call("instances.list", zone=ZONE, filter="labels.slurm-flex-cluster=c1", maxResults=1)
        self.call("instances.aggregatedList", filter="status=RUNNING AND name:z-*")
        self.call("instances.getSerialPortOutput", port=1, start=0, **one)
        body = {"labels": {"a": "b"}, "labelFingerprint": found["labelFingerprint"]}
        self.call("instances.setLabels", body, **one)
        metadata = {"fingerprint": found["metadata"]["fingerprint"],
                    "items": [{"key": "k", "value": "v"}]}  # fmt: skip
        self.call("instances.setMetadata", metadata, **one)
        alone = {
            "name": "alone",
            "machineType": f"zones/{ZONE}/machineTypes/g2-standard-4",
            "scheduling": {"automaticRestart": True, "onHostMaintenance": "TERMINATE"},
        }
        self.call("instances.insert", alone, zone=ZONE)
        self.runs("alone")
        here: dict[str, Any] = {"zone": ZONE, "instance": "alone"}
        self.call("instances.simulateMaintenanceEvent", **here)
        self.runs("alone")
        self.inside.fault("maintenance", instance="alone")
        self.call("instances.get", **here)
        self.call("instances.performMaintenance", **here)
        self.runs("alone")
        report = {
            "disruptionSchedule": "IMMEDIATE",
            "faultReasons": [{"behavior": "UNRECOVERABLE_GPU_ERROR", "description": "x"}],
        }
        self.call("instances.reportHostAsFaulty", report, **here)
        self.runs("alone")
        self.call("instances.delete", **here)
        self.refused(404, "instances.get", **here)

    def runs(self, name: str) -> None:
        """Wait until an instance is RUNNING."""
        self.inside.until(
            lambda: self.call("instances.get", zone=ZONE, instance=name)["status"] == "RUNNING",
            f"{name} runs",
        )

    def standard_group(self, mig: str, kind: str, place_name: str) -> None:
        """A group whose members can be resized, recreated and updated."""
        properties = {"machineType": "n2-standard-4"}
        name = f"std-{kind}"
        self.call("instanceTemplates.insert", {"name": name, "properties": properties})
        body = {"name": name, "targetSize": 1,
                "instanceTemplate": f"global/instanceTemplates/{name}"}  # fmt: skip
        self.call(f"{mig}.insert", body, **{kind: place_name})
        place: dict[str, Any] = {kind: place_name, "instanceGroupManager": name}
        self.call(f"{mig}.resize", size=2, **place)
        self.stable(mig, place)
        listed = self.call(f"{mig}.listManagedInstances", **place)["all"]
        urls = [item["instance"] for item in listed]
        assert len(urls) == 2
        self.call(f"{mig}.recreateInstances", {"instances": urls[:1]}, **place)
        self.call(f"{mig}.listManagedInstances", **place)
        self.stable(mig, place)
        self.call(f"{mig}.applyUpdatesToInstances",
                  {"allInstances": True, "minimalAction": "REPLACE"}, **place)  # fmt: skip
        self.call(f"{mig}.resize", size=0, **place)
        self.call(f"{mig}.delete", **place)

    def stable(self, mig: str, place: dict[str, Any]) -> None:
        """Wait until a group is stable."""
        self.inside.until(
            lambda: self.call(f"{mig}.get", **place)["status"]["isStable"], "it is stable"
        )

    def operations(self) -> None:
        """Operations by themselves."""
        places: dict[str, dict[str, Any]] = {
            "zoneOperations": {"zone": ZONE},
            "regionOperations": {"region": REGION},
            "globalOperations": {},
        }
        for resource, place in places.items():
            listed = self.call(f"{resource}.list", maxResults=5, **place)["all"]
            self.call(f"{resource}.get", operation=listed[0]["name"], **place)
        self.call("globalOperations.aggregatedList", filter="status=DONE")

    def refusals(self) -> None:
        """One refusal of each kind."""
        place: dict[str, Any] = {"zone": ZONE, "instanceGroupManager": "g"}
        rr = "instanceGroupManagerResizeRequests"
        self.refused(400, f"{rr}.insert", {"name": "j9-1"}, **place)
        self.refused(409, f"{rr}.insert", {"name": "j1-1", "resizeBy": 1}, **place)
        self.refused(404, f"{rr}.get", resizeRequest="none", **place)
        self.refused(404, "zones.get", zone="nowhere")
        self.refused(404, "zoneOperations.get", zone=ZONE, operation="none")
        stale = {"fingerprint": "AAAAAAAAAAA="}
        self.refused(412, "instanceGroupManagers.patch", stale, **place)
        self.refused(400, "instances.list", zone=ZONE, filter="???")

    def refused(self, code: int, method: str, body: Json | None = None, **params: Any) -> None:
        """A call that must be refused with this code, by whatever its client raises."""
        try:
            self.client.call(method, body, project="p", **params)
        except Exception as error:  # each client has errors of its own
            told = getattr(error, "code", None) or getattr(error, "status_code", None)
            assert told == code, error
            return
        raise AssertionError(f"{method} was not refused")

    def take_down(self) -> None:
        """All of it goes."""
        self.call("instanceGroupManagers.delete", zone=ZONE, instanceGroupManager="g")
        self.call("regionInstanceGroupManagers.delete", region=REGION, instanceGroupManager="g")
        self.call("instanceTemplates.delete", instanceTemplate="t")
        self.call("regionInstanceTemplates.delete", region=REGION, instanceTemplate="t")
