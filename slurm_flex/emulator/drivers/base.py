"""The interface between the emulated cloud and what runs for a VM."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from slurm_flex.emulator.core.records import Instance


class Driver(Protocol):
    """Starts and ends guests. Every call may be repeated."""

    def start(self, instance: Instance) -> None:
        """The VM is RUNNING: bring its guest up. Must not wait for it to be ready."""
        ...

    def end(self, instances: Sequence[Instance]) -> None:
        """The VMs are over: kill their guests without a goodbye, and return when they are dead."""
        ...

    def console(self, instance: Instance) -> str:
        """What the serial console holds."""
        ...

    def adopt(self, instances: Sequence[Instance], over: Collection[str]) -> None:
        """After a restart: take over the guests of these VMs, start what is missing, and end what
        belongs to the VMs with the ids ``over``."""
        ...


class RecordDriver:
    """VMs are records; nothing runs."""

    def start(self, instance: Instance) -> None:
        """Nothing to do."""

    def end(self, instances: Sequence[Instance]) -> None:
        """Nothing to do."""

    def console(self, instance: Instance) -> str:
        """The lines that any VM of that status would have written."""
        return boot_text(instance)

    def adopt(self, instances: Sequence[Instance], over: Collection[str]) -> None:
        """Nothing to do."""


def boot_text(instance: Instance) -> str:
    """A short boot log, as long as the VM's life so far."""
    lines = [f"[    0.000000] Linux version 6.1.0 (emulated) {instance.name} id {instance.id}"]
    if instance.started:
        lines.append(
            f"[    4.200000] {instance.name} login: started {instance.started.isoformat()}"
        )
    if instance.status in ("STOPPING", "TERMINATED"):
        lines.append("[ stopping ] ACPI power button event")
    return "\n".join(lines) + "\n"
