"""The state file: what each node's GPUs are like just now."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

STATE_FILE: Final = "state.json"
# Where the eight GPUs of an HGX H100 board sit.
_BUSES: Final = (0x0F, 0x2D, 0x44, 0x5B, 0x89, 0xA8, 0xC0, 0xD8)


@dataclass(frozen=True)
class FakeNode:
    """One node's GPUs. The lists and keys hold GPU indexes; JSON makes keys texts."""

    gpus: int = 8
    model: str = "NVIDIA H100 80GB HBM3"
    links: int = 18
    driver: str = "570.158.01"  # empty: the driver is not loaded
    dcgm: str = "4.2.3"  # 2.x and 3.x print the older JSON
    lost: tuple[int, ...] = ()
    lost_alone: bool = False  # older drivers print the error and no other GPU
    ecc: Mapping[str, int] = field(default_factory=dict)
    remap_pending: tuple[int, ...] = ()
    remap_failed: tuple[int, ...] = ()
    links_down: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dcgm_failures: Mapping[str, str] = field(default_factory=dict)  # GPU: what DCGM says
    hanging: tuple[str, ...] = ()  # tools that never answer
    log_lines: int = 0

    def answering(self) -> list[int]:
        """The GPUs that can be talked to."""
        return [gpu for gpu in range(self.gpus) if gpu not in self.lost]


def bus_of(gpu: int) -> str:
    """The PCI address as nvidia-smi prints it."""
    bus = _BUSES[gpu] if gpu < len(_BUSES) else 0xE0 + gpu - len(_BUSES)
    return f"00000000:{bus:02X}:00.0"


def uuid_of(node: str, gpu: int) -> str:
    """A UUID that stays the same for a node and an index."""
    seed = sum(ord(char) * 31**at for at, char in enumerate(node)) % 16**12
    return f"GPU-{gpu:08x}-0000-4000-8000-{seed:012x}"


def read_nodes(folder: Path) -> dict[str, FakeNode]:
    """All nodes of a state file."""
    data: dict[str, dict[str, Any]] = json.loads((folder / STATE_FILE).read_text("utf-8"))
    return {name: FakeNode(**_with_tuples(values)) for name, values in data.items()}


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }


def write_nodes(folder: Path, nodes: Mapping[str, FakeNode]) -> None:
    """Replace the state file in one step, so that a tool that runs now reads one or the other."""
    text = json.dumps({name: asdict(node) for name, node in nodes.items()}, indent=1)
    temporary = folder / f".{STATE_FILE}.{os.urandom(8).hex()}"
    temporary.write_text(text, "utf-8")
    temporary.replace(folder / STATE_FILE)


def this_node(folder: Path, environ: Mapping[str, str]) -> tuple[str, FakeNode]:
    """The node that a tool was called on: SLURMD_NODENAME, or the only one there is.

    Raises KeyError when there are several and none is named.
    """
    nodes = read_nodes(folder)
    name = environ.get("SLURMD_NODENAME") or (next(iter(nodes)) if len(nodes) == 1 else "")
    return name, nodes[name]
