"""Nodes that power up for nobody: looked at twice, then sent down, unless a job slipped in."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_flex.actions import Action, NodeUndrain, Unreserve
from slurm_flex.cluster.model import Pool
from slurm_flex.member import RISING, Phase
from slurm_flex.rules.release import force_down, release_nodes
from slurm_flex.world import World


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        yield from _finish_releases(world, pool)
        yield from _abandoned(world, pool)
    for reservation in world.own_reservations:
        if reservation.is_for_a_drain:
            yield Unreserve(name=reservation.name, why="a drain was broken off half way")


def _finish_releases(world: World, pool: Pool) -> Iterator[Action]:
    """Second look at nodes that were drained for release: idle goes down, taken comes back."""
    drained = [
        m
        for m in world.undecided(*RISING, Phase.UP)
        if m.pool.id == pool.id and m.node is not None and m.node.has_release_drain
    ]
    taken = [m for m in drained if m.is_allocated]
    if taken:
        names = tuple(m.name for m in taken)
        yield NodeUndrain(nodes=names, why="a job was placed on them meanwhile")
    idle = [m for m in drained if not m.is_busy]
    if idle:
        reason = (idle[0].node.reason if idle[0].node else None) or "slurm-flex: release"
        yield from force_down(world, idle, reason, "still idle: released")
    world.settle(m for m in drained if m not in taken)


def _abandoned(world: World, pool: Pool) -> Iterator[Action]:
    """Dynamic nodes that power up for a job which is gone before anything was asked for."""
    left = [
        m
        for m in world.undecided(Phase.ASKED)
        if m.pool.id == pool.id
        and not m.static
        and not m.is_allocated
        and m.node is not None
        and m.node.is_powering_up
        and f"occupied/{pool.id}/{m.name}" in world.recall.sightings
    ]
    yield from release_nodes(world, left, "its job is gone")
