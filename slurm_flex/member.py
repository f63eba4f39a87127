"""A configured node with all that belongs to it, and the one word for its condition."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from typing import Final

from slurm_flex.cluster.model import Pool
from slurm_flex.model import Instance, Job, Node, Request


class Phase(str, Enum):
    """One word for a node in a pass."""

    OFF = "off"
    """Powered down, and nobody is powering it up."""
    ASKED = "asked"
    """Slurm wants it up; no VM, no request yet."""
    QUEUED = "queued"
    """A live request names it."""
    BOOTING = "booting"
    """Its VM is on the way, Slurm waits for it to register."""
    UP = "up"
    ENDING = "ending"
    """Slurm counts on it, and its VM is gone, dead or dying."""
    LEAVING = "leaving"
    """Slurm powers it down."""
    SICK = "sick"
    """Drained by our own health check."""
    HELD = "held"
    """Somebody else drained or downed it."""
    UNKNOWN = "unknown"
    """Slurm doesn't list it, or the pool couldn't be read."""

    def __str__(self) -> str:
        return self.value


RISING: Final = (Phase.ASKED, Phase.QUEUED, Phase.BOOTING)
"""Slurm waits for it to come up."""


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the cluster file and everything that is known of it in this pass."""

    name: str
    pool: Pool
    index: int
    static: bool
    node: Node | None
    instance: Instance | None
    request: Request | None
    """the live request that names it, listed or just sent"""
    jobs: tuple[Job, ...]
    phase: Phase
    stranger: bool
    """a VM of that name exists that isn't ours"""

    @property
    def is_allocated(self) -> bool:
        return bool(self.jobs) or (self.node is not None and self.node.is_allocated)

    @property
    def is_busy(self) -> bool:
        return self.is_allocated or (self.node is not None and self.node.is_completing)

    @property
    def has_live_instance(self) -> bool:
        return self.instance is not None and self.instance.is_alive

    @property
    def has_ended_instance(self) -> bool:
        """No VM, or one that is dead or on its way out."""
        return not self.stranger and not self.has_live_instance

    @property
    def stem(self) -> str:
        """The name, but for its number, of a request for this node alone."""
        if self.static:
            return f"s{self.index}"
        return f"m-{hashlib.sha256(self.name.encode()).hexdigest()[:8]}"

    @property
    def waits_for_vm(self) -> bool:
        return self.phase in (Phase.ASKED, Phase.QUEUED)


def phase_of(
    node: Node | None, instance: Instance | None, request: Request | None, *, hidden: bool
) -> Phase:
    """The table of phases: flags x instance x request. First match stands."""
    if hidden or node is None or node.is_unknowable:
        return Phase.UNKNOWN
    if node.is_powering_down:
        return Phase.LEAVING
    if node.is_down and node.has_own_reason and node.is_powering_up:
        return Phase.LEAVING  # set down by us, and the power-down didn't follow yet
    waits_for_power = node.is_powering_up or node.is_about_to_power_up
    if node.is_held and (node.is_down or not (waits_for_power and node.is_allocated)):
        return Phase.HELD  # a drain under a waiting job holds the node only after that job
    if node.is_off:
        return Phase.OFF
    if waits_for_power:
        if instance is not None and instance.is_alive:
            return Phase.BOOTING
        return Phase.QUEUED if request is not None else Phase.ASKED
    if node.is_power_down_requested and not node.is_busy:
        return Phase.LEAVING
    if instance is None or not instance.is_alive:
        return Phase.ENDING
    return Phase.SICK if node.has_health_drain else Phase.UP
