"""A fleet and a Slurm that do what they are told, write down what they were asked, and fail on cue.

They stand where Compute Engine and slurmctld stand: at the border, behind the project's Protocols.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from slurm_flex.cluster import Pool
from slurm_flex.compute.errors import ComputeError
from slurm_flex.compute.fleet import Fleet, Operation, Outcome, Survey, Verdict
from slurm_flex.model import CloudError, Group


@dataclass
class FakeFleet:
    """Implements Fleet. `failing`: an error by the kind of call, raised instead of answering."""

    groups: dict[str, Group] = field(default_factory=dict)
    read_errors: dict[str, ComputeError] = field(default_factory=dict)
    failing: dict[str, ComputeError] = field(default_factory=dict)
    verdicts: dict[str, tuple[Verdict, CloudError | None]] = field(default_factory=dict)
    """What poll says, by the operation's name; PENDING where nothing is said."""
    at_once: dict[str, Verdict] = field(default_factory=dict)
    """Verdict of the answer itself, by kind."""
    calls: list[tuple[object, ...]] = field(default_factory=list)
    nonces: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, pools: Iterable[Pool]) -> Survey:
        wanted = {pool.id for pool in pools}
        groups = {pool: self.groups.get(pool, Group()) for pool in wanted}
        for pool in self.read_errors:
            groups[pool] = Group(complete=False)
        return Survey(groups, dict(self.read_errors), calls=len(wanted))

    def poll(self, operations: Sequence[Operation]) -> tuple[Outcome, ...]:
        return tuple(
            Outcome(one, *self.verdicts.get(one.name, (Verdict.PENDING, None)))
            for one in operations
        )

    def request(
        self,
        pool: Pool,
        name: str,
        nodes: Sequence[str],
        run_duration: timedelta,
        *,
        nonce: str,
        description: str = "",
    ) -> Operation:
        return self._answer("request", pool, (name,), nonce, tuple(nodes))

    def cancel_request(self, pool: Pool, name: str, *, nonce: str) -> Operation:
        return self._answer("cancel_request", pool, (name,), nonce)

    def delete_request(self, pool: Pool, name: str, *, nonce: str) -> Operation:
        return self._answer("delete_request", pool, (name,), nonce)

    def create_instances(
        self, pool: Pool, nodes: Sequence[str], *, nonce: str
    ) -> tuple[Operation, ...]:
        return (self._answer("create_instances", pool, tuple(nodes), nonce),)

    def delete_instances(
        self, pool: Pool, nodes: Sequence[str], *, nonce: str, group: Group | None = None
    ) -> tuple[Operation, ...]:
        return (self._answer("delete_instances", pool, tuple(nodes), nonce),)

    def report_host(self, pool: Pool, node: str, *, reason: str, nonce: str) -> Operation:
        return self._answer("report_host", pool, (node,), nonce)

    def console(self, pool: Pool, node: str) -> str:
        self._answer("save_console", pool, (node,), "")
        return f"console of {node}\n"

    def ensure_group(self, pool: Pool) -> Operation:
        return self._answer("create_group", pool, (pool.id,), "")

    def _answer(
        self, kind: str, pool: Pool, target: tuple[str, ...], nonce: str, *more: object
    ) -> Operation:
        with self._lock:
            self.calls.append((kind, pool.id, *target, *more))
            self.nonces.append(nonce)
            number = len(self.calls)
        if kind in self.failing:
            raise self.failing[kind]
        verdict = self.at_once.get(kind, Verdict.PENDING)
        return Operation(pool.id, kind, target, f"operation-{number}", pool.zone, verdict)


def implements_fleet(fleet: FakeFleet) -> Fleet:
    """mypy checks here that the fake is what it stands for."""
    return fleet


def counted(calls: Iterable[Sequence[object]]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for call in calls:
        found[str(call[0])] = found.get(str(call[0]), 0) + 1
    return found
