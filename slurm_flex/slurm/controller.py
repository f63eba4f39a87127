"""The controller: one Protocol for whatever way there is to talk to slurmctld."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeAlias

from slurm_flex.model import Slurm
from slurm_flex.slurm.errors import SlurmError


@dataclass(frozen=True)
class Failure:
    """One thing that a change didn't reach: a node's or reservation's name, or a job's id."""

    target: str
    error: SlurmError


Failures: TypeAlias = tuple[Failure, ...]
"""Empty: everything is as asked, whether or not it had been so before."""


class SlurmController(Protocol):
    """What slurm-flex asks of slurmctld. Every change may be repeated: "already so", "already
    gone" and "already there" are successes. Changes raise nothing; what failed is returned, and
    one bad target never stops the others. Texts are made one line of at most 200 characters."""

    @property
    def notices(self) -> tuple[SlurmError, ...]:
        """What the last :meth:`read` found wrong with Slurm's setup though it could go on."""

    def read(self) -> Slurm:
        """Everything a pass looks at, nodes before jobs. Raises SlurmError; nothing partial."""

    def node_down(self, nodes: Iterable[str], reason: str) -> Failures: ...

    def node_drain(self, nodes: Iterable[str], reason: str) -> Failures:
        """Nothing happens to a node that powers up for a job (see draining.py)."""

    def node_undrain(self, nodes: Iterable[str]) -> Failures: ...

    def node_resume(self, nodes: Iterable[str]) -> Failures: ...

    def node_idle(self, nodes: Iterable[str]) -> Failures:
        """Nothing happens to a node that isn't off and idle."""

    def node_power_up(self, nodes: Iterable[str]) -> Failures:
        """On a node that is powering up this starts its ResumeTimeout anew."""

    def node_power_down(
        self, nodes: Iterable[str], how: Literal["plain", "asap", "force"], reason: str
    ) -> Failures:
        """force requeues what runs there; asap drains first; plain lets new jobs start."""

    def node_comment(self, nodes: Iterable[str], text: str) -> Failures: ...

    def suspend_exclude(self, nodes: Iterable[str]) -> Failures:
        """Add to SuspendExcNodes of the running controller; NotSupported before 23.02."""

    def job_comment(self, jobs: Iterable[int], text: str) -> Failures:
        """AdminComment. The id of an array is all of its tasks, running ones too."""

    def job_start(self, jobs: Iterable[int], after: timedelta = ...) -> Failures:
        """StartTime of pending jobs, counted from the moment of the call."""

    def job_requeue(self, jobs: Iterable[int]) -> Failures: ...

    def job_hold(self, jobs: Iterable[int]) -> Failures: ...

    def job_release(self, jobs: Iterable[int]) -> Failures: ...

    def job_signal(self, jobs: Iterable[int], signal: str) -> Failures:
        """To the batch step alone: USR1, SIGUSR1 or 10."""

    def job_notify(self, jobs: Iterable[int], text: str) -> Failures:
        """A line on the job's stderr; a job that isn't running has none, which is no failure."""

    def reserve(
        self, name: str, nodes: Iterable[str], start: datetime, end: datetime, now: datetime
    ) -> Failures:
        """Make the reservation, or give an existing one these nodes and times.

        Flags maint and ignore_jobs. The times are sent as distances from `now`, which must be
        the moment of the call: slurmctld reads absolute ones in a zone of its own.
        """

    def unreserve(self, names: Iterable[str]) -> Failures: ...
