"""What neither Slurm nor Compute Engine can tell: when things were first seen, what was tried.

Losing it costs grace periods, counts and perhaps a second warning, never a VM or a job. It is
opaque to everything but the rules: the daemon stores it, a snapshot carries it, `plan` returns the
next one. Keys are strings, so that it is JSON as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Sighting:
    """A condition that holds without a break since `first`, seen in `passes` passes."""

    first: datetime
    passes: int


@dataclass(frozen=True, slots=True)
class KnownInstance:
    """The instance last seen behind a node, so that its end is known when it has vanished."""

    id: str | None
    created: datetime | None
    ends: datetime | None
    request: str | None = None
    maintenance: datetime | None = None
    """`ends`, where it is the begin of its host's maintenance"""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A resize request (or createInstances: no name) that was sent and isn't over yet."""

    pool: str
    name: str | None
    nodes: tuple[str, ...]
    run_duration: timedelta
    at: datetime
    job: int | None = None
    listed: bool = False
    """a list has shown it: it is believed for two passes more should a stale list hide it"""
    accepted: bool = False
    """a list has shown it in the queue"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a call that failed, as apply found out: for the next plan to judge.

    `request` is its name, or None for createInstances and other calls on `nodes`.
    """

    pool: str
    request: str | None
    nodes: tuple[str, ...]
    code: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Launch:
    """How one launch ended: `outcome` is "good" or a class of failure; a `key` counts once."""

    key: str
    outcome: str
    at: datetime


@dataclass(frozen=True, slots=True)
class BackOff:
    """The wait that followed the last of `steps` failures of one class in a row."""

    steps: int
    until: datetime
    why: str


@dataclass(frozen=True, slots=True)
class Breaker:
    """An open breaker: nothing is asked for before `retry_at`, then one probe (`probe`)."""

    failure: str
    why: str
    since: datetime
    retry_at: datetime
    delay: timedelta
    probe: str | None = None


@dataclass(frozen=True, slots=True)
class Restart:
    """A job whose nodes expired under it: restarted once nothing of its old VMs is left."""

    nodes: tuple[str, ...]
    instances: Mapping[str, str | None]
    at: datetime


@dataclass(frozen=True, slots=True)
class Delay:
    """A job's back-off: not before `until`."""

    until: datetime
    why: str


@dataclass(frozen=True, slots=True)
class PowerUp:
    """The last power_up that keeps a static node up, and how long until the next one."""

    at: datetime
    delay: timedelta


@dataclass(frozen=True)
class Memory:
    sightings: Mapping[str, Sighting] = field(default_factory=dict)
    instances: Mapping[str, KnownInstance] = field(default_factory=dict)
    """node -> the instance last seen"""
    sent: Mapping[str, SentRequest] = field(default_factory=dict)
    """pool/name or pool/node -> what was sent"""
    answers: tuple[Answer, ...] = ()
    attempts: Mapping[str, int] = field(default_factory=dict)
    """pool/stem -> highest attempt number used"""
    asked: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    """node -> launches within the last hour"""
    launches: Mapping[str, tuple[Launch, ...]] = field(default_factory=dict)
    """pool -> the last four, oldest first"""
    counted: Mapping[str, datetime] = field(default_factory=dict)
    """launch key -> when it was counted, so that a failure counts once"""
    back_offs: Mapping[str, BackOff] = field(default_factory=dict)
    """pool/class, or job/class -> the wait"""
    breakers: Mapping[str, Breaker] = field(default_factory=dict)
    restarts: Mapping[str, Restart] = field(default_factory=dict)
    """job -> its restart after an expiry"""
    expiries: Mapping[str, int] = field(default_factory=dict)
    """job -> how often its nodes expired under it"""
    health_restarts: Mapping[str, int] = field(default_factory=dict)
    """job -> how often a failed check took its node"""
    delays: Mapping[str, Delay] = field(default_factory=dict)
    """job -> its back-off"""
    node_waits: Mapping[str, datetime] = field(default_factory=dict)
    """node -> until when it stays down after a launch of it failed"""
    armed: Mapping[str, datetime] = field(default_factory=dict)
    """node -> when its ResumeTimeout was last started"""
    power_ups: Mapping[str, PowerUp] = field(default_factory=dict)
    """static node -> the last power_up of ours"""
    occupants: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """node -> the jobs that were on it in the last pass"""
    told: Mapping[str, datetime] = field(default_factory=dict)
    """what is said or done once (warnings, events) -> when"""
    check_failures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """pool/check -> "time node" of each failure within the window"""
    held_back: Mapping[str, datetime] = field(default_factory=dict)
    """pool -> until when its nodes are held back from the scheduler"""
