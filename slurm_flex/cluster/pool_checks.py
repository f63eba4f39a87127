"""What must hold within one node pool: its model, its machine type, its accelerators, its disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from slurm_flex.cluster.machines import (
    accelerator_enum,
    accelerator_name,
    family_of,
    find_machine,
    nearest_machine_type,
)
from slurm_flex.cluster.model import Pool, Provisioning
from slurm_flex.cluster.reader import Reader

_GPU_FAMILY: Final = re.compile(r"(a[234]x?|g[24])-")
_OFFERED: Final = "see `gcloud compute machine-types list`"
_CUSTOM: Final = re.compile(r"[a-z0-9]+-custom-")


def is_gpu(pool: Pool) -> bool:
    """The pool's machines have GPUs: it says so, or its machine family always has."""
    return bool(
        pool.accelerator_count or pool.accelerator_type or _GPU_FAMILY.match(pool.machine_type)
    )


def check_provisioning(pool: Pool, item: Mapping[str, Any], path: str, reader: Reader) -> None:
    if reader.is_faulty(f"{path}.provisioning_model"):
        return
    model = pool.provisioning_model
    affinity = pool.reservation_affinity
    given = "provisioning_model" in item
    if not given and is_gpu(pool) and affinity is None:
        fix = "FLEX_START, ON_DEMAND, SPOT, or RESERVATION with a reservation_affinity"
        reader.complain(f"{path}.provisioning_model", "is missing on a GPU pool", fix)
    where = f"{path}.machine_spec.reservation_affinity"
    if affinity is not None and model is not Provisioning.RESERVATION:
        reader.complain(where, f"has no place in a {model.value} pool", "remove it")
    if affinity is None and model is Provisioning.RESERVATION:
        fix = '{ "type": "SPECIFIC_RESERVATION", "key": "compute.googleapis.com/reservation-name", '
        fix += '"values": ["NAME"] }, or { "type": "ANY_RESERVATION" }'
        reader.complain(where, "is missing in a RESERVATION pool", fix)
    if affinity is not None and affinity.type == "SPECIFIC_RESERVATION":
        if not affinity.values:
            reader.complain(f"{where}.values", "is missing", "the name of the reservation")
        if affinity.key != "compute.googleapis.com/reservation-name":
            fix = "compute.googleapis.com/reservation-name"
            reader.complain(f"{where}.key", f'"{affinity.key}" names no reservation', fix)
    if affinity is not None and affinity.type == "NO_RESERVATION":
        reader.complain(f"{where}.type", "contradicts a RESERVATION pool", "use another model")
    unsaid = reader.is_faulty(f"{path}.provisioning_model")
    if "flex_start_max_duration" in item and not (pool.is_flex_start or unsaid):
        what = f"has no meaning in a {model.value} pool"
        reader.complain(f"{path}.flex_start_max_duration", what, "remove it, or use FLEX_START")
    if given and pool.is_flex_start and not _flex_machine(pool):
        what = f"FLEX_START doesn't give {pool.machine_type} machines"
        fix = "ON_DEMAND or SPOT; Flex-start is for GPU machines (not A4X) and H4D"
        reader.complain(f"{path}.provisioning_model", what, fix)


def _flex_machine(pool: Pool) -> bool:
    """Flex-start takes all GPU types except A4X, and H4D; no general CPU machines."""
    if not pool.machine_type:
        return True
    if pool.machine_type.startswith("a4x"):
        return False
    family = family_of(pool.machine_type)
    return is_gpu(pool) or (family is not None and family.flex_start)


def check_machine(pool: Pool, item: Mapping[str, Any], path: str, reader: Reader) -> None:
    spec = item.get("machine_spec", {})
    if pool.accelerator_type and not pool.accelerator_count and "accelerator_count" not in spec:
        reader.complain(f"{path}.machine_spec.accelerator_count", "is missing", "8 for A3 and A4")
    if pool.accelerator_count and not pool.accelerator_type:
        fix = "such as NVIDIA_H200_141GB"
        reader.complain(f"{path}.machine_spec.accelerator_type", "is missing", fix)
    _check_machine_type(pool, spec, path, reader)
    _check_boot_disk(pool, path, reader)


def _check_machine_type(pool: Pool, spec: Mapping[str, Any], path: str, reader: Reader) -> None:
    where = f"{path}.machine_spec"
    known = find_machine(pool.machine_type)
    if known is None:
        if family_of(pool.machine_type) is not None and not _CUSTOM.match(pool.machine_type):
            meant = nearest_machine_type(pool.machine_type)
            what = f'"{pool.machine_type}" is no machine type of its family'
            reader.complain(
                f"{where}.machine_type", what, f"did you mean {meant}?" if meant else _OFFERED
            )
        return
    if "accelerator_count" in spec and pool.accelerator_count != known.gpus:
        what = f"{known.name} has {known.gpus or 'no'} GPUs, not {pool.accelerator_count}"
        fix = f"write {known.gpus}" if known.gpus else "remove it"
        reader.complain(f"{where}.accelerator_count", what, fix)
    if spec.get("accelerator_type") and accelerator_name(pool.accelerator_type) != known.gpu:
        own = accelerator_enum(known.gpu) if known.gpu else ""
        what = (
            f"{known.name} has {f'{own} GPUs' if own else 'no GPUs'}, not {pool.accelerator_type}"
        )
        reader.complain(f"{where}.accelerator_type", what, f"write {own}" if own else "remove it")


def _check_boot_disk(pool: Pool, path: str, reader: Reader) -> None:
    where = f"{path}.boot_disk.boot_disk_type"
    family = family_of(pool.machine_type)
    if family is not None and family.hyperdisk_only and pool.boot_disk.type.startswith("pd-"):
        what = f"{pool.machine_type} can't boot from {pool.boot_disk.type}"
        reader.complain(where, what, "hyperdisk-balanced")
    elif is_gpu(pool) and pool.boot_disk.type == "pd-standard":
        what = f"GPU machines ({pool.machine_type}) can't boot from pd-standard"
        reader.complain(where, what, "pd-ssd or hyperdisk-balanced")


def machine_warnings(pool: Pool) -> Iterator[str]:
    """A machine type that the table doesn't know: its CPUs and memory must come from the site."""
    if pool.machine_type and find_machine(pool.machine_type) is None:
        yield (
            f"the pool {pool.id}: the CPUs and memory of {pool.machine_type} aren't known here; "
            f"give them in slurm-flex.toml, node_overrides = {{ {pool.id} = {{ ... }} }}, "
            f"as slurmd -C prints them"
        )
