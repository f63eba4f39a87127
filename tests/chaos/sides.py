"""The simulated Slurm and Compute Engine behind the project's Protocols, with a hand on the plug.

Everything that leaves a pass goes through `Plug.pull`: a call to Slurm, a call to the cloud, a
write to the disk. At the nth of them the process "dies": nothing after it happens any more.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar

from slurm_flex import actions as act
from slurm_flex.actions import Action
from slurm_flex.cluster import Pool
from slurm_flex.compute.errors import error_of_operation
from slurm_flex.compute.fleet import Operation, Outcome, Survey, Verdict
from slurm_flex.compute.operations import is_already
from slurm_flex.memory import Store
from slurm_flex.model import CloudError, Group, Slurm
from slurm_flex.slurm.controller import Failure, Failures
from slurm_flex.slurm.errors import SlurmError, SlurmRefused
from tests.sim.commands import SlurmRefused as SimRefused
from tests.sim.compute import Refused
from tests.sim.simulation import Simulation

T = TypeVar("T")
WHY = "told by the daemon"


class Killed(BaseException):
    """kill -9: no handler of the daemon's sees it."""


@dataclass
class Plug:
    """Pulled at the nth act: before it is done, or after it and before its answer is heard."""

    nth: int = -1
    when: Literal["before", "after"] = "before"
    acts: int = 0
    is_dead: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pull(self, act: Callable[[], T]) -> T:
        with self._lock:
            if self.is_dead:
                raise Killed
            strikes = self.acts == self.nth
            self.acts += 1
            if not strikes:
                return act()
            self.is_dead = True
            if self.when == "after":
                act()
            raise Killed


class SimController:
    """Implements SlurmController over a simulation."""

    def __init__(self, sim: Simulation, plug: Plug) -> None:
        self._sim = sim
        self._plug = plug
        self.notices: tuple[SlurmError, ...] = ()

    def read(self) -> Slurm:
        return self._sim.snapshot().slurm

    def node_down(self, nodes: Iterable[str], reason: str) -> Failures:
        return self._nodes(act.NodeDown(nodes=tuple(nodes), reason=reason, why=WHY))

    def node_drain(self, nodes: Iterable[str], reason: str) -> Failures:
        return self._nodes(act.NodeDrain(nodes=tuple(nodes), reason=reason, why=WHY))

    def node_undrain(self, nodes: Iterable[str]) -> Failures:
        return self._nodes(act.NodeUndrain(nodes=tuple(nodes), why=WHY))

    def node_resume(self, nodes: Iterable[str]) -> Failures:
        return self._nodes(act.NodeResume(nodes=tuple(nodes), why=WHY))

    def node_idle(self, nodes: Iterable[str]) -> Failures:
        return self._nodes(act.NodeIdle(nodes=tuple(nodes), why=WHY))

    def node_power_up(self, nodes: Iterable[str]) -> Failures:
        return self._nodes(act.NodePowerUp(nodes=tuple(nodes), why=WHY))

    def node_power_down(
        self, nodes: Iterable[str], how: Literal["plain", "asap", "force"], reason: str
    ) -> Failures:
        action = act.NodePowerDown(nodes=tuple(nodes), how=how, reason=reason, why=WHY)
        return self._nodes(action)

    def node_comment(self, nodes: Iterable[str], text: str) -> Failures:
        return self._nodes(act.NodeComment(nodes=tuple(nodes), text=text, why=WHY))

    def suspend_exclude(self, nodes: Iterable[str]) -> Failures:
        return self._nodes(act.SuspendExclude(nodes=tuple(nodes), why=WHY))

    def job_comment(self, jobs: Iterable[int], text: str) -> Failures:
        return self._jobs(act.JobComment(job=job, text=text, why=WHY) for job in jobs)

    def job_start(self, jobs: Iterable[int], after: timedelta = timedelta(0)) -> Failures:
        return self._jobs(act.JobStart(job=job, after=after, why=WHY) for job in jobs)

    def job_requeue(self, jobs: Iterable[int]) -> Failures:
        return self._jobs(act.JobRequeue(job=job, why=WHY) for job in jobs)

    def job_hold(self, jobs: Iterable[int]) -> Failures:
        return self._jobs(act.JobHold(job=job, why=WHY) for job in jobs)

    def job_release(self, jobs: Iterable[int]) -> Failures:
        return self._jobs(act.JobRelease(job=job, why=WHY) for job in jobs)

    def job_signal(self, jobs: Iterable[int], signal: str) -> Failures:
        return self._jobs(act.JobSignal(job=job, signal=signal, why=WHY) for job in jobs)

    def job_notify(self, jobs: Iterable[int], text: str) -> Failures:
        return self._jobs(act.JobNotify(job=job, text=text, why=WHY) for job in jobs)

    def reserve(
        self, name: str, nodes: Iterable[str], start: datetime, end: datetime, now: datetime
    ) -> Failures:
        action = act.Reserve(name=name, nodes=tuple(nodes), start=start, end=end, why=WHY)
        return self._done(action, name)

    def unreserve(self, names: Iterable[str]) -> Failures:
        found: Failures = ()
        for name in names:
            failed = self._done(act.Unreserve(name=name, why=WHY), name)
            found += tuple(one for one in failed if "invalid" not in str(one.error))
        return found

    def _nodes(self, action: act.NodeAction) -> Failures:
        return self._done(action, ",".join(action.nodes))

    def _jobs(self, actions: Iterable[act.JobAction]) -> Failures:
        return tuple(one for action in actions for one in self._done(action, str(action.job)))

    def _done(self, action: Action, target: str) -> Failures:
        try:
            self._plug.pull(lambda: _apply(self._sim, action))
        except SimRefused as refusal:
            return (Failure(target, SlurmRefused(str(refusal))),)
        return ()


class SimFleet:
    """Implements Fleet over a simulation. A call with a nonce that was seen is answered, not done
    again, as Compute Engine does with a requestId."""

    def __init__(self, sim: Simulation, plug: Plug) -> None:
        self._sim = sim
        self._plug = plug
        self._seen: set[tuple[object, ...]] = set()

    def read(self, pools: Iterable[Pool]) -> Survey:
        snapshot = self._sim.snapshot()
        return Survey({pool.id: snapshot.cloud[pool.id] for pool in pools})

    def poll(self, operations: Sequence[Operation]) -> tuple[Outcome, ...]:
        return tuple(Outcome(one, Verdict.DONE) for one in operations)

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
        action = act.MakeRequest(
            pool=pool.id,
            name=name,
            nodes=tuple(nodes),
            job=None,
            run_duration=run_duration,
            why=WHY,
        )
        return self._send(action, pool, (name,), nonce)

    def cancel_request(self, pool: Pool, name: str, *, nonce: str) -> Operation:
        return self._send(act.CancelRequest(pool=pool.id, name=name, why=WHY), pool, (name,), nonce)

    def delete_request(self, pool: Pool, name: str, *, nonce: str) -> Operation:
        return self._send(act.DeleteRequest(pool=pool.id, name=name, why=WHY), pool, (name,), nonce)

    def create_instances(
        self, pool: Pool, nodes: Sequence[str], *, nonce: str
    ) -> tuple[Operation, ...]:
        action = act.CreateInstances(pool=pool.id, nodes=tuple(nodes), why=WHY)
        return (self._send(action, pool, action.nodes, nonce),)

    def delete_instances(
        self, pool: Pool, nodes: Sequence[str], *, nonce: str, group: Group | None = None
    ) -> tuple[Operation, ...]:
        action = act.DeleteInstances(pool=pool.id, nodes=tuple(nodes), why=WHY)
        return (self._send(action, pool, action.nodes, nonce),)

    def report_host(self, pool: Pool, node: str, *, reason: str, nonce: str) -> Operation:
        return Operation(pool.id, "report_host", (node,), verdict=Verdict.DONE)

    def console(self, pool: Pool, node: str) -> str:
        return f"{node} login:"

    def ensure_group(self, pool: Pool) -> Operation:
        return self._send(act.CreateGroup(pool=pool.id, why=WHY), pool, (pool.id,), "")

    def _send(self, action: Action, pool: Pool, target: tuple[str, ...], nonce: str) -> Operation:
        operation = Operation(pool.id, action.KIND, target, "operation", pool.zone)
        call = (action.KIND, pool.id, target, nonce)
        try:
            self._plug.pull(lambda: self._once(call, action))
        except Refused as refusal:
            error = CloudError(refusal.code, refusal.message)
            if is_already(action.KIND, target, error):
                return replace(operation, verdict=Verdict.ALREADY, error=error)
            raise error_of_operation(error, pool.id) from refusal
        return operation

    def _once(self, call: tuple[object, ...], action: Action) -> None:
        if call not in self._seen:
            self._seen.add(call)
            _apply(self._sim, action)


class PluggedStore(Store):
    """The real store; each write is an act that may be the last."""

    plug: Plug = Plug()

    @contextlib.contextmanager
    def _write(self) -> Iterator[Any]:
        if self.plug.is_dead:
            raise Killed
        strikes = self.plug.acts == self.plug.nth
        self.plug.acts += 1
        if strikes:
            self.plug.is_dead = True
        if strikes and self.plug.when == "before":
            raise Killed
        with super()._write() as db:
            yield db
        if strikes:
            raise Killed


def _apply(sim: Simulation, action: Action) -> None:
    """Do it to the simulated world, which judges it as well."""
    sim.did.append((sim.now, action))
    sim.hands.apply(action, sim.now)
