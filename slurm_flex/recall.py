"""Memory while a pass is thinking: a draft that rules write into, frozen again at its end."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from datetime import datetime, timedelta

from slurm_flex.model.memory import (
    Answer,
    BackOff,
    Breaker,
    Delay,
    KnownInstance,
    Launch,
    Memory,
    PowerUp,
    Restart,
    SentRequest,
    Sighting,
)

_LAUNCHES_KEPT = 4
_COUNTED_FOR = timedelta(days=1)


class Recall:
    """The draft of the next :class:`Memory`. Reading it never changes what the last pass left."""

    def __init__(self, memory: Memory, now: datetime) -> None:
        self.now = now
        self.last = memory
        self.sightings: dict[str, Sighting] = {}
        self.instances: dict[str, KnownInstance] = dict(memory.instances)
        self.sent: dict[str, SentRequest] = dict(memory.sent)
        self.answers: tuple[Answer, ...] = memory.answers
        self.attempts: dict[str, int] = dict(memory.attempts)
        self.asked: dict[str, tuple[datetime, ...]] = dict(memory.asked)
        self.launches: dict[str, tuple[Launch, ...]] = dict(memory.launches)
        self.counted: dict[str, datetime] = dict(memory.counted)
        self.back_offs: dict[str, BackOff] = dict(memory.back_offs)
        self.breakers: dict[str, Breaker] = dict(memory.breakers)
        self.restarts: dict[str, Restart] = dict(memory.restarts)
        self.expiries: dict[str, int] = dict(memory.expiries)
        self.health_restarts: dict[str, int] = dict(memory.health_restarts)
        self.delays: dict[str, Delay] = dict(memory.delays)
        self.node_waits: dict[str, datetime] = dict(memory.node_waits)
        self.armed: dict[str, datetime] = dict(memory.armed)
        self.power_ups: dict[str, PowerUp] = dict(memory.power_ups)
        self.occupants: dict[str, tuple[int, ...]] = dict(memory.occupants)
        self.told: dict[str, datetime] = dict(memory.told)
        self.check_failures: dict[str, tuple[str, ...]] = dict(memory.check_failures)
        self.held_back: dict[str, datetime] = dict(memory.held_back)

    def see(self, key: str) -> Sighting:
        """Note that a condition holds in this pass; how long and how often it has, without a break.

        Asking twice in one pass counts once. What isn't seen in a pass is forgotten.
        """
        if key not in self.sightings:
            before = self.last.sightings.get(key)
            self.sightings[key] = (
                Sighting(self.now, 1)
                if before is None
                else Sighting(before.first, before.passes + 1)
            )
        return self.sightings[key]

    def keep_sightings(self, pools: frozenset[str]) -> None:
        """A pool that couldn't be looked at: what was seen there neither grows nor is forgotten."""
        for key, sighting in self.last.sightings.items():
            if key.split("/")[1] in pools:
                self.sightings.setdefault(key, sighting)

    def once(self, key: str) -> bool:
        """True the first time this is asked for `key`, for as long as the mark is kept."""
        if key in self.told:
            return False
        self.told[key] = self.now
        return True

    def count_launch(self, pool: str, key: str, outcome: str) -> bool:
        """Enter how a launch ended among the pool's last four; False if it was counted before."""
        if key in self.counted:
            return False
        self.counted[key] = self.now
        kept = (*self.launches.get(pool, ()), Launch(key, outcome, self.now))
        self.launches[pool] = kept[-_LAUNCHES_KEPT:]
        return True

    def back_off(self, key: str, first: timedelta, longest: timedelta, why: str) -> BackOff:
        """Enter one more failure under `key`: the wait doubles from `first` to `longest`.

        What fails while it waits was asked for before it: the same trouble met again. Twenty jobs
        that meet a quota together would else wait as after twenty tries in a row.
        Jittered by a tenth, from the key itself: the same inputs give the same plan.
        """
        if (running := self.waits(key)) is not None:
            return running
        before = self.back_offs.get(key)
        steps = 1 if before is None else before.steps + 1
        wait = min(first * 2 ** min(steps - 1, 16), longest) * jitter(f"{key}#{steps}")
        self.back_offs[key] = BackOff(steps, self.now + wait, why)
        return self.back_offs[key]

    def waits(self, key: str) -> BackOff | None:
        """The back-off under `key` that isn't over yet."""
        found = self.back_offs.get(key)
        return found if found is not None and found.until > self.now else None

    def freeze(self) -> Memory:
        """The next memory, without marks that have had their day."""
        old = self.now - _COUNTED_FOR
        self.counted = {key: at for key, at in self.counted.items() if at > old}
        hour = self.now - timedelta(hours=1)
        recent = {node: tuple(at for at in ats if at > hour) for node, ats in self.asked.items()}
        self.asked = {node: ats for node, ats in recent.items() if ats}
        return Memory(**{entry.name: getattr(self, entry.name) for entry in fields(Memory)})


def jitter(key: str) -> float:
    """A factor between 0.9 and 1.1 that depends on `key` alone."""
    return 0.9 + int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") / 2**32 * 0.2
