"""Maintenance of a VM's host: announced ahead, and the end of every VM that can't move away.

Planned for like the end of a life (`lifetime`) and nobody's fault when it comes (`ended`): the next
VM starts on another host. onHostMaintenance is TERMINATE for all VMs with GPUs (facts:
compute-engine.md).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from slurm_flex.member import Member
from slurm_flex.rules.reserved import first_reserved_end
from slurm_flex.world import World

FLEX_LIMIT: Final = "Flex-start limit"
HOST_MAINTENANCE: Final = "host maintenance"
RESERVED_FOR_IT: Final = "-maintenance"
"""How the name of a reservation before it ends: with memory lost, it tells what the end was."""


def is_planned_for(world: World, member: Member) -> bool:
    """Its end is: Flex-start VMs have one by nature, others when their host is maintained."""
    return member.pool.is_flex_start or world.maintenance_of(member) is not None


def has_begun(world: World, member: Member) -> bool:
    """The VM that is or was here had one announced, and its time has come."""
    begins = announced(world, member)
    return begins is not None and world.now >= begins - world.settings.clock_skew


def announced(world: World, member: Member) -> datetime | None:
    """By the VM's own word, by what we last knew of it, or by our reservation.

    A dead VM's listing needn't tell any more why it died.
    """
    if (begins := world.maintenance_of(member)) is not None:
        return begins
    known = world.recall.instances.get(member.name)
    if known is not None and (member.instance is None or member.instance.id == known.id):
        return known.maintenance
    return first_reserved_end(world, member.name, RESERVED_FOR_IT)
