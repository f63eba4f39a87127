"""How an emulator is to be run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class EmulatorOptions:
    """Everything that ``slurm-flex emulator`` takes."""

    host: str = "127.0.0.1"
    port: int = 0
    time_scale: float = 1.0
    driver: str = "record"
    slurmd_argv: tuple[str, ...] = ()
    slurmd_conf: str = ""
    vm_folder: Path | None = None
    state: Path | None = None
    seed: int | None = None
    keep_vms: bool = False
    knobs: dict[str, Any] = field(default_factory=dict)
    port_file: Path | None = None
    access_log: bool = False
