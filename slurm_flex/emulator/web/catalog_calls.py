"""Projects, zones, regions, machine types and accelerator types over HTTP."""

from __future__ import annotations

import zlib
from datetime import datetime, timezone
from typing import Any, Final

from slurm_flex.emulator.core import capacity
from slurm_flex.emulator.core.catalog import Accelerator, MachineType
from slurm_flex.emulator.core.errors import not_found
from slurm_flex.emulator.web.calls import Call, serve

Json = dict[str, Any]
BIRTH: Final = datetime(2020, 1, 1, tzinfo=timezone.utc)
_CPU_METRICS: Final = (
    "CPUS", "A2_CPUS", "C2_CPUS", "C3_CPUS", "E2_CPUS", "N2_CPUS", "PREEMPTIBLE_CPUS",
)  # fmt: skip


def number_of(name: str) -> str:
    """A stable numeric id for something that is always there; a project's number as well."""
    return str(100_000_000_000 + zlib.crc32(name.encode()))


@serve("GET", "", "projects.get")
def _get_project(call: Call) -> Json:
    number = number_of(call.project)
    return {
        "kind": "compute#project",
        "id": number,
        "name": call.project,
        "creationTimestamp": call.wire.time(BIRTH),
        "selfLink": call.wire.link(f"projects/{call.project}"),
        "defaultServiceAccount": f"{number}-compute@developer.gserviceaccount.com",
        "defaultNetworkTier": "PREMIUM",
        "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
        "vmDnsSetting": "ZONAL_ONLY",
        "commonInstanceMetadata": {"kind": "compute#metadata"},
        "quotas": [{"metric": "INSTANCE_TEMPLATES", "limit": 1000.0,
                    "usage": float(len(call.world.templates))}],
    }  # fmt: skip


def _zone(call: Call, name: str) -> Json:
    region = call.world.catalog.zones[name]
    project = f"projects/{call.project}"
    down = call.world.has_fault("unreachable_zone", zone=name, project=call.project)
    return {
        "kind": "compute#zone",
        "id": number_of(name),
        "name": name,
        "description": name,
        "status": "DOWN" if down else "UP",
        "creationTimestamp": call.wire.time(BIRTH),
        "region": call.wire.link(f"{project}/regions/{region}"),
        "selfLink": call.wire.link(f"{project}/zones/{name}"),
        "availableCpuPlatforms": ["Intel Sapphire Rapids"],
    }


@serve("GET", "zones/{zone}", "zones.get")
def _get_zone(call: Call) -> Json:
    return _zone(call, call.scope.name)


@serve("GET", "zones", "zones.list")
def _list_zones(call: Call) -> Json:
    return call.listing(
        "compute#zoneList", list(call.world.catalog.zones), str, lambda n: _zone(call, n),
        collection="zones",
    )  # fmt: skip


def _region(call: Call, name: str) -> Json:
    project = f"projects/{call.project}"
    used = capacity.usage(call.world, call.project, name)
    metrics = [*call.world.catalog.gpu_metrics(), *_CPU_METRICS, "INSTANCES"]
    return {
        "kind": "compute#region",
        "id": number_of(name),
        "name": name,
        "description": name,
        "status": "UP",
        "creationTimestamp": call.wire.time(BIRTH),
        "selfLink": call.wire.link(f"{project}/regions/{name}"),
        "zones": [call.wire.link(f"{project}/zones/{z}") for z in call.world.catalog.regions[name]],
        "quotas": [
            {"metric": metric, "limit": capacity.limit_of(call.world, name, metric),
             "usage": used.get(metric, 0.0)}
            for metric in metrics
        ],
    }  # fmt: skip


@serve("GET", "regions/{region}", "regions.get")
def _get_region(call: Call) -> Json:
    return _region(call, call.scope.name)


@serve("GET", "regions", "regions.list")
def _list_regions(call: Call) -> Json:
    return call.listing(
        "compute#regionList", list(call.world.catalog.regions), str, lambda n: _region(call, n),
        collection="regions",
    )  # fmt: skip


def _machine_type(call: Call, item: MachineType) -> Json:
    zone = call.scope.name
    answer: Json = {
        "kind": "compute#machineType",
        "id": number_of(item.name),
        "name": item.name,
        "description": f"{item.cpus} vCPUs, {item.memory_mb // 1024} GB RAM",
        "creationTimestamp": call.wire.time(BIRTH),
        "guestCpus": item.cpus,
        "memoryMb": item.memory_mb,
        "imageSpaceGb": 0,
        "maximumPersistentDisks": 128,
        "maximumPersistentDisksSizeGb": "263168",
        "zone": zone,
        "selfLink": call.wire.link(
            f"projects/{call.project}/zones/{zone}/machineTypes/{item.name}"
        ),
        "isSharedCpu": item.name == "e2-medium",
        "architecture": "ARM64" if item.family == "a4x" else "X86_64",
    }
    if item.accelerator:
        answer["accelerators"] = [
            {"guestAcceleratorType": item.accelerator,
             "guestAcceleratorCount": item.accelerator_count}
        ]  # fmt: skip
    return answer


@serve("GET", "zones/{zone}/machineTypes/{machineType}", "machineTypes.get")
def _get_machine_type(call: Call) -> Json:
    zone, name = call.scope.name, call.path["machineType"]
    found = call.world.machine_type(zone, name)
    if found is None:
        raise not_found(f"projects/{call.project}/zones/{zone}/machineTypes/{name}")
    return _machine_type(call, found)


@serve("GET", "zones/{zone}/machineTypes", "machineTypes.list")
def _list_machine_types(call: Call) -> Json:
    return call.listing(
        "compute#machineTypeList",
        [
            found
            for name in call.world.catalog.machine_types
            if (found := call.world.machine_type(call.scope.name, name))
        ],
        lambda item: item.name,
        lambda item: _machine_type(call, item),
        collection=f"{call.scope.path}/machineTypes",
    )


def _accelerator(call: Call, item: Accelerator) -> Json:
    zone = call.scope.name
    path = f"projects/{call.project}/zones/{zone}"
    return {
        "kind": "compute#acceleratorType",
        "id": number_of(item.name),
        "name": item.name,
        "description": item.description,
        "creationTimestamp": call.wire.time(BIRTH),
        "maximumCardsPerInstance": item.most_per_instance,
        "zone": call.wire.link(path),
        "selfLink": call.wire.link(f"{path}/acceleratorTypes/{item.name}"),
    }


@serve("GET", "zones/{zone}/acceleratorTypes/{acceleratorType}", "acceleratorTypes.get")
def _get_accelerator(call: Call) -> Json:
    zone, name = call.scope.name, call.path["acceleratorType"]
    found = call.world.catalog.accelerators.get(name)
    if found is None:
        raise not_found(f"projects/{call.project}/zones/{zone}/acceleratorTypes/{name}")
    return _accelerator(call, found)


@serve("GET", "zones/{zone}/acceleratorTypes", "acceleratorTypes.list")
def _list_accelerators(call: Call) -> Json:
    return call.listing(
        "compute#acceleratorTypeList",
        list(call.world.catalog.accelerators.values()),
        lambda item: item.name,
        lambda item: _accelerator(call, item),
        collection=f"{call.scope.path}/acceleratorTypes",
    )
