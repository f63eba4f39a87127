"""One moment, everything that a pass decides on but memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from slurm_flex.cluster import Cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.model.cloud import Group
from slurm_flex.model.slurm import Slurm


@dataclass(frozen=True)
class Snapshot:
    """What observe saw at `now` (aware UTC). `cloud` is by pool id; a pool that is missing there
    was not looked at, and nothing is decided for it."""

    now: datetime
    settings: Settings
    cluster: Cluster
    slurm: Slurm
    cloud: Mapping[str, Group] = field(default_factory=dict)
    paused_pools: frozenset[str] = frozenset()
