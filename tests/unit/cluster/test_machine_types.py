"""The table of machine types: complete for its families, and sane."""

from __future__ import annotations

import pytest

from slurm_flex.cluster.machines import (
    accelerator_enum,
    accelerator_name,
    family_of,
    find_machine,
    gres_type,
    machine_types,
    nearest_machine_type,
)


@pytest.mark.parametrize(
    ("name", "cpus", "memory_gb", "gpus"),
    [
        ("a2-highgpu-1g", 12, 85, 1),
        ("a2-megagpu-16g", 96, 1360, 16),
        ("a2-ultragpu-8g", 96, 1360, 8),
        ("a3-highgpu-1g", 26, 234, 1),
        ("a3-megagpu-8g", 208, 1872, 8),
        ("a3-ultragpu-8g", 224, 2952, 8),
        ("a4-highgpu-8g", 224, 3968, 8),
        ("g2-standard-48", 48, 192, 4),
        ("h4d-highmem-192-lssd", 192, 1488, 0),
        ("n2-highmem-128", 128, 864, 0),
        ("c2-standard-60", 60, 240, 0),
        ("c3-highcpu-192-metal", 192, 512, 0),
    ],
)
def test_a_machine_type_has_what_google_documents(
    name: str, cpus: int, memory_gb: int, gpus: int
) -> None:
    machine = find_machine(name)
    assert machine is not None
    assert (machine.cpus, machine.memory_gb, machine.gpus) == (cpus, memory_gb, gpus)


@pytest.mark.parametrize("name", machine_types())
def test_sockets_times_cores_times_threads_are_the_cpus(name: str) -> None:
    machine = find_machine(name)
    assert machine is not None
    assert machine.sockets * machine.cores_per_socket * machine.threads_per_core == machine.cpus
    assert bool(machine.gpu) == bool(machine.gpus)
    assert family_of(name) is not None
    assert 0 < machine.real_memory_mb < machine.memory_gb * 1024


def test_real_memory_stays_below_what_a_guest_was_seen_to_have() -> None:
    machine = find_machine("h4d-standard-192")
    assert machine is not None
    assert machine.real_memory_mb < 708.6 * 1024


def test_a_misspelt_type_is_recognised() -> None:
    assert nearest_machine_type("a3-ultragpu-8") == "a3-ultragpu-8g"
    assert nearest_machine_type("zzz") == ""


def test_the_longest_family_name_counts() -> None:
    ultra, mega = family_of("a3-ultragpu-8g"), family_of("a3-megagpu-8g")
    assert ultra is not None and ultra.boot_disk == "hyperdisk-balanced"
    assert mega is not None and mega.boot_disk == "pd-ssd"
    assert family_of("e2-micro") is None


def test_accelerators_have_three_names() -> None:
    assert accelerator_name("NVIDIA_H200_141GB") == "nvidia-h200-141gb"
    assert accelerator_name("nvidia-b200") == "nvidia-b200"
    assert accelerator_enum("nvidia-b200") == "NVIDIA_B200"
    assert gres_type("NVIDIA_H100_MEGA_80GB") == "h100"
    assert gres_type("NVIDIA_TESLA_T4") == "tesla_t4"
