"""What a machine type has: CPUs, memory, GPUs; from machines.json, which names its sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from slurm_flex.cluster.reader import closest

_KERNEL_MB: Final = 512
_KERNEL_MB_PER_GB: Final = 32


@dataclass(frozen=True)
class Machine:
    """One machine type. memory_gb is in GiB; gpu is Compute Engine's accelerator type."""

    name: str
    cpus: int
    memory_gb: int
    sockets: int = 1
    threads_per_core: int = 2
    gpu: str = ""
    gpus: int = 0

    @property
    def cores_per_socket(self) -> int:
        return self.cpus // (self.sockets * self.threads_per_core)

    @property
    def real_memory_mb(self) -> int:
        """RealMemory: safely below what the guest sees, since a node with less is drained.

        A VM's kernel and firmware keep about 1.6 % (h4d-standard-192: 708.6 of 720 GiB); this
        leaves 3 % and 512 MiB.
        """
        return self.memory_gb * 1024 - self.memory_gb * _KERNEL_MB_PER_GB - _KERNEL_MB


@dataclass(frozen=True)
class MachineFamily:
    """What holds for every type of a family."""

    boot_disk: str
    flex_start: bool
    hyperdisk_only: bool = False


@lru_cache(maxsize=1)
def _data() -> Mapping[str, Any]:
    text = files("slurm_flex.cluster").joinpath("machines.json").read_text(encoding="utf-8")
    data: Mapping[str, Any] = json.loads(text)
    return data


def find_machine(machine_type: str) -> Machine | None:
    """The machine of that type, or None for a type that the table doesn't have."""
    entry = _data()["types"].get(machine_type)
    return None if entry is None else Machine(machine_type, **entry)


def machine_types() -> tuple[str, ...]:
    return tuple(_data()["types"])


def nearest_machine_type(machine_type: str) -> str:
    """The known type that was probably meant, or nothing."""
    return closest(machine_type, machine_types())


def family_of(machine_type: str) -> MachineFamily | None:
    """The family of a type: the longest known prefix (a3-ultragpu before a3)."""
    families = _data()["families"]
    names = [name for name in families if machine_type.startswith(f"{name}-")]
    return MachineFamily(**families[max(names, key=len)]) if names else None


def accelerator_name(accelerator_type: str) -> str:
    """Compute Engine's name of an accelerator_type: NVIDIA_H200_141GB is nvidia-h200-141gb."""
    for name, entry in _data()["gpus"].items():
        if accelerator_type in (entry["enum"], name):
            return str(name)
    return accelerator_type.lower().replace("_", "-")


def accelerator_enum(gpu: str) -> str:
    """The cluster file's name of Compute Engine's accelerator: the way back."""
    entry = _data()["gpus"].get(gpu)
    return str(entry["enum"]) if entry else gpu.upper().replace("-", "_")


def gres_type(accelerator_type: str) -> str:
    """Slurm's GRES type of an accelerator (either spelling): h200, b200, a100."""
    name = accelerator_name(accelerator_type)
    entry = _data()["gpus"].get(name)
    return str(entry["gres"]) if entry else name.removeprefix("nvidia-").replace("-", "_")
