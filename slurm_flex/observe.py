"""Look at Slurm and at Compute Engine at once, and put down what was seen as one moment.

What isn't there by the deadline is unknown in this pass: a pool whose listing failed is not
complete, a slurmctld that didn't answer is not responding. Nothing is decided on either.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from slurm_flex.cluster.site import Site
from slurm_flex.compute.fleet import Fleet, Operation, Outcome, Survey, Verdict
from slurm_flex.durations import format_duration
from slurm_flex.errors import FlexError
from slurm_flex.model import Group, Slurm, Snapshot
from slurm_flex.pause import paused_pools
from slurm_flex.slurm.controller import SlurmController

T = TypeVar("T")

_SLICE_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Observation:
    """A snapshot, what became of operations, and one line for all that could not be read."""

    snapshot: Snapshot
    outcomes: tuple[Outcome, ...] = ()
    errors: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """What the controller found wrong with Slurm's setup, though it could go on."""


@dataclass
class _Task(Generic[T]):
    """Something read in a thread of its own. A thread that hangs delays neither pass nor exit."""

    work: Callable[[], T]
    result: T | None = None
    error: BaseException | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> _Task[T]:
        threading.Thread(target=self._run, name="observe", daemon=True).start()
        return self

    def _run(self) -> None:
        try:
            self.result = self.work()
        except BaseException as error:  # handed over to the thread that waits
            self.error = error
        self.over.set()

    def wait(self, until: float, deadline: timedelta, told_to_end: Callable[[], bool]) -> T:
        """The result. Raises FlexError, as the work did or because it took too long."""
        while not self.over.wait(_SLICE_SECONDS):
            if told_to_end():
                raise FlexError("not waited for: slurm-flex was told to end")
            if time.monotonic() > until:
                raise FlexError(f"no answer within {format_duration(deadline)}")
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # it is over, and without an error


def observe(
    site: Site,
    controller: SlurmController,
    fleet: Fleet,
    now: datetime,
    operations: Sequence[Operation] = (),
    *,
    told_to_end: Callable[[], bool] = lambda: False,
) -> Observation:
    """One look, no longer than observe_deadline. `now` is its moment, taken before the first call.

    Pauses that can't be read pause every pool: nothing may be asked for then.
    """
    pools = site.cluster.compute_pools
    errors: list[str] = []
    try:
        paused = paused_pools(site.settings_path)
    except FlexError as error:
        paused = frozenset(pool.id for pool in pools)
        errors.append(f"every pool counts as paused: {error}")
    deadline = site.settings.observe_deadline
    until = time.monotonic() + deadline.total_seconds()
    slurm_task = _Task(controller.read).start()
    cloud_task = _Task(lambda: fleet.read(pools)).start()
    poll_task = _Task(lambda: fleet.poll(operations)).start() if operations else None
    try:
        slurm = slurm_task.wait(until, deadline, told_to_end)
    except FlexError as error:
        slurm = Slurm(responding=False)
        errors.append(f"slurmctld: {error}")
    try:
        survey = cloud_task.wait(until, deadline, told_to_end)
    except FlexError as error:
        survey = Survey({pool.id: Group(complete=False) for pool in pools})
        errors.append(f"Compute Engine: {error}")
    notices = tuple(str(notice) for notice in controller.notices) if slurm.responding else ()
    errors += [f"pool {pool}: {error}" for pool, error in sorted(survey.errors.items())]
    outcomes = tuple(Outcome(one, Verdict.PENDING) for one in operations)
    if poll_task is not None:
        try:
            outcomes = poll_task.wait(until, deadline, told_to_end)
        except FlexError as error:
            errors.append(f"operations: {error}")
    snapshot = Snapshot(
        now=now,
        settings=site.settings,
        cluster=site.cluster,
        slurm=slurm,
        cloud=dict(survey.groups),
        paused_pools=paused,
    )
    return Observation(snapshot, outcomes, tuple(errors), notices)
