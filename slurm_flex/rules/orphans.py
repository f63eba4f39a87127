"""What is ours and belongs to no node: neither in the cluster file nor in Slurm's list.

A node that left the file but is still in Slurm's list is drained and leaves when it is idle; nodes
are never removed from Slurm while they run (facts: bug-reports.md, U81).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from slurm_flex.actions import (
    Action,
    DeleteInstances,
    DeleteRequest,
    Event,
    NodeDrain,
    NodePowerDown,
    Unreserve,
)
from slurm_flex.model import RETIRED_REASON, Instance, Request
from slurm_flex.rules.queue import cancel
from slurm_flex.text import one_line
from slurm_flex.world import World


def plan(world: World) -> Iterator[Action]:
    for pool_id in sorted(world.groups):
        group = world.groups[pool_id]
        if not group.complete or (pool_id in world.hidden_pools and _is_in_file(world, pool_id)):
            continue
        yield from _instances(world, pool_id)
        for request in sorted(group.requests, key=lambda one: one.name):
            yield from _request(world, pool_id, request)
    yield from _reservations(world)


def _is_in_file(world: World, pool_id: str) -> bool:
    return world.cluster.pool(pool_id) is not None


def _instances(world: World, pool_id: str) -> Iterator[Action]:
    orphans: list[str] = []
    retired: list[str] = []
    for instance in sorted(world.groups[pool_id].instances, key=lambda one: one.name):
        place = world.cluster.locate(instance.name)
        member = world.members.get(instance.name)
        at_home = place is not None and place.pool_id == pool_id
        if at_home and not (member is not None and member.stranger):
            continue
        if not instance.is_labelled(world.cluster.id):
            if instance.is_real and world.recall.once(f"foreign/{pool_id}/{instance.name}"):
                yield Event(
                    event="FOREIGN_VM",
                    pool=pool_id,
                    text=f"{instance.name} is in our group and not ours: left alone",
                    why="no node and no label of ours",
                )
        elif place is None and instance.name in world.nodes:
            retired.append(instance.name)
        elif place is None and not _is_a_name_of_ours(world, pool_id, instance.name):
            if world.recall.once(f"foreign/{pool_id}/{instance.name}"):
                yield Event(
                    event="FOREIGN_VM",
                    pool=pool_id,
                    text=one_line(f"{instance.name} bears our label, and no name that we give"),
                    why="only CLUSTER-POOL-INDEX is ours",
                )
        elif (
            not _is_registered(world, instance)
            and not instance.is_dying
            and _is_old_enough(world, pool_id, instance)
        ):
            orphans.append(instance.name)
    if orphans:
        yield DeleteInstances(pool=pool_id, nodes=tuple(orphans), why="no node belongs to them")
        yield Event(event="VM_DELETION", nodes=tuple(orphans), text="orphans", why="no node")
    yield from _retired(world, pool_id, retired)


def _is_registered(world: World, instance: Instance) -> bool:
    """Slurm runs on this very VM, wherever it is listed."""
    node = world.nodes.get(instance.name)
    return node is not None and node.instance_id is not None and node.instance_id == instance.id


def _is_a_name_of_ours(world: World, pool_id: str, name: str) -> bool:
    """CLUSTER-POOL-INDEX as we write it; the table can't tell for what has left the file."""
    head = f"{world.cluster.group_name(pool_id)}-"
    index = name.removeprefix(head)
    return name.startswith(head) and re.fullmatch(r"0|[1-9][0-9]{0,5}", index) is not None


def _is_old_enough(world: World, pool_id: str, instance: Instance) -> bool:
    """Grace and two looks: a list may be ahead of Slurm's, or of the file's."""
    seen = world.recall.see(f"orphan/{pool_id}/{instance.name}")
    born = instance.created or seen.first
    return seen.passes >= 2 and world.now - born > world.settings.orphan_grace


def _retired(world: World, pool_id: str, names: list[str]) -> Iterator[Action]:
    """Nodes that Slurm still lists: drained first, sent down when idle, then their VM goes."""
    nodes = [world.nodes[name] for name in names]
    running = [node for node in nodes if node.is_believed_up and not node.is_held]
    drain = tuple(node.name for node in running if not node.is_drained)
    if drain:
        yield NodeDrain(nodes=drain, reason=RETIRED_REASON, why="not in the cluster file any more")
    idle = tuple(
        node.name
        for node in running
        if node.is_drained and not node.is_busy and not node.is_power_down_requested
    )
    if idle:
        yield NodePowerDown(
            nodes=idle, how="asap", reason=RETIRED_REASON, why="idle, and not in the file any more"
        )
    gone = tuple(node.name for node in nodes if node.is_powering_down or node.is_off)
    if gone:
        yield DeleteInstances(pool=pool_id, nodes=gone, why="their node left the cluster file")


def _request(world: World, pool_id: str, request: Request) -> Iterator[Action]:
    known = any(
        world.cluster.locate(name) is not None or name in world.nodes for name in request.nodes
    )
    if not request.is_own or known or not request.nodes:
        return
    seen = world.recall.see(f"orphan-request/{pool_id}/{request.name}")
    born: datetime = request.created or seen.first
    if seen.passes < 2 or world.now - born <= world.settings.orphan_grace:
        return
    if request.is_live:
        yield from cancel(world, pool_id, request, "its nodes exist no more")
    elif request.is_terminal:
        yield DeleteRequest(pool=pool_id, name=request.name, why="its nodes exist no more")


def _reservations(world: World) -> Iterator[Action]:
    for reservation in world.own_reservations:
        if any(
            name in world.nodes or world.cluster.locate(name) is not None
            for name in reservation.nodes
        ):
            continue
        seen = world.recall.see(f"orphan-reservation//{reservation.name}")
        if seen.passes >= 2 and world.now - seen.first > world.settings.orphan_grace:
            yield Unreserve(name=reservation.name, why="its nodes exist no more")
