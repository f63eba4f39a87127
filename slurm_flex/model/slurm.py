"""What slurmctld says at one moment: jobs, partitions, reservations, configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slurm_flex.model.node import Node

OWN_COMMENT: Final = "flex: "
"""Comments of ours start so; a comment that somebody else wrote is left alone."""
OWN_RESERVATION: Final = "slurm-flex-"
HOLD_RESERVATION: Final = f"{OWN_RESERVATION}hold-"
"""Followed by a pool that is not to be asked for now (rules/holdback.py)."""
DRAIN_RESERVATION: Final = f"{OWN_RESERVATION}drain."
"""Stands while nodes are drained, and is deleted at once (slurm/draining.py)."""

_ON_NODES: Final = frozenset(
    "CONFIGURING RUNNING COMPLETING SUSPENDED STOPPED RESIZING SIGNALING STAGE_OUT".split()
)


_FOR_WANT_OF_NODES: Final = (
    "Resources",
    "ReqNodeNotAvail",
    "Reserved for maintenance",
    "ReservedForMaintenance",
    "Nodes required for job are DOWN",
    "Nodes_required_for_job_are_DOWN",
)
"""The reasons under which a job waits for nodes; no fresh node cures any other."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job that is not over. `time_limit` None is unlimited; `nodes` is what it holds now."""

    id: int
    state: str
    reason: str | None = None
    partition: str | None = None
    user: str | None = None
    batch: bool = True
    nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()
    features: str | None = None
    reservation: str | None = None
    num_nodes: int = 1
    time_limit: timedelta | None = None
    submit_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    priority: int = 0
    exclusive: bool = False
    requeue: bool = True
    restarts: int = 0
    array_tasks: str | None = None
    het_job_id: int | None = None
    comment: str | None = None
    extra: str | None = None
    admin_comment: str | None = None

    @property
    def flags(self) -> frozenset[str]:
        return frozenset(re.split(r"[+,\s]+", self.state.upper()))

    @property
    def group(self) -> int:
        """The id its nodes are asked for under: a heterogeneous job's components are one."""
        return self.het_job_id or self.id

    @property
    def is_pending(self) -> bool:
        return "PENDING" in self.flags

    @property
    def is_completing(self) -> bool:
        return "COMPLETING" in self.flags

    @property
    def is_configuring(self) -> bool:
        return "CONFIGURING" in self.flags

    @property
    def is_running(self) -> bool:
        return "RUNNING" in self.flags and not self.is_configuring

    @property
    def holds_nodes(self) -> bool:
        return bool(self.flags & _ON_NODES) and bool(self.nodes)

    @property
    def waits_for_begin_time(self) -> bool:
        return self.is_pending and (self.reason or "") == "BeginTime"

    @property
    def waits_for_nodes(self) -> bool:
        """For want of nodes, or for nothing that Slurm names: not held, dependent, or limited."""
        if not self.is_pending or self.reservation:
            return False
        reason = self.reason or "None"
        return reason in ("None", "Priority") or self.lacks_nodes

    @property
    def lacks_nodes(self) -> bool:
        return self.is_pending and (self.reason or "").startswith(_FOR_WANT_OF_NODES)

    @property
    def was_just_requeued(self) -> bool:
        """Slurm shows no reason for a moment before it shows BeginTime (R 22.05, 24.11)."""
        return self.is_pending and self.reason in (None, "", "None")

    @property
    def is_held(self) -> bool:
        return self.is_pending and (self.reason or "").startswith("JobHeld")

    @property
    def is_requeueable(self) -> bool:
        """srun and salloc jobs, and those with --no-requeue, end when their node goes down."""
        return self.batch and self.requeue


@dataclass(frozen=True, slots=True)
class Partition:
    name: str
    state: str = "UP"
    nodes: tuple[str, ...] = ()
    max_time: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    name: str
    nodes: tuple[str, ...] = ()
    start: datetime | None = None
    end: datetime | None = None
    flags: tuple[str, ...] = ()

    @property
    def is_own(self) -> bool:
        return self.name.startswith(OWN_RESERVATION)

    @property
    def is_for_an_end(self) -> bool:
        """Ours, and it keeps jobs off nodes that are about to end."""
        return self.is_own and not self.name.startswith((HOLD_RESERVATION, DRAIN_RESERVATION))

    @property
    def is_for_a_drain(self) -> bool:
        return self.name.startswith(DRAIN_RESERVATION)

    def is_active(self, now: datetime) -> bool:
        return (self.start is None or self.start <= now) and (self.end is None or now < self.end)


@dataclass(frozen=True, slots=True)
class SlurmConfig:
    """The running configuration, in the words that `scontrol show config` prints."""

    suspend_exc_nodes: str | None = None
    suspend_exc_parts: str | None = None
    suspend_exc_states: str | None = None
    suspend_time: timedelta | None = None
    suspend_timeout: timedelta | None = None
    resume_timeout: timedelta | None = None
    slurmctld_parameters: str | None = None


@dataclass(frozen=True, slots=True)
class Slurm:
    """slurmctld's side of a moment. `primary` False: another controller acts."""

    version: str | None = None
    responding: bool = True
    primary: bool = True
    config: SlurmConfig = SlurmConfig()
    nodes: tuple[Node, ...] = ()
    jobs: tuple[Job, ...] = ()
    partitions: tuple[Partition, ...] = ()
    reservations: tuple[Reservation, ...] = ()
