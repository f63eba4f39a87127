"""The world as frozen values. Nothing here decides anything; times are aware UTC."""

from slurm_flex.model.cloud import CLUSTER_LABEL, CloudError, Group, Instance, Request
from slurm_flex.model.memory import Memory
from slurm_flex.model.node import OWN_REASON, RELEASE_REASON, RETIRED_REASON, Node, parse_state
from slurm_flex.model.slurm import (
    DRAIN_RESERVATION,
    HOLD_RESERVATION,
    OWN_COMMENT,
    OWN_RESERVATION,
    Job,
    Partition,
    Reservation,
    Slurm,
    SlurmConfig,
)
from slurm_flex.model.snapshot import Snapshot

__all__ = [
    "CLUSTER_LABEL",
    "DRAIN_RESERVATION",
    "HOLD_RESERVATION",
    "OWN_COMMENT",
    "OWN_REASON",
    "OWN_RESERVATION",
    "RELEASE_REASON",
    "RETIRED_REASON",
    "CloudError",
    "Group",
    "Instance",
    "Job",
    "Memory",
    "Node",
    "Partition",
    "Request",
    "Reservation",
    "Slurm",
    "SlurmConfig",
    "Snapshot",
    "parse_state",
]
