"""The VM runs, and Slurm itself says that the node doesn't answer, for longer than a boot takes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from slurm_flex.actions import (
    Action,
    DeleteInstances,
    Event,
    NodeDown,
    NodePowerDown,
    SaveConsole,
)
from slurm_flex.failures import Failure
from slurm_flex.member import Member, Phase
from slurm_flex.rules.release import say_goodbye
from slurm_flex.rules.telling import tell_the_cut
from slurm_flex.world import World

NOT_RESPONDING = "Not responding"
REASON = "slurm-flex: silent: its slurmd does not answer"


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        silent = [
            member
            for member in world.undecided(Phase.UP)
            if member.pool.id == pool.id and _is_silent(world, member)
        ]
        if not silent:
            continue
        names = tuple(member.name for member in silent)
        for member in silent:
            incarnation = member.instance.id if member.instance else None
            key = f"silent/{member.name}/{incarnation}"
            world.recall.count_launch(pool.id, key, Failure.BOOT.value)
            what = f"node {member.name} does not answer"
            yield from say_goodbye(world, member.jobs, what)
            yield from tell_the_cut(world, member.jobs, what, "restarts after Slurm's two minutes")
        yield SaveConsole(pool=pool.id, nodes=names, why="the VM runs, its slurmd is silent")
        yield NodeDown(nodes=names, reason=REASON, why="it does not answer")
        yield NodePowerDown(nodes=names, how="plain", reason=REASON, why="it is replaced")
        yield DeleteInstances(pool=pool.id, nodes=names, why="its slurmd does not answer")
        yield Event(
            event="VM_REPORT_AND_REPLACEMENT", nodes=names, text="slurmd silent", why="silent"
        )
        world.settle(silent)
        world.cut_jobs_on(silent)


def _is_silent(world: World, member: Member) -> bool:
    node, instance = member.node, member.instance
    if node is None or instance is None or not instance.is_running or node.is_rebooting:
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
    old = f"old-reason/{member.pool.id}/{member.name}/{node.reason_time:%Y%m%dT%H%M%S}"
    if answers or old in world.recall.last.sightings:
        world.recall.see(old)
        return None
    by_silence = node.is_down and (node.reason or "").startswith(NOT_RESPONDING)
    if not by_silence and not node.is_registration_invalid:
        return None
    if instance.created is not None and node.reason_time < instance.created:
        return None
    return node.reason_time
