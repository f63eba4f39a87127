"""A static node that is off and that nothing holds: powered up, job or no job.

Power_up only: `launch` asks for the VM when Slurm shows the node powering up. Repeats are spaced,
so that a node that never comes costs a few calls an hour; an expiry starts the spacing afresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from slurm_flex.actions import Action, NodePowerUp
from slurm_flex.model.memory import PowerUp
from slurm_flex.world import Member, Phase, World

FIRST_REPEAT = timedelta(minutes=1)
LONGEST_REPEAT = timedelta(hours=1)


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        if pool.id in world.paused:
            continue
        missing = [
            member
            for member in world.undecided(Phase.OFF)
            if member.pool.id == pool.id and world.is_static_and_free(member) and _is_plain(member)
        ]
        due = [member for member in missing if _is_due(world, member)]
        for member in due:
            last = world.recall.power_ups.get(member.name)
            delay = min(last.delay * 2, LONGEST_REPEAT) if last else FIRST_REPEAT
            world.recall.power_ups[member.name] = PowerUp(world.now, delay)
        if due:
            names = tuple(member.name for member in due)
            yield NodePowerUp(nodes=names, why="static nodes are up, job or no job")
        world.settle(due)
        _forget_repeats(world)


def _is_plain(member: Member) -> bool:
    """Neither down nor drained: those are lifted first, by `stuck` and `sick`."""
    return member.node is not None and not member.node.is_down and not member.node.is_drained


def _is_due(world: World, member: Member) -> bool:
    last = world.recall.power_ups.get(member.name)
    if last is None or member.request is not None or member.has_live_instance:
        return True
    return world.now >= last.at + last.delay


def _forget_repeats(world: World) -> None:
    """A node that has stayed up for an hour has earned a quick return."""
    for name, last in list(world.recall.power_ups.items()):
        member = world.members.get(name)
        rested = world.now - last.at >= LONGEST_REPEAT
        if member is None or not member.static or (member.phase is Phase.UP and rested):
            del world.recall.power_ups[name]
