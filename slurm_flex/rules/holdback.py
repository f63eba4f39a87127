"""A pool that waits holds its nodes back, so that the scheduler turns to the partition's next pool.

By a reservation of ours that ends by itself, never by DOWN. A job that was sent back comes again
when the wait is over, so it lasts a little longer than that; if the wait ends early, it does too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from slurm_flex.actions import Action, Reserve, Unreserve
from slurm_flex.cluster.model import Pool
from slurm_flex.failures import Failure
from slurm_flex.member import Phase
from slurm_flex.model import HOLD_RESERVATION
from slurm_flex.world import World

# Slurm's main scheduler looks at the whole queue once a minute, backfill every half.
FOR_THE_NEXT_POOL: Final = timedelta(minutes=1)


def plan(world: World) -> Iterator[Action]:
    existing = {r.name: r for r in world.own_reservations if r.name.startswith(HOLD_RESERVATION)}
    for pool in world.pools:
        name = f"{HOLD_RESERVATION}{pool.id}"
        until = _waits_until(world, pool) if _has_alternative(world, pool) else None
        known = existing.get(name)
        if until is None:
            over = world.recall.held_back.get(pool.id)
            if over is not None and over <= world.now < over + FOR_THE_NEXT_POOL:
                continue
            world.recall.held_back.pop(pool.id, None)
            if known is not None:
                yield Unreserve(name=name, why="the pool's wait is over")
            continue
        nodes = tuple(
            m.name
            for m in world.members_of(pool)
            if m.phase is Phase.OFF and not m.static and not world.is_settled(m)
        )
        is_as_long = world.recall.held_back.get(pool.id) == until
        if known is not None and is_as_long and set(nodes) <= set(known.nodes):
            continue
        if nodes:
            world.recall.held_back[pool.id] = until
            yield Reserve(
                name=name,
                nodes=nodes,
                start=world.now,
                end=until + FOR_THE_NEXT_POOL,
                why=f"pool {pool.id} waits: jobs go to the next pool",
            )


def _waits_until(world: World, pool: Pool) -> datetime | None:
    breaker = world.recall.breakers.get(pool.id)
    if breaker is not None and breaker.probe is None and world.now < breaker.retry_at:
        return breaker.retry_at
    capacity = world.recall.waits(f"{pool.id}/{Failure.CAPACITY}")
    return capacity.until if capacity is not None else None


def _has_alternative(world: World, pool: Pool) -> bool:
    """Another pool of the same partition that may be asked: else holding back helps nobody."""
    others = {
        pool_id
        for partition in world.cluster.partitions_of(pool)
        for pool_id in partition.node_pool_ids
        if pool_id != pool.id
    }
    return any(
        other.id in others and other.id not in world.paused and _waits_until(world, other) is None
        for other in world.pools
    )
