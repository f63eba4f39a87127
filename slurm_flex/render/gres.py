"""gres.conf: where slurmd finds the GPUs that slurm.conf promises."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_flex.cluster.machines import gres_type
from slurm_flex.cluster.model import Cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.hostlist import fold


def gres_lines(cluster: Cluster, settings: Settings) -> Iterator[str]:
    """One line a pool with GPUs; nothing where there is none, or where Slurm isn't told of them.

    A GPU must have a device file: slurmd ignores one without ("file-less GPU"), and slurmctld then
    drains the node for having fewer than its line says (R 22.05, 24.11).
    """
    if settings.gpu_files == "none":
        return
    for pool in cluster.compute_pools:
        count = pool.accelerator_count
        if not count or not pool.max_node_count:
            continue
        nodes = f"NodeName={fold(cluster.node_names(pool))}"
        if settings.gpu_files == "nvml":
            yield f"{nodes} AutoDetect=nvml"
            continue
        files = f" File=/dev/nvidia{'0' if count == 1 else f'[0-{count - 1}]'}"
        kind = gres_type(pool.accelerator_type)
        what = f"Name=gpu{f' Type={kind}' if kind else ''} Count={count}"
        yield f"{nodes} {what}{files}"
