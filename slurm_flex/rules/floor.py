"""A static node that is off and that nothing holds: powered up, job or no job.

Power_up only: `launch` asks for the VM when Slurm shows the node powering up. Repeats are spaced,
so that a node that never comes costs a few calls an hour; an expiry starts the spacing afresh.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from slurm_flex.actions import Action, NodePowerUp, SuspendExclude
from slurm_flex.member import Member, Phase
from slurm_flex.model.memory import PowerUp
from slurm_flex.rules.exclusion import is_excluded
from slurm_flex.rules.stopped import is_stopped
from slurm_flex.world import World

FIRST_REPEAT = timedelta(minutes=1)
LONGEST_REPEAT = timedelta(hours=1)


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        if pool.id in world.paused:
            continue
        missing = [
            member
            for member in world.undecided(Phase.OFF)
            if member.pool.id == pool.id
            and world.is_static_and_free(member)
            and _is_plain(member)
            and not is_stopped(world, member)
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
    yield from _spare_from_suspension(world)
    _forget_repeats(world)


def _spare_from_suspension(world: World) -> Iterator[Action]:
    """Slurm would suspend an idle static node that SuspendExcNodes lacks, and we bring it back.

    The running controller takes additions from 23.02 (facts: slurm.md); a configuration that could
    not be read is left alone.
    """
    if world.slurm.config.suspend_exc_nodes is None or world.release < (23, 2):
        return
    names = tuple(
        member.name
        for member in world.undecided(Phase.UP)
        if member.static and not is_excluded(world, member)
    )
    if names:
        yield SuspendExclude(nodes=names, why="static nodes are missing from SuspendExcNodes")


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
