"""cluster_config.json and slurm-flex.toml: schema, validation, names."""

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
from slurm_flex.cluster.settings import (
    Settings,
    find_settings_file,
    load_settings,
    parse_settings,
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
    "Settings",
    "SlurmSpec",
    "find_settings_file",
    "load_cluster",
    "load_settings",
    "parse_cluster",
    "parse_settings",
]
