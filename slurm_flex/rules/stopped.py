"""A partition that was set INACTIVE: its nodes are cleaned away, whatever they were doing.

Slurm doesn't apply power_down by itself there, and power_down alone is ignored while a node powers
up: down, then power_down (facts: slurm.md; scenarios 23 and 69).
"""

from __future__ import annotations

from collections.abc import Iterator

from slurm_flex.actions import Action, NodeDown, NodePowerDown
from slurm_flex.member import Member, Phase
from slurm_flex.rules.queue import cancel
from slurm_flex.rules.release import say_goodbye
from slurm_flex.world import World

REASON = "slurm-flex: its partition is inactive"


def plan(world: World) -> Iterator[Action]:
    stopped = {p.name for p in world.slurm.partitions if p.state.upper().startswith("INACT")}
    if not stopped:
        return
    for pool in world.pools:
        idle = [
            m
            for m in world.undecided(Phase.ASKED, Phase.QUEUED, Phase.BOOTING, Phase.UP, Phase.SICK)
            if m.pool.id == pool.id
            and _is_stopped(world, m, stopped)
            and not _is_running(m)
            and not (m.node is not None and m.node.is_held)
        ]
        if not idle:
            continue
        names = tuple(m.name for m in idle)
        for request in world.requests(pool):
            cancellable = request.is_live and request.is_own
            if cancellable and set(request.nodes) <= set(names):
                yield from cancel(world, pool.id, request, REASON)
        for member in idle:
            yield from say_goodbye(world, member.jobs, "the partition is inactive")
        yield NodeDown(nodes=names, reason=REASON, why="the partition is inactive")
        yield NodePowerDown(
            nodes=names, how="force", reason=REASON, why="the partition is inactive"
        )
        world.settle(idle)


def is_stopped(world: World, member: Member) -> bool:
    """Every partition that the node is in is inactive."""
    stopped = {p.name for p in world.slurm.partitions if p.state.upper().startswith("INACT")}
    return bool(stopped) and _is_stopped(world, member, stopped)


def _is_stopped(world: World, member: Member, stopped: set[str]) -> bool:
    mine = {p.name for p in world.slurm.partitions if member.name in p.nodes}
    return bool(mine) and mine <= stopped


def _is_running(member: Member) -> bool:
    """A job that runs goes on: INACTIVE only keeps new ones from starting."""
    return any(not job.is_configuring for job in member.jobs) or (
        member.is_busy and not member.jobs
    )
