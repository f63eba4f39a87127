"""The mutable parts of the simulated world: Slurm's nodes and jobs, Compute Engine's VMs.

Times are seconds on the simulation's own clock; `when` makes them datetimes at the border.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from tests.notation import NOON

Power = Literal["off", "powering_up", "up", "powering_down"]
Lost = Literal["expired", "failure", "resume_timeout", "released", ""]


def when(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def seconds(moment: datetime) -> float:
    return (moment - NOON).total_seconds()


class Journal:
    """What happened, so that a failing run can be read; and a counter that says that it did."""

    def __init__(self) -> None:
        self.now = 0.0
        self.changes = 0
        self.lines: deque[str] = deque(maxlen=250)

    def note(self, text: str) -> None:
        self.changes += 1
        self.lines.append(f"{self.now / 3600:8.3f} h  {text}")

    def tail(self, count: int = 60) -> str:
        return "\n".join(list(self.lines)[-count:])


@dataclass
class SimNode:
    name: str
    pool: str
    static: bool
    power: Power = "off"
    since: float = 0.0
    """when the power state began; for powering_up also when it was last re-armed"""
    down: bool = False
    drain: bool = False
    power_down: str = ""
    """"plain" or "asap": asked for, and not begun"""
    not_responding: bool = False
    invalid: bool = False
    hidden: bool = False
    """went off by down or force, and hasn't registered since: backfill doesn't count on it (R)"""
    reason: str | None = None
    reason_time: float = 0.0
    reason_user: str | None = None
    comment: str | None = None
    jobs: set[int] = field(default_factory=set)
    used: float = 0.0
    completing_until: float = -1.0
    last_busy: float = 0.0
    vm_id: str | None = None
    """the VM whose slurmd registered"""
    boot_time: float = 0.0
    silent_since: float | None = None
    missing: bool = False
    """gone from the node list (some releases lose powered-down CLOUD nodes)"""

    @property
    def off(self) -> bool:
        return self.power == "off" and not self.jobs

    @property
    def asked_for(self) -> bool:
        """Slurm wants a VM here now."""
        return self.power == "powering_up" or (self.power == "off" and bool(self.jobs))

    @property
    def wanted(self) -> bool:
        return self.power in ("up", "powering_up") or bool(self.jobs)

    def is_held(self) -> bool:
        """Drained or downed by somebody who is neither slurm-flex nor Slurm."""
        reason = self.reason or ""
        mine = reason.startswith(("slurm-flex:", "Not responding", "ResumeTimeout"))
        if not self.drain and reason.endswith("ResumeTimeout reached"):
            mine = True  # Slurm's words after an old reason: DOWN is Slurm's
        return (self.down or self.drain) and not mine

    def text(self, maint: bool) -> str:
        """The state as scontrol prints it."""
        words = ["IDLE"]
        if self.down:
            words = ["DOWN"]
        elif self.jobs:
            words = ["ALLOCATED" if self.used >= 1.0 else "MIXED"]
        words.append("CLOUD")
        flags = {
            "COMPLETING": self.completing_until >= 0,
            "DRAIN": self.drain,
            "POWERED_DOWN": self.power == "off",
            "POWERING_UP": self.power == "powering_up",
            "POWERING_DOWN": self.power == "powering_down",
            "POWER_DOWN": bool(self.power_down),
            "NOT_RESPONDING": self.not_responding,
            "INVALID_REG": self.invalid,
            "MAINT": maint,
        }
        return "+".join(words + [word for word, is_set in flags.items() if is_set])


@dataclass
class SimJob:
    id: int
    size: int = 1
    runtime: float = 600.0
    limit: float | None = 3600.0
    priority: int = 1000
    partition: str = "gx"
    batch: bool = True
    requeue: bool = True
    share: float = 1.0
    """how much of a node it takes; 1.0 is the whole of it"""
    needs: tuple[str, ...] = ()
    het: int | None = None
    never: str = ""
    """why Slurm never places it, as squeue says it"""
    traps: frozenset[str] = frozenset()
    comment: str | None = None
    submitted: float = 0.0
    state: str = "PENDING"
    reason: str = "None"
    nodes: tuple[str, ...] = ()
    begin: float | None = None
    user_begin: float | None = None
    held: bool = False
    placed: float | None = None
    ready: float | None = None
    started: float | None = None
    restarts: int = 0
    admin_comment: str | None = None
    lost: Lost = ""
    """what ended its last run, or its last wait for nodes"""
    lost_nodes: tuple[str, ...] = ()
    lost_vms: tuple[str, ...] = ()
    history: list[tuple[float, str]] = field(default_factory=list)
    told: list[tuple[float, str]] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        return self.state in ("PENDING", "CONFIGURING")

    @property
    def over(self) -> bool:
        return self.state in ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED")


@dataclass
class SimReservation:
    name: str
    nodes: tuple[str, ...]
    start: float
    end: float
    flags: tuple[str, ...] = ("MAINT", "IGNORE_JOBS", "SPEC_NODES")

    def bars(self, begin: float, finish: float) -> bool:
        return self.start < finish and begin < self.end


@dataclass
class SimVm:
    name: str
    id: str
    pool: str
    created: float
    duration: float | None
    request: str | None = None
    status: str = "PROVISIONING"
    action: str = "CREATING"
    own: bool = True
    running_at: float = 0.0
    slurmd_at: float | None = None
    """when its slurmd answers; None: never"""
    ends: float | None = None
    maintenance: float | None = None
    """when its host's maintenance begins, which ends it"""
    gone_at: float | None = None
    died_at: float | None = None
    back_at: float | None = None
    """when it runs again, if it is in repair"""

    @property
    def last_moment(self) -> float | None:
        """What comes first of its end and its host's maintenance."""
        known = [at for at in (self.ends, self.maintenance) if at is not None]
        return min(known, default=None)

    @property
    def billed(self) -> bool:
        return self.status in ("PROVISIONING", "STAGING", "RUNNING") and self.action != "DELETING"

    @property
    def dead(self) -> bool:
        return self.status in ("TERMINATED", "STOPPED", "SUSPENDED")

    def answers(self, now: float) -> bool:
        return self.status == "RUNNING" and self.slurmd_at is not None and now >= self.slurmd_at


@dataclass
class SimRequest:
    name: str
    pool: str
    nodes: tuple[str, ...]
    duration: float
    created: float
    own: bool = True
    state: str = "CREATING"
    provisioning: bool = False
    ended: float | None = None
    error: tuple[str, str] | None = None
    last: tuple[str, str] | None = None

    @property
    def live(self) -> bool:
        return self.state in ("CREATING", "ACCEPTED")
