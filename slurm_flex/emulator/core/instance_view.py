"""An instance as the API writes it."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from functools import lru_cache
from typing import Any

from slurm_flex.emulator.core.records import Instance
from slurm_flex.emulator.core.wire import Wire
from slurm_flex.emulator.core.world import World

Json = dict[str, Any]


def body(world: World, instance: Instance, wire: Wire) -> Json:
    """The instance; ``resourceStatus.scheduling.terminationTimestamp`` is its end of life."""
    zone = f"projects/{instance.project}/zones/{instance.zone}"
    region = instance.zone.rsplit("-", 1)[0]
    given = instance.body
    metadata = given.get("metadata", {})
    scheduling = _scheduling(instance, given.get("scheduling", {}))
    answer: Json = {
        **given,
        "kind": "compute#instance",
        "id": instance.id,
        "creationTimestamp": wire.time(instance.created),
        "name": instance.name,
        "tags": {**given.get("tags", {}), "fingerprint": fingerprint(instance, "tags")},
        "machineType": wire.link(f"{zone}/machineTypes/{instance.machine_type}"),
        "status": instance.status,
        "zone": wire.link(zone),
        "canIpForward": given.get("canIpForward", False),
        "networkInterfaces": _interfaces(instance, wire, region),
        "disks": _disks(instance, wire, zone),
        "metadata": {"kind": "compute#metadata", "fingerprint": fingerprint(instance, "metadata"),
                     **{key: metadata[key] for key in ("items",) if key in metadata}},
        "selfLink": wire.link(instance.path),
        "scheduling": scheduling,
        "cpuPlatform": "Intel Sapphire Rapids" if instance.started else "Unknown CPU Platform",
        "labels": given.get("labels", {}),
        "labelFingerprint": fingerprint(instance, "labels"),
        "startRestricted": False,
        "deletionProtection": False,
        "fingerprint": fingerprint(instance, "instance"),
        "resourceStatus": _resource_status(world, instance, wire),
    }  # fmt: skip
    if instance.started:
        answer["lastStartTimestamp"] = wire.time(instance.started)
    if instance.stopped:
        answer["lastStopTimestamp"] = wire.time(instance.stopped)
    return answer


def fingerprint(instance: Instance, part: str) -> str:
    """Changes when that part changes."""
    return _fingerprint(f"{instance.id}/{part}/{instance.changes.get(part, 0)}")


@lru_cache(maxsize=1 << 16)
def _fingerprint(state: str) -> str:
    return base64.b64encode(hashlib.sha256(state.encode()).digest()[:8]).decode()


def _scheduling(instance: Instance, given: Json) -> Json:
    model = given.get("provisioningModel", "STANDARD")
    answer = {
        "onHostMaintenance": "TERMINATE" if model != "STANDARD" else "MIGRATE",
        "automaticRestart": model == "STANDARD",
        "preemptible": False,
        "provisioningModel": model,
        **given,
    }
    if instance.run_duration is not None:
        answer["maxRunDuration"] = {"seconds": str(int(instance.run_duration.total_seconds()))}
    return answer


def _resource_status(world: World, instance: Instance, wire: Wire) -> Json:
    status: Json = {"scheduling": {}}
    if instance.terminates and world.knobs.termination_timestamp != "never":
        status["scheduling"]["terminationTimestamp"] = wire.time(instance.terminates)
    if instance.status == "RUNNING":
        block = instance.host
        status["physicalHost"] = f"/{block[:8]}/{block[8:16]}/{block[16:24]}"
        status["physicalHostTopology"] = {
            "cluster": f"{instance.zone}-cluster-1",
            "block": block[:8],
            "subblock": block[8:16],
            "host": block[16:24],
        }
    if instance.maintenance:
        window = instance.maintenance
        start = wire.time(datetime.fromisoformat(window["windowStartTime"]))
        status["upcomingMaintenance"] = {
            "type": window["type"],
            "canReschedule": window["type"] == "SCHEDULED",
            "windowStartTime": start,
            "latestWindowStartTime": start,
            "windowEndTime": wire.time(datetime.fromisoformat(window["windowEndTime"])),
            "maintenanceStatus": window.get("status", "PENDING"),
        }
    return status


def _interfaces(instance: Instance, wire: Wire, region: str) -> list[Json]:
    given = instance.body.get("networkInterfaces") or [{}]
    project = f"projects/{instance.project}"
    shown = []
    for number, item in enumerate(given):
        entry: Json = {
            "kind": "compute#networkInterface",
            "network": wire.link(f"{project}/global/networks/default"),
            "subnetwork": wire.link(f"{project}/regions/{region}/subnetworks/default"),
            **item,
            "name": f"nic{number}",
            "networkIP": instance.address,
            "fingerprint": fingerprint(instance, f"nic{number}"),
            "stackType": item.get("stackType", "IPV4_ONLY"),
        }
        shown.append(entry)
    return shown


def _disks(instance: Instance, wire: Wire, zone: str) -> list[Json]:
    shown = []
    for number, item in enumerate(instance.body.get("disks", ())):
        name = instance.name if number == 0 else f"{instance.name}-{number}"
        kept = {key: value for key, value in item.items() if key != "initializeParams"}
        size = item.get("initializeParams", {}).get("diskSizeGb", item.get("diskSizeGb", "10"))
        entry: Json = {
            "kind": "compute#attachedDisk",
            "type": "PERSISTENT",
            "mode": "READ_WRITE",
            "boot": number == 0,
            "autoDelete": True,
            "interface": "NVME",
            **kept,
            "index": number,
            "deviceName": item.get("deviceName") or f"persistent-disk-{number}",
            "diskSizeGb": size,
        }
        if entry["type"] == "PERSISTENT":
            entry["source"] = wire.link(f"{zone}/disks/{name}")
        shown.append(entry)
    return shown
