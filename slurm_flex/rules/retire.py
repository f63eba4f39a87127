"""What Slurm has powered down gives its VM back; a queued request that nobody wants is cancelled.

A place is kept for a job that Slurm sent back and will place again in a moment, and for a static
node: its request and its arriving VMs are left.
"""

from __future__ import annotations

from collections.abc import Iterator

from slurm_flex.actions import Action, DeleteInstances, Event
from slurm_flex.member import Member
from slurm_flex.rules.launch import NODES_A_REQUEST
from slurm_flex.rules.stopped import is_stopped
from slurm_flex.world import World


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        leaving = [m for m in world.members_of(pool) if _is_to_go(world, m)]
        names = [member.name for member in leaving]
        for start in range(0, len(names), NODES_A_REQUEST):
            chunk = tuple(names[start : start + NODES_A_REQUEST])
            yield DeleteInstances(pool=pool.id, nodes=chunk, why="Slurm powered them down")
        new = tuple(m.name for m in leaving if _is_new_deletion(world, m))
        if new:
            yield Event(event="VM_DELETION", nodes=new, text="powered down", why="given back")


def _is_to_go(world: World, member: Member) -> bool:
    instance, node = member.instance, member.node
    if instance is None or node is None or node.is_unknowable or world.is_settled(member):
        return False
    if instance.is_dying:
        return False
    if node.is_powering_down:
        return True
    if not node.is_powered_down or node.is_powering_up or node.is_allocated:
        return False
    if instance.is_dead:
        return True
    if _has_kept_place(world, member):
        return False
    return instance.created is None or world.now - instance.created > world.settings.delete_grace


def _has_kept_place(world: World, member: Member) -> bool:
    """Its VM came for a job that is about to be placed again, or for a static node."""
    if world.is_static_and_free(member) and not is_stopped(world, member):
        return True
    return any(world.keeps_place(request) for request in world.requests_for(member))


def _is_new_deletion(world: World, member: Member) -> bool:
    instance_id = member.instance.id if member.instance else None
    return world.recall.once(f"deleted/{member.name}/{instance_id}")
