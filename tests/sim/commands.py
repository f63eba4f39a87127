"""What scontrol does to the simulated controller, as facts: slurm.md records it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.sim.parts import Lost, SimJob, SimNode, SimReservation
from tests.sim.slurm import PENALTY, SimSlurm


class SlurmRefused(Exception):
    """scontrol answered with an error."""


class Commands:
    def __init__(self, slurm: SimSlurm) -> None:
        self.slurm = slurm

    def _nodes(self, names: Iterable[str]) -> Iterable[SimNode]:
        for name in names:
            if name not in self.slurm.nodes:
                raise SlurmRefused(f"Invalid node name specified: {name}")
            yield self.slurm.nodes[name]

    def _note(self, text: str) -> None:
        self.slurm.journal.note(text)

    def _reason(self, node: SimNode, reason: str | None, now: float, user: str) -> None:
        if reason:
            node.reason, node.reason_time, node.reason_user = reason, now, user

    # --- nodes

    def down(
        self,
        names: Iterable[str],
        reason: str,
        now: float,
        *,
        causes: Mapping[str, Lost] | None = None,
        user: str = "slurm",
    ) -> None:
        nodes = list(self._nodes(names))
        for node in nodes:
            node.down = node.hidden = True
        for node in nodes:
            self._reason(node, reason, now, user)
            self._note(f"{node.name} state=down reason={reason!r}")
            self.slurm.fail_jobs(node, now, (causes or {}).get(node.name, "failure"))

    def power_down(
        self, names: Iterable[str], how: str, reason: str | None, now: float, user: str = "slurm"
    ) -> None:
        for node in self._nodes(names):
            self._reason(node, reason, now, user)
            self._note(f"{node.name} power_down {how}")
            if how == "force":
                self._force(node, now)
            elif how == "asap":
                node.drain = True
                self._ask(node, how, now)
            else:
                self._ask(node, how, now)

    def _force(self, node: SimNode, now: float) -> None:
        """At once, whatever the node is doing; clears DRAIN, an admin's too."""
        if node.power == "powering_down":
            return
        if node.jobs:
            running = node.power == "up"
            self.slurm.fail_jobs(node, now, "failure", completing=60.0 if running else 0.0)
        node.drain = node.down = node.not_responding = False
        node.hidden = True
        self.slurm.power_off(node, now)

    def _ask(self, node: SimNode, how: str, now: float) -> None:
        if node.power == "powering_up" and not node.down:
            node.power_down = how  # hangs as POWER_DOWN+POWERING_UP until ResumeTimeout
        elif node.power in ("up", "powering_up"):
            node.power_down = how
            if not node.jobs and node.completing_until < 0:
                self.slurm.power_off(node, now)

    def power_up(self, names: Iterable[str], now: float) -> None:
        for node in self._nodes(names):
            if node.power == "powering_up" or node.power == "off":
                fresh = node.power == "off"
                node.power, node.since = "powering_up", now
                node.not_responding = False
                if fresh:
                    self._note(f"ResumeProgram {node.name} (power_up)")

    def drain(self, names: Iterable[str], reason: str, now: float, user: str = "slurm") -> None:
        for node in self._nodes(names):
            node.drain = True
            self._reason(node, reason, now, user)
            self._note(f"{node.name} drained: {reason}")

    def undrain(self, names: Iterable[str]) -> None:
        for node in self._nodes(names):
            node.drain = False
            if not node.down:
                node.reason = None
            self._note(f"{node.name} undrained")

    def resume(self, names: Iterable[str], now: float) -> None:
        for node in self._nodes(names):
            was = node.down or node.drain
            node.down = node.drain = False
            node.power_down = ""
            if self.slurm.knobs.version >= "26":
                node.reason = None
            if node.power == "off":
                node.not_responding = True  # and schedulable all the same (R)
            elif node.power == "up" and node.silent_since is not None:
                node.silent_since = now - self.slurm.knobs.slurmd_timeout + 24
            if was:
                self._note(f"{node.name} state=resume")

    def idle(self, names: Iterable[str]) -> None:
        for node in self._nodes(names):
            if node.power != "off" or node.jobs or node.down or node.drain:
                raise SlurmRefused(f"Invalid node state specified: {node.name}")
            node.hidden = False
            self.slurm.journal.changes += 1
            self._note(f"{node.name} state=idle")

    def comment(self, names: Iterable[str], text: str) -> None:
        for node in self._nodes(names):
            node.comment = text

    def exclude(self, names: Iterable[str]) -> None:
        if self.slurm.knobs.version < "23.02":
            raise SlurmRefused("scontrol update SuspendExcNodes is new in 23.02")
        self.slurm.excluded.update(node.name for node in self._nodes(names))
        self._note(f"SuspendExcNodes += {','.join(names)}")

    # --- jobs

    def _job(self, number: int) -> SimJob:
        job = self.slurm.jobs.get(number)
        if job is None or job.over:
            raise SlurmRefused(f"Invalid job id specified: {number}")
        return job

    def start(self, number: int, after: float, now: float) -> SimJob:
        job = self._job(number)
        if any(one.state != "PENDING" for one in self.slurm.components(job)):
            raise SlurmRefused("Job/step is no longer pending execution")
        for one in self.slurm.components(job):
            one.begin = now + after
        self._note(f"job {number} starttime=now+{after:.0f}")
        return job

    def requeue(self, number: int, now: float, cause: Lost = "released") -> None:
        job = self._job(number)
        if job.state == "PENDING":
            raise SlurmRefused("Job is pending execution")
        self._note(f"job {number} requeued by hand")
        job.lost, job.lost_nodes = cause, job.nodes
        self.slurm._leave(job, now, completing=0.0)
        job.state, job.reason, job.begin = "PENDING", "BeginTime", now + PENALTY
        job.restarts += 1

    def hold(self, number: int) -> None:
        job = self._job(number)
        job.held = True
        self._note(f"job {number} held")

    def release(self, number: int) -> None:
        self._job(number).held = False

    def job_comment(self, number: int, text: str) -> None:
        self._job(number).admin_comment = text

    def notify(self, number: int, text: str, now: float) -> None:
        job = self._job(number)
        if job.state != "RUNNING" and job.state != "CONFIGURING":
            raise SlurmRefused("Requested operation is presently disabled")
        job.told.append((now, f"notify {text}"))
        self._note(f"job {number} notified: {text}")

    def signal(self, number: int, signal: str, now: float) -> None:
        job = self._job(number)
        job.told.append((now, f"signal {signal}"))
        self._note(f"job {number} signalled {signal}")
        if job.state == "RUNNING" and signal.removeprefix("B:") not in job.traps:
            self.slurm.finish(job, now, "FAILED")

    def cancel(self, number: int, now: float) -> None:
        """scancel: a CONFIGURING job's nodes stay POWERING_UP, and nobody is called (R)."""
        for one in self.slurm.components(self._job(number)):
            self.slurm.finish(one, now, "CANCELLED")

    # --- reservations

    def reserve(self, reservation: SimReservation, now: float) -> None:
        known = self.slurm.reservations.get(reservation.name)
        for _ in self._nodes(reservation.nodes):
            pass
        if reservation.end <= now:
            raise SlurmRefused("Reservation end time is in the past")
        reservation.start = max(reservation.start, now)
        self.slurm.reservations[reservation.name] = reservation
        self._note(f"reservation {'updated' if known else 'made'}: {reservation.name}")

    def unreserve(self, name: str) -> None:
        if name not in self.slurm.reservations:
            raise SlurmRefused("Requested reservation is invalid")
        del self.slurm.reservations[name]
        self._note(f"reservation {name} deleted")
