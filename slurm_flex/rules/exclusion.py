"""Which nodes Slurm itself must not suspend: SuspendExcNodes, SuspendExcParts, SuspendExcStates.

Early power-down respects them. `list:count` keeps that many nodes of the list up, so all of the
list are spared unless more are up. "(null)" is how Slurm prints an empty value.
"""

from __future__ import annotations

import re

from slurm_flex.hostlist import HostlistError, expand
from slurm_flex.member import Member
from slurm_flex.world import World

_SPLIT = re.compile(r",(?![^\[]*\])")


def is_excluded(world: World, member: Member) -> bool:
    config = world.slurm.config
    if member.name in _excluded_nodes(world, _text(config.suspend_exc_nodes)):
        return True
    parts = set(_SPLIT.split(_text(config.suspend_exc_parts)))
    if any(p.name in parts and member.name in p.nodes for p in world.slurm.partitions):
        return True
    if any(spec.id in parts for spec in world.cluster.partitions_of(member.pool)):
        return True
    flags = member.node.flags if member.node else frozenset()
    states = {word.strip().upper() for word in _text(config.suspend_exc_states).split(",")}
    return bool(states & flags)


def _text(value: str | None) -> str:
    return "" if value is None or value in ("(null)", "N/A", "none") else value


def _excluded_nodes(world: World, text: str) -> set[str]:
    """A list that can't be read excludes all: better a node too long than one too few."""
    excluded: set[str] = set()
    for item in filter(None, _SPLIT.split(text)):
        hosts, _, count = item.partition(":")
        try:
            names = expand(hosts)
        except HostlistError:
            return set(world.members)
        up = [n for n in names if n in world.nodes and world.nodes[n].is_believed_up]
        if not count or (count.isdigit() and len(up) <= int(count)) or not count.isdigit():
            excluded.update(names)
    return excluded
