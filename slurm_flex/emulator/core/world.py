"""The world: its tables, its timers, its time. Everything that happens later is a timer; time
moves only in :meth:`World.advance`, which runs what is due in order."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

from slurm_flex.emulator.core.catalog import Catalog, MachineType, load
from slurm_flex.emulator.core.errors import Problem
from slurm_flex.emulator.core.faults import Fault
from slurm_flex.emulator.core.knobs import Knobs
from slurm_flex.emulator.core.records import (
    Bill,
    Group,
    Instance,
    Member,
    Operation,
    Record,
    Request,
    RequestId,
    Template,
)
from slurm_flex.emulator.core.tables import Table

TimerAction = Callable[..., None]
TIMERS: Final[dict[str, TimerAction]] = {}
LISTENERS: Final[dict[str, list[TimerAction]]] = {}


def on_timer(kind: str) -> Callable[[TimerAction], TimerAction]:
    """Register what a kind of timer does; it is called with the world and the timer's words."""

    def register(action: TimerAction) -> TimerAction:
        TIMERS[kind] = action
        return action

    return register


def on_event(kind: str) -> Callable[[TimerAction], TimerAction]:
    """Register what follows from an event; it is called with the world and a record."""

    def register(action: TimerAction) -> TimerAction:
        LISTENERS.setdefault(kind, []).append(action)
        return action

    return register


@dataclass(frozen=True, order=True)
class Timer:
    """At ``when``, do ``kind`` with these words."""

    when: datetime
    number: int
    kind: str = field(compare=False)
    words: tuple[str, ...] = field(compare=False)


@dataclass(frozen=True)
class Effect:
    """What must become true outside: a guest ``start``s, or ``end``s without a goodbye."""

    what: str
    instance: Instance


class World:
    """One emulated cloud. Not safe for several threads: its owner lets one in at a time."""

    def __init__(
        self,
        now: datetime,
        *,
        knobs: Knobs | None = None,
        catalog: Catalog | None = None,
        scale: float = 1.0,
        seed: int | None = None,
    ) -> None:
        self.now = now
        self.knobs = knobs or Knobs()
        self.catalog = catalog or load()
        self.scale = scale
        self.random = random.Random(seed)  # noqa: S311 - names and ids, no secret
        self.templates: Table[Template] = Table(
            "templates", lambda r: f"{r.project}/{r.scope.path}"
        )
        self.groups: Table[Group] = Table("groups", lambda r: f"{r.project}/{r.scope.path}")
        self.requests: Table[Request] = Table("requests", lambda r: r.group)
        self.members: Table[Member] = Table("members", lambda r: r.group)
        self.instances: Table[Instance] = Table("instances", lambda r: f"{r.project}/{r.zone}")
        self.operations: Table[Operation] = Table(
            "operations", lambda r: f"{r.project}/{r.scope.path}"
        )
        self.bills: Table[Bill] = Table("bills", lambda r: r.project)
        self.request_ids: Table[RequestId] = Table("request_ids", lambda r: r.project)
        self.fault_table: Table[Fault] = Table("faults", lambda r: r.name)
        self.in_use: Counter[tuple[str, str, str]] = Counter()
        self.effects: list[Effect] = []
        self.changes = 0
        self.timers: dict[int, Timer] = {}
        self.timer_changes: dict[int, Timer | None] = {}
        self._queue: list[Timer] = []
        self._soon: set[tuple[str, tuple[str, ...]]] = set()
        self._number = 0

    @property
    def tables(self) -> tuple[Table[Any], ...]:
        """Every table that is kept."""
        return (
            self.templates,
            self.groups,
            self.requests,
            self.members,
            self.instances,
            self.operations,
            self.bills,
            self.request_ids,
            self.fault_table,
        )

    def delay(self, wall: timedelta) -> timedelta:
        """A delay in seconds of the wall clock, as emulated time."""
        return wall * self.scale

    def after(self, wall: timedelta, kind: str, *words: str) -> None:
        """Let something happen after a delay of the wall clock."""
        self.at(self.now + self.delay(wall), kind, *words)

    def at(self, when: datetime, kind: str, *words: str) -> None:
        """Let something happen at an emulated time."""
        if kind not in TIMERS:
            raise KeyError(kind)
        self._number += 1
        self.restore_timer(Timer(when, self._number, kind, words))

    def soon(self, kind: str, *words: str) -> None:
        """Let something happen once, after all that is due at this moment."""
        if (kind, words) not in self._soon:
            self._soon.add((kind, words))
            self.at(self.now, kind, *words)

    def restore_timer(self, timer: Timer) -> None:
        """Put a timer in the queue as it is."""
        self._number = max(self._number, timer.number)
        self.timers[timer.number] = timer
        self.timer_changes[timer.number] = timer
        heapq.heappush(self._queue, timer)

    def next_due(self) -> datetime | None:
        """When the next thing happens, emulated time."""
        return self._queue[0].when if self._queue else None

    def advance(self, now: datetime) -> None:
        """Let everything happen that is due by then, in order. Time never runs backwards."""
        while self._queue and self._queue[0].when <= now:
            timer = heapq.heappop(self._queue)
            self.timers.pop(timer.number, None)
            self.timer_changes[timer.number] = None
            self.now = max(self.now, timer.when)
            self.changes += 1
            self._soon.discard((timer.kind, timer.words))
            TIMERS[timer.kind](self, *timer.words)
        self.now = max(self.now, now)

    def tell(self, kind: str, record: Record) -> None:
        """Let those act who registered for this event."""
        for action in LISTENERS.get(kind, ()):
            action(self, record)

    def machine_type(self, zone: str, name: str) -> MachineType | None:
        """The machine type of that name, if the zone offers it."""
        lacking = [item.strip() for item in self.knobs.not_offered.split(",")]
        if any(fnmatchcase(f"{zone}/{name}", pattern) for pattern in lacking):
            return None
        return self.catalog.machine_types.get(name)

    def new_id(self) -> str:
        """A numeric id of a resource, as text: uint64 in the API."""
        return str(self.random.randrange(10**18, 9 * 10**18))

    def start_guest(self, instance: Instance) -> None:
        """Have the guest of a VM brought up."""
        instance.guest = True
        self.effects.append(Effect("start", instance))

    def end_guest(self, instance: Instance) -> None:
        """Have the guest of a VM killed, if it may be there."""
        if instance.guest:
            instance.guest = False
            self.effects.append(Effect("end", instance))

    def take_effects(self) -> list[Effect]:
        """What must be done outside since the last call."""
        effects, self.effects = self.effects, []
        return effects

    def fault(self, kind: str, **places: str) -> Fault | None:
        """The first fault of this kind in force that applies there; it counts as used."""
        for fault in self.fault_table.under(kind):
            if not fault.applies(places):
                continue
            if fault.left is not None:
                fault.left -= 1
                if fault.left <= 0:
                    self.fault_table.remove(fault)
            return fault
        return None

    def has_fault(self, kind: str, **places: str) -> Fault | None:
        """The same without using it up."""
        return next((f for f in self.fault_table.under(kind) if f.applies(places)), None)


def problem_from(fault: Fault, code: str, message: str, http: int = 400) -> Problem:
    """The error that a fault asks for, or these."""
    return Problem(fault.text("code", code), fault.text("message", message), http)
