"""A small slurmctld: scheduler, power saving, timeouts, requeue (facts: slurm.md).

Commands that slurm-flex and admins give are in `commands.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slurm_flex.cluster import Cluster
from tests.sim.parts import Journal, Lost, SimJob, SimNode, SimReservation, SimVm

PENALTY = 120.0
"""Slurm's wait after a node failure"""
FOR_EVER = 10.0**12


@dataclass
class SlurmKnobs:
    suspend_time: float = 300.0
    suspend_timeout: float = 60.0
    resume_timeout: float = 21600.0
    resume_rate: int = 0
    """nodes that ResumeProgram is called for in one step; 0: all"""
    slurmd_timeout: float = 300.0
    idle_on_node_suspend: bool = True
    suspend_exc_states: str = "DRAIN"
    version: str = "24.11.5"


class SimSlurm:
    def __init__(self, cluster: Cluster, journal: Journal) -> None:
        self.cluster = cluster
        self.journal = journal
        self.knobs = SlurmKnobs()
        self.nodes: dict[str, SimNode] = {}
        for pool in cluster.compute_pools:
            for index in range(pool.max_node_count):
                name = cluster.node_name(pool, index)
                self.nodes[name] = SimNode(name, pool.id, pool.is_static(index))
        self.excluded = {name for name, node in self.nodes.items() if node.static}
        self.jobs: dict[int, SimJob] = {}
        self.reservations: dict[str, SimReservation] = {}
        self.stopped = False
        """all partitions are INACTIVE: nothing is scheduled, nothing suspended for being idle"""
        self.members = {
            part.id: [
                name
                for pool_id in part.node_pool_ids
                for name in cluster.node_names(pool_id)
                if name in self.nodes
            ]
            for part in cluster.partitions
        }

    def step(self, now: float, vms: dict[str, SimVm]) -> None:
        for node in self.nodes.values():
            self._register(node, vms.get(node.name), now)
            self._time_out(node, now)
            self._listen(node, vms.get(node.name), now)
        for job in list(self.jobs.values()):
            self._run(job, now, vms)
        for node in self.nodes.values():
            self._save_power(node, now)
        self._schedule(now)
        self._resume(now)
        for name, reservation in list(self.reservations.items()):
            if reservation.end <= now:
                del self.reservations[name]
                self.journal.note(f"reservation {name} lapses")

    # --- nodes

    def _register(self, node: SimNode, vm: SimVm | None, now: float) -> None:
        if vm is None or not vm.answers(now):
            return
        if node.vm_id == vm.id and not node.not_responding and node.power != "powering_up":
            return
        if node.power == "powering_up":
            if now - node.since < 1:
                return
            node.power, node.since = "up", now
            node.last_busy, node.hidden = now, False
            self.journal.note(f"node {node.name} registers")
        elif node.power in ("off", "powering_down"):
            # After ResumeTimeout it returns to service, and shows idle~ (R 22.05.8).
            node.vm_id = vm.id
            if node.power == "off" and (node.reason or "").endswith("ResumeTimeout reached"):
                node.down = node.not_responding = False
            return
        node.vm_id, node.boot_time = vm.id, vm.running_at
        node.silent_since, node.not_responding = None, False
        node.down = False  # ReturnToService=2

    def _time_out(self, node: SimNode, now: float) -> None:
        if node.power != "powering_up" or now - node.since < self.knobs.resume_timeout:
            return
        self.journal.note(f"node {node.name}: ResumeTimeout reached")
        node.power, node.since = "off", now
        node.down = node.not_responding = node.hidden = True
        node.power_down = ""
        text = "ResumeTimeout reached"
        node.reason = f"{node.reason} : {text}" if node.reason else text
        node.reason_time, node.reason_user = now, "slurm"
        self.fail_jobs(node, now, "resume_timeout")

    def _listen(self, node: SimNode, vm: SimVm | None, now: float) -> None:
        if node.power != "up" or (vm is not None and vm.answers(now) and vm.id == node.vm_id):
            node.silent_since = None
            return
        if node.silent_since is None:
            node.silent_since = now
        silent = now - node.silent_since
        if silent >= 90 and not node.not_responding:
            node.not_responding = True
            self.journal.note(f"node {node.name} doesn't respond")
        if silent >= self.knobs.slurmd_timeout and not node.down:
            node.down = True
            if not node.drain:
                node.reason, node.reason_time, node.reason_user = "Not responding", now, "slurm"
            self.journal.note(f"node {node.name} DOWN: not responding")
            self.fail_jobs(node, now, "failure")

    def _save_power(self, node: SimNode, now: float) -> None:
        knobs = self.knobs
        if 0 <= node.completing_until <= now:
            node.completing_until = -1.0
            self.journal.changes += 1
        if node.power == "powering_down" and now - node.since >= knobs.suspend_timeout:
            node.power, node.since = "off", now
            node.not_responding = node.invalid = False
            node.vm_id = None
            if knobs.idle_on_node_suspend:
                node.down = node.drain = False
            self.journal.note(f"node {node.name} is off")
        if node.power != "up" or node.jobs or node.completing_until >= 0:
            return
        if node.power_down:
            self.power_off(node, now)
            return
        spared = self.stopped or node.name in self.excluded
        spared = spared or (node.drain and "DRAIN" in knobs.suspend_exc_states)
        if not spared and now - node.last_busy >= knobs.suspend_time:
            self.journal.note(f"node {node.name}: SuspendTime")
            self.power_off(node, now)

    def power_off(self, node: SimNode, now: float) -> None:
        node.power, node.since, node.power_down = "powering_down", now, ""
        self.journal.note(f"SuspendProgram {node.name}")

    def _resume(self, now: float) -> None:
        """ResumeRate hands a job's nodes over in parts: the rest stay allocated and off."""
        called = 0
        for node in self.nodes.values():
            if node.power == "off" and node.jobs:
                called += 1
                if self.knobs.resume_rate and called > self.knobs.resume_rate:
                    return
                node.power, node.since = "powering_up", now
                node.not_responding = False
                self.journal.note(f"ResumeProgram {node.name}")

    # --- jobs

    def _run(self, job: SimJob, now: float, vms: dict[str, SimVm]) -> None:
        if job.state == "CONFIGURING":
            group = self.components(job)
            whole = all(one.state != "PENDING" for one in group)
            if whole and all(self.nodes[name].power == "up" for one in group for name in one.nodes):
                if job.ready is None:
                    job.ready = now
                elif now - job.ready >= 15:
                    self._start(job, now)
            else:
                job.ready = None
        elif job.state == "RUNNING":
            began = job.started or 0.0
            if now - began >= job.runtime:
                self.finish(job, now, "COMPLETED")
            elif job.limit is not None and now - began >= job.limit:
                self.finish(job, now, "TIMEOUT")

    def _start(self, job: SimJob, now: float) -> None:
        job.state, job.started, job.reason = "RUNNING", now, "None"
        job.history.append((now, "RUNNING"))
        self.journal.note(f"job {job.id} runs on {','.join(job.nodes)}")

    def components(self, job: SimJob) -> list[SimJob]:
        if job.het is None:
            return [job]
        return [one for one in self.jobs.values() if one.het == job.het and not one.over]

    def finish(self, job: SimJob, now: float, state: str) -> None:
        self._leave(job, now, completing=0.0)
        job.state = state
        job.history.append((now, state))
        self.journal.note(f"job {job.id} {state}")

    def _leave(self, job: SimJob, now: float, completing: float) -> None:
        for name in job.nodes:
            node = self.nodes[name]
            node.jobs.discard(job.id)
            node.used = sum(self.jobs[one].share for one in node.jobs)
            node.last_busy = now
            if completing:
                node.completing_until = now + completing
        job.nodes, job.started, job.ready = (), None, None

    def fail_jobs(
        self, node: SimNode, now: float, cause: Lost, completing: float = 0.0
    ) -> list[SimJob]:
        """The node is lost to its jobs: requeued where Slurm can, else ended."""
        hit = [self.jobs[one] for one in sorted(node.jobs)]
        hit += [
            other
            for one in hit
            if one.state == "RUNNING"
            for other in self.components(one)
            if other.nodes and other not in hit
        ]
        for job in hit:
            ran = job.state == "RUNNING"
            job.lost, job.lost_nodes = cause, job.nodes
            lost = [self.nodes[name] for name in job.nodes if ran]
            job.lost_vms = tuple(
                one.vm_id for one in lost if one.vm_id and (one.down or one is node)
            )
            if not (job.batch and job.requeue):
                self.finish(job, now, "NODE_FAIL")
                continue
            self._leave(job, now, completing)
            job.state, job.reason, job.begin = "PENDING", "BeginTime", now + PENALTY
            job.restarts += 1
            job.history.append((now, "REQUEUED"))
            self.journal.note(f"job {job.id} requeued ({cause})")
        return hit

    def submit(self, job: SimJob, now: float) -> SimJob:
        job.submitted = now
        job.begin = job.user_begin
        self.jobs[job.id] = job
        job.history.append((now, "SUBMITTED"))
        self.journal.note(f"job {job.id} submitted: {job.size} nodes")
        return job

    # --- the scheduler

    def _schedule(self, now: float) -> None:
        if self.stopped:
            return
        waiting = [job for job in self.jobs.values() if job.state == "PENDING"]
        seen: set[int] = set()
        for job in sorted(waiting, key=lambda one: (-one.priority, one.submitted, one.id)):
            if job.id in seen:
                continue
            group = self.components(job)
            seen.update(one.id for one in group)
            if all(self._eligible(one, now) for one in group):
                self._place(group, now)

    def _eligible(self, job: SimJob, now: float) -> bool:
        if job.held:
            job.reason = "JobHeldAdmin"
        elif job.never:
            job.reason = job.never
        elif job.begin is not None and now < job.begin:
            job.reason = "BeginTime"
        else:
            if job.reason == "BeginTime":
                job.reason = "Priority"
            return job.state == "PENDING"
        return False

    def _place(self, group: list[SimJob], now: float) -> None:
        chosen: dict[int, list[str]] = {}
        taken: dict[str, float] = {}
        for job in group:
            picked = self._pick(job, now, taken)
            if picked is None:
                return
            chosen[job.id] = picked
            for name in picked:
                taken[name] = taken.get(name, 0.0) + job.share
        for job in group:
            job.nodes = tuple(chosen[job.id])
            job.state, job.reason, job.ready = "CONFIGURING", "None", None
            job.placed = now
            job.history.append((now, "CONFIGURING"))
            for name in job.nodes:
                node = self.nodes[name]
                node.jobs.add(job.id)
                node.used += job.share
            self.journal.note(f"job {job.id} placed on {','.join(job.nodes)}")
            if all(self.nodes[name].power == "up" for name in job.nodes) and job.het is None:
                self._start(job, now)

    def _pick(self, job: SimJob, now: float, taken: dict[str, float]) -> list[str] | None:
        finish = FOR_EVER if job.limit is None else now + job.limit
        pool = job.needs or self.members[job.partition]
        able = [
            node
            for name in pool
            if self.usable(node := self.nodes[name])
            and not (job.het is not None and node.hidden)  # backfill alone starts it
            and node.used + taken.get(name, 0.0) + job.share <= 1.0
        ]
        free = [node for node in able if not self.barred(node.name, now, finish)]
        count = len(job.needs) or job.size
        if len(free) < count:
            barred = len(able) >= count
            job.reason = "ReqNodeNotAvail, May be reserved for other job" if barred else "Resources"
            return None
        ranks = {"up": 0, "powering_up": 1, "off": 2}
        free.sort(key=lambda node: ranks[node.power])
        return [node.name for node in free[:count]]

    @staticmethod
    def usable(node: SimNode) -> bool:
        if node.down or node.drain or node.power == "powering_down":
            return False
        return not (node.power == "up" and (node.not_responding or node.invalid))

    def barred(self, name: str, begin: float, finish: float) -> bool:
        return any(
            name in reservation.nodes and reservation.bars(begin, finish)
            for reservation in self.reservations.values()
        )

    def in_maintenance(self, now: float) -> set[str]:
        return {
            name
            for reservation in self.reservations.values()
            if "MAINT" in reservation.flags and reservation.start <= now < reservation.end
            for name in reservation.nodes
        }

    def waiting(self) -> Iterable[SimJob]:
        return (job for job in self.jobs.values() if job.waits)
