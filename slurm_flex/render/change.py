"""What a changed cluster file means for Slurm as it runs here: for `render`, `apply` and `init`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_flex.cluster.model import Cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.slurm_keys import Release
from slurm_flex.render.installed import Installed
from slurm_flex.render.resize import (
    Leaving,
    leaving_in,
    nodes_gone,
    nodes_of,
    rendered_before,
    what_follows,
)


@dataclass(frozen=True)
class Change:
    """From the rendered files that are there to the cluster file as it is.

    is_first: nothing was rendered yet. nodes_change: Slurm gets nodes, or loses some. follows: one
    line each. leaving: the nodes that must stay in slurm.conf for now, if any. notes: what was
    taken for granted.
    """

    is_first: bool
    nodes_change: bool
    follows: tuple[str, ...] = ()
    leaving: Leaving | None = None
    notes: tuple[str, ...] = ()


def how_to_take_in(release: Release, *, nodes_change: bool) -> str:
    """What makes slurmctld read its files again.

    A slurmctld before 23.11 ends at a reconfigure that brings other nodes (R 22.05.8: "Zero bytes
    were transmitted", and it is gone); jobs and nodes survive its restart. Later ones start anew
    by themselves.
    """
    if nodes_change and release < Release(23, 11):
        return "systemctl restart slurmctld (not reconfigure: with other nodes it would end)"
    return "scontrol reconfigure"


def change_here(cluster: Cluster, settings: Settings, here: Installed, folder: Path) -> Change:
    """Compare with what an earlier render left in a folder; slurmctld is asked what runs only if
    nodes are to go."""
    previous = rendered_before(folder)
    notes = list(_no_programs(settings))
    if not previous:
        return Change(is_first=True, nodes_change=True, notes=tuple(notes))
    running = here.running() if nodes_gone(previous, cluster) else frozenset()
    if running is None:
        notes.append(
            "slurmctld doesn't answer, so nobody knows which nodes run: those that the cluster "
            "file no longer has all stay in slurm.conf"
        )
    leaving = leaving_in(folder, cluster, running)
    now = {name for pool in cluster.compute_pools for name in cluster.node_names(pool)}
    return Change(
        is_first=False,
        nodes_change=now.union(leaving.nodes) != set(nodes_of(previous)),
        follows=tuple(what_follows(previous, cluster, settings, running)),
        leaving=leaving,
        notes=tuple(notes),
    )


def _no_programs(settings: Settings) -> Iterator[str]:
    program = Path(settings.install_dir, "scripts", "resume.py")
    if not program.is_file():
        yield f"there is no {program} on this host: set install_dir in slurm-flex.toml"
