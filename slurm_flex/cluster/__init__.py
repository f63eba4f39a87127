"""cluster_config.json and slurm-flex.toml: schema, validation, names.

The settings are in :mod:`slurm_flex.cluster.settings` (they need pydantic; this doesn't).
"""

from slurm_flex.cluster.config import load_cluster, parse_cluster
from slurm_flex.cluster.model import (
    BootDisk,
    Cluster,
    NodeSet,
    PartitionSpec,
    Place,
    Pool,
    Provisioning,
    ReservationAffinity,
    SlurmSpec,
)

__all__ = [
    "BootDisk",
    "Cluster",
    "NodeSet",
    "PartitionSpec",
    "Place",
    "Pool",
    "Provisioning",
    "ReservationAffinity",
    "SlurmSpec",
    "load_cluster",
    "parse_cluster",
]
