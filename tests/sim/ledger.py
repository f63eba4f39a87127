"""What must never happen, watched from outside: bounds on requests, bills, waits and quarrels."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.sim.compute import SimCompute
from tests.sim.parts import SimJob, SimNode, SimVm
from tests.sim.slurm import SimSlurm


@dataclass
class Bounds:
    """How much is allowed. Spans are seconds."""

    requests_per_node_hour: int = 6
    unwanted: float = 330.0
    """a VM without a want: the grace of 90 s, two passes, and the API's own time"""
    half_ready: float = 1500.0
    """some VMs of a job run and are billed while the others queue: partial_wait and a little"""
    static_away: float = 1500.0
    """a static node that nobody holds isn't up although there is capacity"""
    dead: float = 600.0
    """a dead VM (its disks are billed) whose node is off"""
    unexplained: float = 1200.0
    """a job waits for us, longer than for a boot, without a comment that says so"""
    untrue: float = 900.0
    """a job's comment of ours tells of a state that it isn't in"""
    down: float = 2400.0
    """a node that nobody else holds is DOWN or drained"""
    excess: int = 40
    """actions of one kind on one node within an hour"""


@dataclass
class Ledger:
    bounds: Bounds = field(default_factory=Bounds)
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    asked: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    done: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    streaks: dict[tuple[str, str], float] = field(default_factory=dict)
    sent: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    said: set[str] = field(default_factory=set)
    billed: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """node -> VM seconds"""
    unwanted: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """node -> VM seconds without a want"""

    def accuse(self, now: float, what: str, key: str | None = None) -> None:
        key = key or what
        if key not in self.said:
            self.said.add(key)
            self.violations.append(f"{now / 3600:8.3f} h  {what}")

    # --- as actions are applied

    def acted(self, kind: str, nodes: tuple[str, ...], now: float) -> None:
        self.counts[kind] += 1
        for name in nodes:
            times = self.done[kind, name]
            times.append(now)
            recent = sum(now - one < 3600 for one in times[-self.bounds.excess - 1 :])
            if recent > self.bounds.excess:
                self.accuse(now, f"{kind} for {name} over and over", f"excess/{kind}/{name}")

    def asks(self, what: str, nodes: tuple[str, ...], now: float) -> None:
        """The same name sent again is the same request (it is idempotent)."""
        if (what, nodes) in self.sent:
            return
        self.sent.add((what, nodes))
        for name in nodes:
            self.asked[name].append(now)
            recent = sum(now - one < 3600 for one in self.asked[name])
            if recent > self.bounds.requests_per_node_hour:
                self.accuse(now, f"{recent} requests for {name} within an hour", f"asks/{name}")

    def forgive(self) -> None:
        """Memory is lost, and with it the counts (DESIGN): counted anew from here."""
        self.asked.clear()
        self.done.clear()

    # --- as time goes by

    def watch(self, slurm: SimSlurm, compute: SimCompute, now: float, step: float) -> None:
        holding: set[tuple[str, str]] = set()

        def holds(kind: str, what: str, limit: float, text: str) -> None:
            key = (kind, what)
            holding.add(key)
            first = self.streaks.setdefault(key, now)
            if now - first > limit:
                self.accuse(now, f"{text} since {first / 3600:.3f} h", f"{kind}/{what}/{first}")

        for name, vm in compute.vms.items():
            if vm.own and vm.billed:
                self.billed[name] += step
                if not self._wanted(slurm, slurm.nodes.get(name), vm, now):
                    self.unwanted[name] += step
                    limit = self.bounds.unwanted
                    holds("unwanted", f"{name}/{vm.id}", limit, f"nobody wants the VM {name}")
            node = slurm.nodes.get(name)
            if vm.own and vm.dead and node is not None and node.off:
                holds("dead", f"{name}/{vm.id}", self.bounds.dead, f"the dead VM {name} is left")
        for node in slurm.nodes.values():
            self._watch_node(node, slurm, compute, now, holds)
        self._watch_jobs(slurm, compute, now, holds)
        for key in self.streaks.keys() - holding:
            del self.streaks[key]

    def _wanted(self, slurm: SimSlurm, node: SimNode | None, vm: SimVm, now: float) -> bool:
        if node is None:
            return False
        if (node.is_held() and node.wanted) or (node.static and not node.down):
            return True
        if node.down and not node.drain and (node.reason or "").startswith("slurm-flex:"):
            return False
        if node.wanted:
            return True
        number = (vm.request or "").removeprefix("j").partition("-")[0]
        job = slurm.jobs.get(int(number)) if number.isdigit() else None
        return bool(
            job is not None and job.state == "PENDING" and now <= (job.begin or job.submitted) + 60
        )

    def _watch_node(
        self, node: SimNode, slurm: SimSlurm, compute: SimCompute, now: float, holds: object
    ) -> None:
        assert callable(holds)
        if node.is_held():
            return
        if node.down or (node.drain and node.power_down != "asap" and not node.jobs):
            holds("down", node.name, self.bounds.down, f"{node.name} is DOWN or drained")
        knobs = compute.knobs[node.pool]
        size = sum(other.pool == node.pool for other in slurm.nodes.values())
        room = knobs.capacity(now) >= size and knobs.failing(now) is None
        room = room and knobs.refusing(now) is None
        barred = any(
            not one.name.startswith("slurm-flex-") and node.name in one.nodes and one.start <= now
            for one in slurm.reservations.values()
        )
        if node.static and room and not barred and (node.power != "up" or node.down):
            text = f"the static node {node.name} isn't up"
            holds("static", node.name, self.bounds.static_away, text)

    def _watch_jobs(self, slurm: SimSlurm, compute: SimCompute, now: float, holds: object) -> None:
        assert callable(holds)
        for job in slurm.waiting():
            if job.state == "CONFIGURING":
                up = [name for name in job.nodes if self._has_vm(compute, name)]
                paid = [name for name in up if not slurm.nodes[name].static]
                if paid and len(up) < len(job.nodes):
                    text = f"job {job.id} holds {len(up)} of {len(job.nodes)} VMs, billed"
                    holds("half", str(job.id), self.bounds.half_ready, text)
            waits_for_us = job.state == "CONFIGURING" or (
                job.reason == "BeginTime" and job.user_begin is None
            )
            if waits_for_us and not job.admin_comment:
                text = f"job {job.id} waits ({job.state} {job.reason}) and nothing says why"
                holds("unexplained", str(job.id), self.bounds.unexplained, text)
        for job in slurm.jobs.values():
            if _is_untrue(job):
                text = f"job {job.id} is {job.state}, and its comment is {job.admin_comment!r}"
                holds("untrue", str(job.id), self.bounds.untrue, text)

    @staticmethod
    def _has_vm(compute: SimCompute, name: str) -> bool:
        vm = compute.vms.get(name)
        return vm is not None and vm.billed


def _is_untrue(job: SimJob) -> bool:
    """A comment of ours that tells of a state which the job isn't in."""
    words = job.admin_comment or ""
    if not words.startswith("flex: "):
        return False
    runs = words.startswith("flex: running")
    if job.state == "RUNNING":
        return not runs
    if job.state == "PENDING":
        return runs or words.startswith("flex: its VMs boot")
    return job.state == "CONFIGURING" and (
        runs or words.startswith(("flex: retry at", "flex: tried again"))
    )
