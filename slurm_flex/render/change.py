"""What a changed cluster file means for Slurm as it runs here: for `render`, `apply` and `init`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurm_flex.cluster.model import Cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.render.installed import Installed
from slurm_flex.render.resize import (
    Leaving,
    leaving_in,
    nodes_gone,
    rendered_before,
    what_follows,
)


@dataclass(frozen=True)
class Change:
    """From the rendered files that are there to the cluster file as it is.

    is_first: nothing was rendered yet. follows: one line each. leaving: the nodes that must stay
    in slurm.conf for now, if any. notes: what was taken for granted.
    """

    is_first: bool
    follows: tuple[str, ...] = ()
    leaving: Leaving | None = None
    notes: tuple[str, ...] = ()


def change_here(cluster: Cluster, settings: Settings, here: Installed, folder: Path) -> Change:
    """Compare with what an earlier render left in a folder; slurmctld is asked what runs only if
    nodes are to go."""
    previous = rendered_before(folder)
    if not previous:
        return Change(is_first=True)
    running = here.running() if nodes_gone(previous, cluster) else frozenset()
    notes = []
    if running is None:
        notes.append(
            "slurmctld doesn't answer, so nobody knows which nodes run: those that the cluster "
            "file no longer has all stay in slurm.conf"
        )
    return Change(
        is_first=False,
        follows=tuple(what_follows(previous, cluster, settings, running)),
        leaving=leaving_in(folder, cluster, running),
        notes=tuple(notes),
    )
