"""Drain nodes without catching a job that Slurm has placed there a moment before.

Draining a node that powers up requeues the job that waits for it: BeginTime, 120 s, Restarts+1
(R 24.11.5, 26.05; not 22.05.8). Between our look at slurmctld and our word to it there is always
room for a job. So the nodes are reserved for a moment, under which nothing can be placed; then
looked at again, and those that nobody has got are drained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from slurm_flex.hostlist import fold
from slurm_flex.model import DRAIN_RESERVATION, Node
from slurm_flex.slurm.changes import in_halves
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.controller import Failures
from slurm_flex.slurm.records import parse_nodes
from slurm_flex.slurm.reservations import reserve, unreserve

_LAPSES_AFTER: Final = timedelta(minutes=2)
"""Should we end before it is deleted; four commands take much less."""


def drain_nodes(commands: SlurmCommands, nodes: Iterable[str], reason: str) -> Failures:
    """``reason`` as scontrol takes it. A node that powers up for a job is left as it is."""

    def drain(names: Sequence[str]) -> None:
        guard = f"{DRAIN_RESERVATION}{names[0]}"
        reserve(commands, guard, fold(names), timedelta(0), _LAPSES_AFTER)
        try:
            text = commands.check("scontrol", "--all", "-o", "show", "node", fold(names))
            free = [node.name for node in parse_nodes(text) if not _powers_up_for_a_job(node)]
            if free:
                target = f"nodename={fold(free)}"
                commands.check("scontrol", "update", target, "state=drain", reason)
        finally:
            unreserve(commands, guard)

    return in_halves(nodes, drain)


def _powers_up_for_a_job(node: Node) -> bool:
    return node.is_powering_up and node.is_allocated
