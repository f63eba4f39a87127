"""One pass: hear, observe, plan, remember, apply, tell.

The memory that plan returns is on the disk before anything is sent, so that a crash in between
sends nothing twice; what apply finds out is added afterwards.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from slurm_flex import spool
from slurm_flex.actions import Action, Event, JobComment, NodeComment
from slurm_flex.apply import Hands, apply
from slurm_flex.calls import Call, read_calls, unknown_nodes
from slurm_flex.cloud_acts import judge_outcomes
from slurm_flex.cluster.site import Site
from slurm_flex.compute.fleet import Fleet
from slurm_flex.hostlist import natural_order
from slurm_flex.memory import Entry, MemoryFileError, Opened, Pending
from slurm_flex.model import Memory, Snapshot
from slurm_flex.model.memory import Answer
from slurm_flex.observe import Observation, observe
from slurm_flex.plan import close_breaker, plan
from slurm_flex.results import Result
from slurm_flex.slurm.controller import SlurmController
from slurm_flex.slurm_acts import NOT_DONE

_log = structlog.get_logger(__name__)

UNPAUSE: Final = "unpause"


@dataclass(frozen=True)
class Outside:
    """Everything outside of a pass: both files, and the two sides that are asked and told."""

    site: Site
    controller: SlurmController
    fleet: Fleet


@dataclass(frozen=True)
class Report:
    """What a pass saw and did. `errors` is empty for a pass in which all went well."""

    snapshot: Snapshot
    memory: Memory
    calls: Sequence[Call] = ()
    results: Sequence[Result] = ()
    errors: Sequence[str] = ()
    events: Sequence[Entry] = ()
    """The journal's last lines."""
    notices: Sequence[str] = ()
    """What is wrong with Slurm's setup, though a pass can go on."""
    on_the_way: int = 0
    """Operations of Compute Engine that aren't over."""
    took: timedelta = timedelta(0)

    @property
    def is_healthy(self) -> bool:
        return not self.errors

    @property
    def did(self) -> Counter[str]:
        """Actions by kind, without the journal's and the comments."""
        quiet = (Event, NodeComment, JobComment)
        return Counter(one.action.KIND for one in self.results if not isinstance(one.action, quiet))


class Cycle:
    """Passes over one world, with the memory in between. `told_to_end` ends one between actions."""

    def __init__(
        self,
        outside: Outside,
        open_memory: Callable[[datetime], Opened],
        clock: Callable[[], datetime],
        told_to_end: Callable[[], bool] = lambda: False,
    ) -> None:
        """Raises MemoryFileError if there is no memory to be had at all."""
        self.outside = outside
        self._open_memory = open_memory
        self._clock = clock
        self._told_to_end = told_to_end
        opened = open_memory(clock())
        self._store = opened.store
        self._memory = opened.memory
        self._is_store_doubtful = False
        self._complaints = [opened.complaint] if opened.complaint else []
        self._known_errors: frozenset[str] = frozenset()

    def run(self) -> Report:
        """One pass. What fails is in the report; only a defect of ours raises."""
        begun = time.monotonic()
        now = self._clock()
        errors = self._complaints
        self._complaints = []
        self._renew_store(now, errors)
        calls, files = read_calls(Path(self.outside.site.settings.run_dir))
        memory = _heard(calls, self._memory, now)
        pending = self._pending(errors)
        seen = observe(
            self.outside.site,
            self.outside.controller,
            self.outside.fleet,
            now,
            [one.operation for one in pending],
            told_to_end=self._told_to_end,
        )
        errors += seen.errors
        memory, over = self._take_outcomes(seen, pending, memory, now, errors)
        actions, memory = plan(seen.snapshot, memory)
        self._keep(memory, errors)
        hands = Hands(self.outside.controller, self.outside.fleet, self._store, self._clock)
        results = apply(actions, seen.snapshot, hands, told_to_end=self._told_to_end)
        answers = [one.answer for one in results if one.answer is not None]
        self._keep(_with_answers(memory, answers), errors)
        errors += [_failure(one) for one in results if not one.ok and one.error != NOT_DONE]
        self._write_journal(seen.snapshot, calls, actions, errors, now)
        if any(one.error == NOT_DONE for one in results):
            errors.append("told to end before all was done; the next pass does the rest")
        spool.remove(files)
        return Report(
            snapshot=seen.snapshot,
            memory=self._memory,
            calls=calls,
            results=results,
            errors=tuple(dict.fromkeys(errors)),
            events=self._last_events(),
            notices=seen.notices,
            on_the_way=len(pending) - over + sum(len(one.pending) for one in results),
            took=timedelta(seconds=time.monotonic() - begun),
        )

    def close(self) -> None:
        self._store.close()

    def read_memory_again(self) -> None:
        """For whoever lets go of the acting lock between passes. Raises MemoryFileError."""
        opened = self._open_memory(self._clock())
        self._store.close()
        self._store, self._memory = opened.store, opened.memory
        self._complaints += [opened.complaint] if opened.complaint else []

    # --- memory

    def _renew_store(self, now: datetime, errors: list[str]) -> None:
        """After a failure: open the file anew, which sets a damaged one aside. What is in our own
        memory stays what counts."""
        if not self._is_store_doubtful:
            return
        try:
            opened = self._open_memory(now)
        except MemoryFileError as error:
            errors.append(str(error))
            return
        self._store.close()
        self._store = opened.store
        self._is_store_doubtful = False
        if opened.complaint:
            errors.append(opened.complaint)

    def _keep(self, memory: Memory, errors: list[str]) -> None:
        if memory != self._memory:
            self._memory = memory
            self._try(lambda: self._store.save(memory), errors)

    def _try(self, write: Callable[[], None], errors: list[str]) -> None:
        try:
            write()
        except MemoryFileError as error:
            self._is_store_doubtful = True
            errors.append(str(error))

    def _pending(self, errors: list[str]) -> tuple[Pending, ...]:
        try:
            return self._store.pending()
        except MemoryFileError as error:
            self._is_store_doubtful = True
            errors.append(str(error))
            return ()

    def _take_outcomes(
        self,
        seen: Observation,
        pending: Sequence[Pending],
        memory: Memory,
        now: datetime,
        errors: list[str],
    ) -> tuple[Memory, int]:
        """Forget operations that are over; hand on to plan what came to nothing."""
        over, answers, failures = judge_outcomes(pending, seen.outcomes, now)
        errors += failures
        memory = _with_answers(memory, answers)
        if over:
            # In one write: an operation that is forgotten tells its failure no second time.
            self._memory = memory
            self._try(lambda: self._store.save(memory, over=over), errors)
        return memory, len(over)

    # --- telling

    def _write_journal(
        self,
        snapshot: Snapshot,
        calls: Sequence[Call],
        actions: Sequence[Action],
        errors: list[str],
        now: datetime,
    ) -> None:
        """Events of the plan, strange calls, and errors: each once, not in every pass."""
        entries = [
            Entry(now, one.event, one.text, one.nodes, one.job, one.pool)
            for one in actions
            if isinstance(one, Event)
        ]
        for call in calls:
            _log.info("slurmctld called", program=call.program, nodes=call.nodes, note=call.note)
            retired = {n.name for n in snapshot.slurm.nodes if n.is_retired}
            unknown = [n for n in unknown_nodes(call, snapshot.cluster) if n not in retired]
            if unknown:
                names = ", ".join(sorted(unknown, key=natural_order)[:20])
                text = f"{call.program} named nodes that the cluster file doesn't have: {names}"
                _log.warning("unknown nodes", program=call.program, nodes=names)
                entries.append(Entry(now, "unknown_nodes", text))
        for error in [one for one in dict.fromkeys(errors) if one not in self._known_errors]:
            _log.error("failed", what=error)
            entries.append(Entry(now, "error", error))
        for error in self._known_errors.difference(errors):
            _log.info("no longer failing", what=error)
        self._known_errors = frozenset(errors)
        if entries:
            self._try(lambda: self._store.write_events(entries), errors)

    def _last_events(self) -> tuple[Entry, ...]:
        try:
            return self._store.events(last=200)
        except MemoryFileError:
            self._is_store_doubtful = True
            return ()


def _heard(calls: Iterable[Call], memory: Memory, now: datetime) -> Memory:
    """What calls change in the memory: `unpause` closes a breaker, hooks change nothing."""
    for call in calls:
        if call.program == UNPAUSE:
            memory = close_breaker(memory, call.pool, now)
    return memory


def _with_answers(memory: Memory, answers: Sequence[Answer]) -> Memory:
    if not answers:
        return memory
    return dataclasses.replace(memory, answers=(*memory.answers, *answers))


def _failure(result: Result) -> str:
    action = result.action
    nodes: tuple[str, ...] = getattr(action, "nodes", ())
    whom = getattr(action, "name", "") or getattr(action, "job", "") or ",".join(nodes[:3])
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 and whom == ",".join(nodes[:3]) else ""
    return f"{action.KIND} {whom}{more}: {result.error}"
