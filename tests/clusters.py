"""Clusters, pools and Slurm's configuration for the builders of worlds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from slurm_flex.cluster import Cluster, PartitionSpec, Pool, Provisioning
from slurm_flex.model import SlurmConfig
from tests.notation import Span, span


def pool(
    name: str,
    *,
    static: int = 0,
    size: int = 8,
    duration: Span = "7d",
    model: str = "FLEX_START",
    zone: str = "us-central1-a",
) -> Pool:
    return Pool(
        id=name,
        zone=zone,
        provisioning_model=Provisioning(model),
        machine_type="a3-ultragpu-8g",
        accelerator_type="NVIDIA_H200_141GB",
        accelerator_count=8,
        min_node_count=static,
        max_node_count=size,
        run_duration=span(duration),
    )


def make_cluster(*pools: Pool, partitions: Mapping[str, str] | None = None) -> Cluster:
    """A cluster c1; one partition a pool unless `partitions` says "gx": "gx,gy"."""
    parts = partitions or {each.id: each.id for each in pools}
    return Cluster(
        id="c1",
        project="p1",
        region="us-central1",
        pools=pools,
        partitions=tuple(
            PartitionSpec(name, tuple(members.split(","))) for name, members in parts.items()
        ),
        default_partition=next(iter(parts)),
        display_name="c1",
    )


def slurm_config(cluster: Cluster, **more: Any) -> SlurmConfig:
    """What `render` writes: static nodes are excluded from Slurm's own power saving."""
    static = [
        cluster.node_name(each, index)
        for each in cluster.compute_pools
        for index in range(each.min_node_count)
    ]
    usual: dict[str, Any] = {
        "suspend_exc_nodes": ",".join(static) or "(null)",
        "suspend_exc_parts": "(null)",
        "suspend_exc_states": "DRAIN",
        "suspend_time": timedelta(minutes=5),
        "suspend_timeout": timedelta(seconds=60),
        "resume_timeout": timedelta(hours=6),
        "slurmctld_parameters": "cloud_dns,idle_on_node_suspend",
    }
    return SlurmConfig(**{**usual, **more})
