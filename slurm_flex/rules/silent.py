"""A node that Slurm counts on is out for longer than a boot takes, and its VM isn't gone.

Either the VM runs and Slurm itself says that the node doesn't answer; or its host has broken, and
Compute Engine repairs it: REPAIRING, then RUNNING again if all goes well (facts:
compute-engine.md). What was to be back by now is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from slurm_flex.actions import (
    Action,
    DeleteInstances,
    Event,
    NodeDown,
    NodePowerDown,
    SaveConsole,
)
from slurm_flex.cluster.model import Pool
from slurm_flex.failures import Failure
from slurm_flex.member import Member, Phase
from slurm_flex.rules.release import say_goodbye
from slurm_flex.rules.telling import tell_the_cut
from slurm_flex.world import World

NOT_RESPONDING = "Not responding"
REASON = "slurm-flex: silent: its slurmd does not answer"
REPAIR = "slurm-flex: repair: its VM does not come back from it"


@dataclass(frozen=True)
class _Cause:
    """is_launch: whether it says something about the pool's image; a broken host doesn't."""

    reason: str
    happens: str
    why: str
    is_launch: bool


_SILENCE: Final = _Cause(REASON, "does not answer", "its slurmd does not answer", is_launch=True)
_BROKEN_HOST: Final = _Cause(
    REPAIR, "lost its host", "Compute Engine does not get it repaired", is_launch=False
)


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        up = [member for member in world.undecided(Phase.UP) if member.pool.id == pool.id]
        repaired = [member for member in up if _is_long_in_repair(world, member)]
        silent = [member for member in up if _is_silent(world, member)]
        for cause, members in ((_BROKEN_HOST, repaired), (_SILENCE, silent)):
            if members:
                yield from _replace(world, pool, members, cause)


def _replace(world: World, pool: Pool, members: list[Member], cause: _Cause) -> Iterator[Action]:
    names = tuple(member.name for member in members)
    for member in members:
        incarnation = member.instance.id if member.instance else None
        if cause.is_launch:
            key = f"silent/{member.name}/{incarnation}"
            world.recall.count_launch(pool.id, key, Failure.BOOT.value)
        what = f"node {member.name} {cause.happens}"
        yield from say_goodbye(world, member.jobs, what)
        yield from tell_the_cut(world, member.jobs, what, "restarts after Slurm's two minutes")
    yield SaveConsole(pool=pool.id, nodes=names, why=cause.why)
    yield NodeDown(nodes=names, reason=cause.reason, why=cause.why)
    yield NodePowerDown(nodes=names, how="plain", reason=cause.reason, why="it is replaced")
    yield DeleteInstances(pool=pool.id, nodes=names, why=cause.why)
    yield Event(event="VM_REPORT_AND_REPLACEMENT", nodes=names, text=cause.why, why=cause.why)
    world.settle(members)
    world.cut_jobs_on(members)


def _is_long_in_repair(world: World, member: Member) -> bool:
    if member.instance is None or not member.instance.is_in_repair:
        return False
    seen = world.recall.see(f"repair/{member.pool.id}/{member.name}/{member.instance.id}")
    return world.now - seen.first > world.settings.boot_timeout


def _is_silent(world: World, member: Member) -> bool:
    node, instance = member.node, member.instance
    if node is None or instance is None or node.is_rebooting:
        return False
    if instance.is_in_repair:
        _set_aside(world, member)  # it has the time of a boot from when it runs again
        return False
    says_so = (
        node.is_not_responding
        or node.is_registration_invalid
        or (node.is_down and (node.reason or "").startswith(NOT_RESPONDING))
    )
    said_at = _said_at(world, member, answers=not says_so)
    if not says_so:
        return False
    seen = world.recall.see(f"silent/{member.pool.id}/{member.name}").first
    since = said_at or seen
    started = max((t for t in (since, node.boot_time) if t is not None), default=since)
    return world.now - started > world.settings.boot_timeout


def _said_at(world: World, member: Member, *, answers: bool) -> datetime | None:
    """When Slurm wrote that reason, if the node is out by it now and it is about this VM.

    An old reason stays on a node that is up again (R), and may still be there, with its old time,
    when the node is out the next time.
    """
    node, instance = member.node, member.instance
    if node is None or instance is None or node.reason_time is None or not node.has_slurm_reason:
        return None
    if answers or _old_reason(member, node.reason_time) in world.recall.last.sightings:
        _set_aside(world, member)
        return None
    by_silence = node.is_down and (node.reason or "").startswith(NOT_RESPONDING)
    if not by_silence and not node.is_registration_invalid:
        return None
    if instance.created is not None and node.reason_time < instance.created:
        return None
    return node.reason_time


def _set_aside(world: World, member: Member) -> None:
    """What Slurm says now tells nothing of a silence that comes."""
    if member.node is not None and member.node.reason_time is not None:
        world.recall.see(_old_reason(member, member.node.reason_time))


def _old_reason(member: Member, since: datetime) -> str:
    return f"old-reason/{member.pool.id}/{member.name}/{since:%Y%m%dT%H%M%S}"
