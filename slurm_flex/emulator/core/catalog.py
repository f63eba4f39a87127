"""Zones, regions, machine types and accelerators: what the cloud offers, as data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class MachineType:
    """One machine type; memory in MB, as the API gives it."""

    name: str
    cpus: int
    memory_mb: int
    accelerator: str = ""
    accelerator_count: int = 0

    @property
    def family(self) -> str:
        """The word before the first dash: ``a3``."""
        return self.name.split("-", 1)[0]

    @property
    def offers_flex_start(self) -> bool:
        """GPU types except A4X, and H4D (Google's product documentation)."""
        return (bool(self.accelerator) and self.family != "a4x") or self.family == "h4d"


@dataclass(frozen=True)
class Accelerator:
    """One accelerator type, and the quota metric that counts its cards."""

    name: str
    description: str
    most_per_instance: int
    metric: str


@dataclass(frozen=True)
class Catalog:
    """All that is on offer. Every zone offers every type; capacity is another matter."""

    machine_types: dict[str, MachineType]
    accelerators: dict[str, Accelerator]
    regions: dict[str, tuple[str, ...]]
    zones: dict[str, str] = field(default_factory=dict)

    def zone_region(self, zone: str) -> str | None:
        """The region of a zone, or None when there is no such zone."""
        return self.zones.get(zone)

    def gpu_metrics(self) -> list[str]:
        """Quota metrics for GPUs, standard and preemptible."""
        names = sorted({item.metric for item in self.accelerators.values()})
        return names + [f"PREEMPTIBLE_{name}" for name in names]


def load() -> Catalog:
    """Read the catalog that is shipped beside this file."""
    text = resources.files(__package__).joinpath("machine_types.json").read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    types = {name: _machine_type(name, row) for name, row in data["types"].items()}
    for family, shape in data["families"].items():
        for cpus in shape["cpus"]:
            name = f"{family}-{cpus}"
            types[name] = MachineType(name, cpus, cpus * shape["gb_per_cpu"] * 1024)
    accelerators = {name: Accelerator(name, *row) for name, row in data["accelerators"].items()}
    regions = {
        region: tuple(f"{region}-{letter}" for letter in letters)
        for region, letters in data["zones"].items()
    }
    zones = {zone: region for region, names in regions.items() for zone in names}
    return Catalog(types, accelerators, regions, zones)


def _machine_type(name: str, row: list[Any]) -> MachineType:
    cpus, memory, *card = row
    kind, count = card if card else ("", 0)
    return MachineType(name, cpus, memory * 1024, kind, count)
