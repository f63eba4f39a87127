"""What happened that no other rule decides about, for the journal: once, when it is first seen.

The kinds are those of Google's cluster events where there is one (facts: cluster-json.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from slurm_flex.actions import Action, Event
from slurm_flex.cluster.model import Pool
from slurm_flex.durations import humanize
from slurm_flex.health.verdict import kind_of_reason
from slurm_flex.member import Member, Phase
from slurm_flex.text import one_line
from slurm_flex.world import World


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        yield from _requests(world, pool)
        yield from _failed_checks(world, pool)
        for kind, tell in _OF_NODES.items():
            yield from _nodes(world, pool, kind, tell)


def _requests(world: World, pool: Pool) -> Iterator[Action]:
    """A request that we sent is created once a list shows it: a refused one never was."""
    listed = {request.name: request for request in world.groups[pool.id].requests}
    for key, sent in sorted(world.recall.last.sent.items()):
        request = listed.get(sent.name) if sent.name is not None and sent.pool == pool.id else None
        if request is None:
            continue
        count = f"{len(sent.nodes)} node{'s' if len(sent.nodes) > 1 else ''}"
        happened = []
        if not sent.listed:
            what = f"{count} for {humanize(sent.run_duration)} asked for"
            happened.append(("REQUEST_CREATED", what))
        if request.was_accepted and not sent.accepted:
            happened.append(("REQUEST_ACCEPTED", f"{count} in Compute Engine's queue"))
            if (kept := world.recall.sent.get(key)) is not None:
                world.recall.sent[key] = replace(kept, accepted=True)
        for kind, what in happened:
            yield Event(
                event=kind,
                pool=pool.id,
                nodes=sent.nodes,
                job=sent.job,
                text=f"{request.name}: {what}",
                why="first seen in the list",
            )


def _failed_checks(world: World, pool: Pool) -> Iterator[Action]:
    """What a node's own look found, as its drain tells; once a drain, however it is seen."""
    told: dict[tuple[str, str], list[str]] = {}
    for member in world.members_of(pool):
        node = member.node
        if node is None or not node.is_drained or not node.reason:
            continue
        kind = kind_of_reason(node.reason) or _SLURMS_WORDS.get(node.reason)
        drain = f"{node.reason_time:%Y%m%dT%H%M%S}" if node.reason_time else node.reason
        if kind and world.recall.once(f"{kind}/{pool.id}/{member.name}/{drain}"):
            told.setdefault((kind, one_line(node.reason)), []).append(member.name)
    for (kind, text), names in sorted(told.items()):
        yield Event(event=kind, pool=pool.id, nodes=tuple(names), text=text, why="first seen")


def _nodes(
    world: World, pool: Pool, kind: str, tell: Callable[[Member], str | None]
) -> Iterator[Action]:
    """One event for all nodes of which the same is told."""
    told: dict[str, list[str]] = {}
    for member in world.members_of(pool):
        text = tell(member)
        if text is not None and world.recall.see(f"{kind}/{pool.id}/{member.name}").passes == 1:
            told.setdefault(one_line(text), []).append(member.name)
    for text, names in sorted(told.items()):
        yield Event(event=kind, pool=pool.id, nodes=tuple(names), text=text, why="first seen")


def _drained(member: Member) -> str | None:
    """By a check or by a person; a drain of a moment before a release is no news."""
    node = member.node
    if node is None or not node.is_drained or node.has_release_drain or node.is_powered_down:
        return None
    return node.reason or "no reason given"


def _powered_down(member: Member) -> str | None:
    if member.phase is not Phase.LEAVING or member.instance is None or member.node is None:
        return None
    return member.node.reason or "idle"


def _rebooted(member: Member) -> str | None:
    if member.node is None or not member.node.is_rebooting:
        return None
    return member.node.reason or "a reboot was asked for"


def _timed_out(member: Member) -> str | None:
    node = member.node
    if node is None or not (node.is_down and node.is_powered_down and node.timed_out_resuming):
        return None
    return "it did not register within ResumeTimeout"


# Slurm drains a node by itself whose prolog or epilog failed and didn't (facts: slurm.md).
_SLURMS_WORDS: Final = {"Prolog error": "VM_PROLOG_ERROR", "Epilog error": "VM_EPILOG_ERROR"}
_OF_NODES: Final[dict[str, Callable[[Member], str | None]]] = {
    "VM_SLURM_DRAIN": _drained,
    "VM_SLURM_POWER_DOWN": _powered_down,
    "VM_REBOOT": _rebooted,
    "RESUME_TIMEOUT": _timed_out,
}
