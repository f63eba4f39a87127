"""Read cluster_config.json: Google's own schema, taken leniently in form, strictly in content.

Snake and camel case and "true" in quotes are taken; everything that is unknown, misspelt, of the
wrong type, out of range or points nowhere is named with its JSON path, all at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from slurm_flex.cluster import checks
from slurm_flex.cluster.machines import Machine, accelerator_enum, find_machine
from slurm_flex.cluster.model import (
    LONGEST_RUN,
    BootDisk,
    Cluster,
    NodeSet,
    PartitionSpec,
    Pool,
    Provisioning,
    ReservationAffinity,
    SlurmSpec,
)
from slurm_flex.cluster.reader import ClusterFileError, Reader, path_to
from slurm_flex.cluster.schema import CLUSTER
from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.text import one_line


def load_cluster(path: Path) -> Cluster:
    """Read the cluster file. Raises InputErrors with everything that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InputErrors(
            [FlexError("no such file", where=str(path), fix="write one with `slurm-flex init`")]
        ) from error
    except OSError as error:
        raise InputErrors([FlexError(error.strerror or str(error), where=str(path))]) from error
    except UnicodeDecodeError as error:
        raise InputErrors(
            [FlexError(f"is not UTF-8 text (byte {error.start})", where=str(path))]
        ) from error
    data, errors = _read_json(text, source=str(path))
    try:
        cluster = parse_cluster(data, source=str(path))
    except InputErrors as others:
        raise InputErrors([*errors, *others.errors]) from others
    if errors:
        raise InputErrors(errors)
    return cluster


def parse_json(text: str, *, source: str) -> object:
    """JSON that keeps nothing twice: a repeated key is an error, not the last one's silent win."""
    data, errors = _read_json(text, source=source)
    if errors:
        raise InputErrors(errors)
    return data


def _read_json(text: str, *, source: str) -> tuple[object, list[FlexError]]:
    """The JSON, and each key that stands twice. Raises InputErrors for what is none at all."""
    repeated: list[tuple[dict[str, object], str]] = []

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        seen: dict[str, object] = {}
        for key, value in items:
            if key in seen:
                repeated.append((seen, key))
            seen[key] = value
        return seen

    if not text.strip():
        raise InputErrors([FlexError("is empty", where=source)])
    try:
        data: object = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        raise InputErrors(
            [
                FlexError(
                    f"is not JSON: {error.msg} (column {error.colno})",
                    where=f"{source}:{error.lineno}",
                    fix="a missing or surplus comma or quote, there or just before",
                )
            ]
        ) from error
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number of 5000 digits
        raise InputErrors(
            [FlexError(f"is not JSON that can be read: {error}", where=source)]
        ) from error
    errors: list[FlexError] = []
    for holder, key in repeated:
        path = path_to(holder, data)
        what = f'the key "{one_line(key, 60)}" stands twice in one object'
        errors.append(ClusterFileError(what, source=source, path=path, fix="remove one"))
    return data, errors


def parse_cluster(
    data: object, *, source: str = "cluster_config.json", lenient: bool = False
) -> Cluster:
    """Check a parsed cluster file and make it a value.

    lenient is for snapshots written by hand and replayed offline: what is missing gets a default
    and placeholders pass; unknown keys and wrong types are errors all the same.
    Raises InputErrors with all errors, each with its JSON path.
    """
    if not isinstance(data, Mapping):
        raise InputErrors(
            [ClusterFileError("is not a JSON object", source=source, path="", fix="{ ... }")]
        )
    reader = Reader(source, data, lenient=lenient)
    read = reader.read(CLUSTER, data, "")
    cluster = _cluster(read, data, reader)
    warnings = checks.check(cluster, read, reader)
    if reader.errors:
        raise InputErrors(reader.errors)
    return replace(cluster, warnings=tuple(warnings))


def _cluster(read: Mapping[str, Any], data: Mapping[str, object], reader: Reader) -> Cluster:
    slurm = read.get("orchestrator_spec", {}).get("slurm_spec", {})
    login_id = slurm.get("login_node_pool_id", "")
    pools = tuple(
        _pool(item, at, login_id, reader) for at, item in enumerate(read.get("node_pools", []))
    )
    partitions = tuple(
        PartitionSpec(
            item.get("id", ""), tuple(item.get("node_pool_ids", [])), item.get("config", {})
        )
        for item in slurm.get("partitions", [])
    )
    if not partitions and reader.lenient:  # the usual case: a partition has one pool
        ids = dict.fromkeys(pool.id for pool in pools if pool.id and not pool.is_login)
        partitions = tuple(PartitionSpec(pool_id, (pool_id,)) for pool_id in ids)
    project, region, last = _name_parts(read.get("name", ""))
    network = read.get("network", {})
    return Cluster(
        id=last or read.get("display_name", "") or ("cluster" if reader.lenient else ""),
        project=project,
        region=region or _region_of(pools),
        pools=pools,
        partitions=partitions,
        login_pool_id=login_id,
        default_partition=slurm.get("default_partition_id")
        or (partitions[0].id if partitions else ""),
        display_name=read.get("display_name", ""),
        labels=read.get("labels", {}),
        network=network.get("network", ""),
        subnetwork=network.get("subnetwork", ""),
        service_account=read.get("runtime_spec", {}).get("service_account", ""),
        slurm=_slurm(slurm),
        source=data,
    )


def _name_parts(name: str) -> tuple[str, str, str]:
    """Project, region and id of projects/P/locations/R/modelDevelopmentClusters/ID."""
    parts = name.split("/")
    if len(parts) != 6:
        return "", "", ""
    return parts[1], parts[3], parts[5]


def _region_of(pools: tuple[Pool, ...]) -> str:
    """The region that all zones lie in, for files without a name; empty if they disagree."""
    regions = {pool.zone.rpartition("-")[0] for pool in pools if pool.zone}
    return regions.pop() if len(regions) == 1 else ""


def _slurm(slurm: Mapping[str, Any]) -> SlurmSpec:
    return SlurmSpec(
        home_directory_storage=slurm.get("home_directory_storage", ""),
        node_sets=tuple(
            NodeSet(item.get("node_pool_id", ""), item.get("config", {}))
            for item in slurm.get("node_sets", [])
        ),
        config=slurm.get("config", {}),
        prolog_bash_scripts=tuple(slurm.get("prolog_bash_scripts", [])),
        epilog_bash_scripts=tuple(slurm.get("epilog_bash_scripts", [])),
        task_prolog_bash_scripts=tuple(slurm.get("task_prolog_bash_scripts", [])),
        task_epilog_bash_scripts=tuple(slurm.get("task_epilog_bash_scripts", [])),
        accounting_storage_enforce=slurm.get("accounting", {}).get(
            "accounting_storage_enforce", ""
        ),
        scheduling={key: str(value) for key, value in slurm.get("scheduling", {}).items()},
    )


def _pool(item: Mapping[str, Any], at: int, login_id: str, reader: Reader) -> Pool:
    machine = item.get("machine_spec", {})
    known = find_machine(machine.get("machine_type", "")) or Machine("", 0, 0)
    scaling = item.get("scaling_spec", {})
    disk = item.get("boot_disk", {})
    affinity = machine.get("reservation_affinity")
    duration = item.get("flex_start_max_duration")
    least = scaling.get("min_node_count", 0)
    pool_id = item.get("id", "")
    if not pool_id and reader.lenient:
        reader.complain(f"node_pools[{at}].id", "is missing")
    is_login = bool(login_id) and pool_id == login_id
    return Pool(
        id=pool_id,
        zone=item.get("zone", ""),
        provisioning_model=_model(item, is_login, lenient=reader.lenient),
        machine_type=machine.get("machine_type", ""),
        accelerator_type=machine.get("accelerator_type") or accelerator_enum(known.gpu),
        accelerator_count=machine.get("accelerator_count", known.gpus),
        min_node_count=least,
        max_node_count=scaling.get("max_node_count", least),
        run_duration=LONGEST_RUN if duration is None else timedelta(seconds=duration),
        enable_public_ips=item.get("enable_public_ips", False),
        boot_disk=BootDisk(disk.get("boot_disk_type", ""), disk.get("boot_disk_size_gb", 100)),
        node_image=item.get("node_image", ""),
        startup_script=item.get("startup_script", ""),
        filestores=tuple(item.get("filestores", [])),
        lustres=tuple(item.get("lustres", [])),
        labels=item.get("labels", {}),
        confidential_instance_type=item.get("confidential_instance_config", {}).get(
            "confidential_instance_type", ""
        ),
        reservation_affinity=None
        if affinity is None
        else ReservationAffinity(
            affinity.get("type", ""), affinity.get("key", ""), tuple(affinity.get("values", []))
        ),
        is_login=is_login,
    )


def _model(item: Mapping[str, Any], is_login: bool, *, lenient: bool) -> Provisioning:
    """The model of a pool. Without one: CPU is ON_DEMAND, a GPU with affinity is RESERVATION.

    A GPU pool with neither is refused by the checks, as Google's service refuses it.
    """
    given = item.get("provisioning_model")
    if given:
        return Provisioning(given)
    if item.get("machine_spec", {}).get("reservation_affinity"):
        return Provisioning.RESERVATION
    return Provisioning.FLEX_START if lenient and not is_login else Provisioning.ON_DEMAND
