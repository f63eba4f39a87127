"""One function decides everything: what is seen and remembered in, what to do and remember out.

It is pure: no clock, no file, no network, no log call. The rules run in the order of the design;
the first decision for a node stands. The daemon, a one-shot reconcile, the simulator and an offline
replay all call this same function.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from slurm_flex.actions import (
    Action,
    DeleteInstances,
    JobAction,
    JobComment,
    JobStart,
    NodeAction,
    NodeDown,
    NodeDrain,
    NodeIdle,
    NodePowerDown,
    NodePowerUp,
    NodeResume,
    NodeUndrain,
    PoolAction,
    Unreserve,
)
from slurm_flex.hostlist import natural_order
from slurm_flex.member import RISING, Member, Phase
from slurm_flex.model import Memory, Snapshot
from slurm_flex.model.memory import KnownInstance
from slurm_flex.recall import Recall
from slurm_flex.rules import (
    answers,
    breaker,
    ended,
    floor,
    holdback,
    journal,
    launch,
    leftovers,
    lifetime,
    narrate,
    orphans,
    partial,
    patience,
    queue,
    registration,
    retire,
    sick,
    silent,
    stopped,
    stuck,
)
from slurm_flex.world import World

RULES: Final[tuple[Callable[[World], Iterator[Action]], ...]] = (
    breaker.reopen,
    ended.plan,
    silent.plan,
    sick.plan,
    registration.plan,
    stopped.plan,
    partial.plan,
    leftovers.plan,
    answers.plan,
    queue.plan,
    patience.plan,
    breaker.plan,  # before launch: what failed in this pass must not be asked for again in it
    launch.plan,
    floor.plan,
    retire.plan,
    lifetime.plan,
    stuck.plan,
    orphans.plan,
    holdback.plan,
    journal.plan,
    narrate.plan,
)


def plan(snapshot: Snapshot, memory: Memory) -> tuple[tuple[Action, ...], Memory]:
    """Decide one pass. Without an answer from a primary slurmctld nothing is decided."""
    if not snapshot.slurm.responding or not snapshot.slurm.primary:
        return (), memory
    recall = Recall(memory, snapshot.now)
    world = World(snapshot, recall)
    _look(world)
    decided = [action for rule in RULES for action in rule(world)]
    _remember(world)
    return tuple(_in_order(_merged(_with_last_starts(_agreeing(decided))))), recall.freeze()


def close_breaker(memory: Memory, pool: str, now: datetime) -> Memory:
    """What `slurm-flex unpause POOL` does: launches that failed before now count no more, and who
    waits for the next try waits no longer."""
    breakers = {key: value for key, value in memory.breakers.items() if key != pool}
    waits = {key: v for key, v in memory.back_offs.items() if not key.startswith(f"{pool}/")}
    told = {**memory.told, f"closed/{pool}": now, f"{breaker.REOPENED}{pool}": now}
    return dataclasses.replace(memory, breakers=breakers, back_offs=waits, told=told)


def _look(world: World) -> None:
    """Passive first: note what is seen before anything is decided on it."""
    recall = world.recall
    for job in world.jobs:
        for name in job.nodes if job.holds_nodes else ():
            place = world.cluster.locate(name)
            if place is not None and place.pool_id in world.hidden_pools:
                recall.see(f"occupied/{place.pool_id}/{name}")  # Slurm's half was whole
    recall.keep_sightings(world.hidden_pools)
    for pool in world.pools:
        for request in world.requests(pool):
            if request.is_own:
                key = f"{pool.id}/{request.stem}"
                recall.attempts[key] = max(recall.attempts.get(key, 0), request.attempt)
    for member in world.members.values():
        if member.phase in RISING:
            recall.see(f"power-up/{member.pool.id}/{member.name}")
        key = f"occupied/{member.pool.id}/{member.name}"
        if _may_power_up(member) and (member.is_allocated or key in recall.last.sightings):
            recall.see(key)  # for as long as it powers up: not by hand, but for a job


def _may_power_up(member: Member) -> bool:
    """It does, held by somebody or not; or it isn't listed in this pass, and nobody can tell."""
    is_powering_up = member.node is not None and member.node.is_powering_up
    return member.phase in (*RISING, Phase.UNKNOWN) or is_powering_up


def _remember(world: World) -> None:
    """What the next pass needs and can't read anywhere: the VM behind a node, and who was on it."""
    recall = world.recall
    for member in world.members.values():
        if member.phase is Phase.UNKNOWN:
            continue
        if member.instance is not None and member.instance.is_alive:
            request = world.request_behind(member)
            recall.instances[member.name] = KnownInstance(
                id=member.instance.id,
                created=member.instance.created,
                ends=world.end_of(member),
                request=request.name if request is not None else None,
                maintenance=world.maintenance_of(member),
            )
        elif member.phase in (Phase.OFF, Phase.LEAVING):
            recall.instances.pop(member.name, None)
        if member.jobs:
            is_sick = member.phase is Phase.SICK
            there = sick.who_met_it(world, member) if is_sick else {j.id for j in member.jobs}
            recall.occupants[member.name] = tuple(sorted(there))
        elif member.phase is not Phase.SICK:
            recall.occupants.pop(member.name, None)
        if not member.waits_for_vm:
            recall.armed.pop(member.name, None)
        if recall.node_waits.get(member.name, world.now) < world.now:
            del recall.node_waits[member.name]
    _forget_the_gone(world)


def _forget_the_gone(world: World) -> None:
    """Marks about jobs that are over, and back-offs whose time is long past."""
    recall = world.recall
    listed = {str(job.id) for job in world.jobs} | {str(job.group) for job in world.jobs}
    for counts in (recall.expiries, recall.health_restarts):
        for key in [key for key in counts if key not in listed]:
            del counts[key]
    asked = {f"{pool.id}/{r.stem}" for pool in world.pools for r in world.requests(pool)}
    for key in list(recall.attempts):
        job = key.rpartition("/")[2].removeprefix("j")
        if job.isdigit() and job not in listed and key not in asked:
            del recall.attempts[key]
    for key in list(recall.back_offs):
        owner = key.partition("/")[0]
        is_job = owner.startswith("j") and owner[1:].isdigit()
        if is_job and owner[1:] not in listed:
            del recall.back_offs[key]
    kept_for = world.settings.max_queue_wait * 2
    for key in [key for key, at in recall.told.items() if world.now - at > kept_for]:
        if not key.startswith("closed/"):  # a breaker's: the launches before it are kept as well
            del recall.told[key]


# --- putting the decisions together


def _agreeing(actions: list[Action]) -> list[Action]:
    """A node that goes down in this pass is neither brought back nor powered up in it."""
    going = {
        name
        for action in actions
        if isinstance(action, (NodeDown, NodePowerDown))
        for name in action.nodes
    }
    kept: list[Action] = []
    for action in actions:
        if isinstance(action, (NodeUndrain, NodeResume, NodeIdle, NodePowerUp, NodeDrain)):
            nodes = tuple(name for name in action.nodes if name not in going)
            if not nodes:
                continue
            kept.append(dataclasses.replace(action, nodes=nodes))
        else:
            kept.append(action)
    return kept


def _with_last_starts(actions: list[Action]) -> list[Action]:
    """A job that several rules send back starts when the last of them lets it."""
    last: dict[int, JobStart] = {}
    for action in actions:
        if isinstance(action, JobStart):
            known = last.setdefault(action.job, action)
            last[action.job] = max(known, action, key=lambda one: one.after)
    return [one for one in actions if not isinstance(one, JobStart) or one is last[one.job]]


def _merged(actions: Iterable[Action]) -> list[Action]:
    """One action for all nodes of which the same is said; a node deleted twice is deleted once."""
    merged: dict[tuple[object, ...], Action] = {}
    deleted: set[tuple[str, str]] = set()
    for action in actions:
        current = action
        if isinstance(action, DeleteInstances):
            fresh = tuple(n for n in action.nodes if (action.pool, n) not in deleted)
            deleted.update((action.pool, name) for name in fresh)
            if not fresh:
                continue
            current = dataclasses.replace(action, nodes=fresh)
        key = _identity(current)
        known = merged.get(key)
        merged[key] = current if known is None else _union(known, current)
    return list(merged.values())


def _identity(action: Action) -> tuple[object, ...]:
    """What must be equal for two actions to be one: all but their nodes and their why."""
    values = [
        getattr(action, entry.name)
        for entry in dataclasses.fields(action)
        if entry.name not in ("why", "nodes")
    ]
    mergeable = isinstance(action, NodeAction) and not hasattr(action, "name")
    return (action.KIND, *values) if mergeable else (action.KIND, *values, _nodes(action))


def _union(one: Action, other: Action) -> Action:
    if not isinstance(one, NodeAction) or not isinstance(other, NodeAction):
        return one
    names = tuple(dict.fromkeys((*one.nodes, *other.nodes)))
    return dataclasses.replace(one, nodes=names, why=min(one.why, other.why))


def _nodes(action: Action) -> tuple[str, ...]:
    nodes: tuple[str, ...] = getattr(action, "nodes", ())
    return nodes


def _in_order(actions: Iterable[Action]) -> list[Action]:
    """In the order of application, which doesn't depend on the order of the input."""
    sorted_nodes = [_with_sorted_nodes(action) for action in actions]
    return sorted(sorted_nodes, key=_sort_key)


def _with_sorted_nodes(action: Action) -> Action:
    nodes = _nodes(action)
    if not nodes:
        return action
    return dataclasses.replace(action, nodes=tuple(sorted(nodes, key=natural_order)))  # type: ignore[call-arg]


def _sort_key(action: Action) -> tuple[object, ...]:
    pool = action.pool if isinstance(action, PoolAction) else ""
    job = action.job if isinstance(action, JobAction) else 0
    name = action.name if isinstance(action, Unreserve) else str(getattr(action, "name", ""))
    text = action.text if isinstance(action, JobComment) else ""
    nodes = [natural_order(name) for name in _nodes(action)]
    return (action.stage, action.KIND, pool, job, name, nodes, text, action.why)
