"""A fleet and a Slurm that do what they are told, write down what they were asked, and fail on cue.

They stand where Compute Engine and slurmctld stand: at the border, behind the project's Protocols.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from slurm_flex.cluster import Pool
from slurm_flex.compute.errors import ComputeError
from slurm_flex.compute.fleet import Fleet, Operation, Outcome, Survey, Verdict
from slurm_flex.model import CloudError, Group, Slurm
from slurm_flex.slurm.controller import Failure, Failures, SlurmController
from slurm_flex.slurm.errors import SlurmError


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


@dataclass
class FakeSlurm:
    """Implements SlurmController. `failing`: an error by the name of the method."""

    slurm: Slurm = field(default_factory=Slurm)
    failing: dict[str, SlurmError] = field(default_factory=dict)
    failing_targets: dict[str, SlurmError] = field(default_factory=dict)
    """What one change answers for one node, job or reservation."""
    calls: list[tuple[object, ...]] = field(default_factory=list)
    notices: tuple[SlurmError, ...] = ()
    reads: int = 0
    read_hook: Callable[[], None] | None = None

    def read(self) -> Slurm:
        self.reads += 1
        if self.read_hook is not None:
            self.read_hook()
        if "read" in self.failing:
            raise self.failing["read"]
        return self.slurm

    def node_down(self, nodes: Iterable[str], reason: str) -> Failures:
        return self._do("node_down", nodes, reason)

    def node_drain(self, nodes: Iterable[str], reason: str) -> Failures:
        return self._do("node_drain", nodes, reason)

    def node_undrain(self, nodes: Iterable[str]) -> Failures:
        return self._do("node_undrain", nodes)

    def node_resume(self, nodes: Iterable[str]) -> Failures:
        return self._do("node_resume", nodes)

    def node_idle(self, nodes: Iterable[str]) -> Failures:
        return self._do("node_idle", nodes)

    def node_power_up(self, nodes: Iterable[str]) -> Failures:
        return self._do("node_power_up", nodes)

    def node_power_down(self, nodes: Iterable[str], how: str, reason: str) -> Failures:
        return self._do("node_power_down", nodes, how, reason)

    def node_comment(self, nodes: Iterable[str], text: str) -> Failures:
        return self._do("node_comment", nodes, text)

    def suspend_exclude(self, nodes: Iterable[str]) -> Failures:
        return self._do("suspend_exclude", nodes)

    def job_comment(self, jobs: Iterable[int], text: str) -> Failures:
        return self._do("job_comment", jobs, text)

    def job_start(self, jobs: Iterable[int], after: timedelta = timedelta(0)) -> Failures:
        return self._do("job_start", jobs, after)

    def job_requeue(self, jobs: Iterable[int]) -> Failures:
        return self._do("job_requeue", jobs)

    def job_hold(self, jobs: Iterable[int]) -> Failures:
        return self._do("job_hold", jobs)

    def job_release(self, jobs: Iterable[int]) -> Failures:
        return self._do("job_release", jobs)

    def job_signal(self, jobs: Iterable[int], signal: str) -> Failures:
        return self._do("job_signal", jobs, signal)

    def job_notify(self, jobs: Iterable[int], text: str) -> Failures:
        return self._do("job_notify", jobs, text)

    def reserve(
        self, name: str, nodes: Iterable[str], start: datetime, end: datetime, now: datetime
    ) -> Failures:
        return self._do("reserve", (name,), tuple(nodes), start, end, now)

    def unreserve(self, names: Iterable[str]) -> Failures:
        return self._do("unreserve", names)

    def _do(self, kind: str, targets: Iterable[object], *more: object) -> Failures:
        listed = tuple(targets)
        self.calls.append((kind, listed, *more))
        error = self.failing.get(kind)
        failed = {str(one): error for one in listed} if error else {}
        known = self.failing_targets
        failed |= {str(one): known[str(one)] for one in listed if str(one) in known}
        return tuple(Failure(target, why) for target, why in failed.items() if why)


def implements_slurm(slurm: FakeSlurm) -> SlurmController:
    """mypy checks here that the fake is what it stands for."""
    return slurm
