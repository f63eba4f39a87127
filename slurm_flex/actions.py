"""What can be done about the world: one small frozen value each, with its reason.

An action may be repeated: already exists, already gone and already so are successes. `STAGE` is its
place in the order in which actions are applied (DESIGN.md): what stops something comes before what
lets something go, and that before what starts something. Deletions come before requests, so that
no name is asked for while it is in use; unreserve after power_down, or a job slips onto the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import ClassVar, Literal, TypeAlias


class Stage(IntEnum):
    """The order of application."""

    CANCEL = 0
    TELL = 1
    SAVE = 2
    REPORT = 3
    DOWN = 4
    POWER_DOWN = 5
    UNRESERVE = 6
    DELETE = 7
    RESUME = 8
    START = 9
    POWER_UP = 10
    REQUEST = 11
    RESERVE = 12
    COMMENT = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Base of all actions. `why` is one line for the operator."""

    KIND: ClassVar[str] = ""
    STAGE: ClassVar[Stage] = Stage.COMMENT

    why: str

    @property
    def stage(self) -> Stage:
        return self.STAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAction(Action):
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAction(Action):
    pool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAction(Action):
    job: int


# --- Compute Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateGroup(PoolAction):
    KIND = "create_group"
    STAGE = Stage.REQUEST


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeRequest(PoolAction):
    """One resize request for exactly these nodes: all of them or none."""

    KIND = "request"
    STAGE = Stage.REQUEST
    name: str
    nodes: tuple[str, ...]
    job: int | None
    run_duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateInstances(PoolAction):
    """ON_DEMAND, SPOT and RESERVATION pools: named instances, each on its own."""

    KIND = "create_instances"
    STAGE = Stage.REQUEST
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest(PoolAction):
    KIND = "cancel_request"
    STAGE = Stage.CANCEL
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRequest(PoolAction):
    """Remove the record of a request that is over; no VM is touched."""

    KIND = "delete_request"
    STAGE = Stage.DELETE
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveConsole(PoolAction):
    KIND = "save_console"
    STAGE = Stage.SAVE
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportHost(PoolAction):
    KIND = "report_host"
    STAGE = Stage.REPORT
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteInstances(PoolAction):
    KIND = "delete_instances"
    STAGE = Stage.DELETE
    nodes: tuple[str, ...]


# --- Slurm: nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDown(NodeAction):
    KIND = "node_down"
    STAGE = Stage.DOWN
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePowerDown(NodeAction):
    KIND = "node_power_down"
    STAGE = Stage.POWER_DOWN
    how: Literal["asap", "force", "plain"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrain(NodeAction):
    KIND = "node_drain"
    STAGE = Stage.DOWN
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUndrain(NodeAction):
    KIND = "node_undrain"
    STAGE = Stage.RESUME


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResume(NodeAction):
    KIND = "node_resume"
    STAGE = Stage.RESUME


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdle(NodeAction):
    """Of nodes that are off and idle: backfill counts on them again (rules/stuck.py)."""

    KIND = "node_idle"
    STAGE = Stage.RESUME


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePowerUp(NodeAction):
    KIND = "node_power_up"
    STAGE = Stage.POWER_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendExclude(NodeAction):
    """Add nodes to SuspendExcNodes of the running controller (23.02 and later)."""

    KIND = "suspend_exclude"
    STAGE = Stage.POWER_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeComment(NodeAction):
    KIND = "node_comment"
    STAGE = Stage.COMMENT
    text: str


# --- Slurm: jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class JobComment(JobAction):
    """`last_words`: the job's node goes down in this pass, and a finished job takes no comment."""

    KIND = "job_comment"
    text: str
    last_words: bool = False

    @property
    def stage(self) -> Stage:
        return Stage.TELL if self.last_words else Stage.COMMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStart(JobAction):
    """StartTime of a pending job. `after` zero is now, else now+N seconds: never an absolute time,
    which would be read in the controller's own zone."""

    KIND = "job_start"
    STAGE = Stage.START
    after: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequeue(JobAction):
    KIND = "job_requeue"
    STAGE = Stage.TELL


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHold(JobAction):
    KIND = "job_hold"
    STAGE = Stage.TELL


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRelease(JobAction):
    KIND = "job_release"
    STAGE = Stage.START


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSignal(JobAction):
    KIND = "job_signal"
    STAGE = Stage.TELL
    signal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNotify(JobAction):
    KIND = "job_notify"
    STAGE = Stage.TELL
    text: str


# --- Slurm: reservations


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve(NodeAction):
    """A reservation with flags maint and ignore_jobs; an existing name is updated."""

    KIND = "reserve"
    STAGE = Stage.RESERVE
    name: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreserve(Action):
    KIND = "unreserve"
    STAGE = Stage.UNRESERVE
    name: str


# --- the journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Action):
    """A line in the event journal; `event` is its kind, one of Google's nine or ours."""

    KIND = "event"
    STAGE = Stage.COMMENT
    event: str
    text: str
    nodes: tuple[str, ...] = ()
    job: int | None = None
    pool: str | None = None


AnyAction: TypeAlias = Action
