"""The closed loop: a simulated Slurm and Compute Engine, and `plan` that steers them.

Time goes in steps of 30 s. The planner passes in each step while something changes and every five
minutes while nothing does (`restless` makes it pass in each step always, as the daemon does).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from slurm_flex.actions import Action, MakeRequest
from slurm_flex.cluster import Cluster, Pool
from slurm_flex.cluster.settings import Settings
from slurm_flex.model import (
    Job,
    Memory,
    Node,
    Partition,
    Reservation,
    Slurm,
    SlurmConfig,
    Snapshot,
)
from slurm_flex.model.memory import Answer
from slurm_flex.plan import plan
from tests.acts import Acts, describe
from tests.builders import make_cluster
from tests.notation import Span, span
from tests.sim.commands import Commands, SlurmRefused
from tests.sim.compute import Refused, SimCompute
from tests.sim.hands import Hands
from tests.sim.ledger import Bounds, Ledger
from tests.sim.parts import Journal, SimJob, SimNode, when
from tests.sim.slurm import SimSlurm

STEP = 30.0


@dataclass
class Faults:
    """Chances, per action or per pass. All from one seeded source."""

    lost_action: float = 0.0
    """an action isn't carried out, and nobody says so"""
    lost_reply: float = 0.0
    """it is carried out or refused, and the answer is lost"""
    crash: float = 0.0
    """the daemon dies somewhere between two actions"""
    unsaved: float = 0.0
    """the memory of a pass isn't written, though its actions were done"""
    amnesia: float = 0.0
    """all memory is lost"""
    seed: int = 1


@dataclass
class Simulation:
    pools: tuple[Pool, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    partitions: Mapping[str, str] | None = None
    bounds: Bounds = field(default_factory=Bounds)
    faults: Faults = field(default_factory=Faults)
    restless: bool = False

    def __post_init__(self) -> None:
        self.now = 0.0
        self.journal = Journal()
        self.cluster: Cluster = make_cluster(*self.pools, partitions=self.partitions)
        self.config = Settings(**self.settings)
        self.slurm = SimSlurm(self.cluster, self.journal)
        self.compute = SimCompute(self.pools, self.journal)
        self.scontrol = Commands(self.slurm)
        self.ledger = Ledger(self.bounds)
        self.hands = Hands(self.slurm, self.compute, self.scontrol, self.ledger)
        self.memory = Memory()
        self.random = random.Random(self.faults.seed)
        self.away = False
        """the daemon is away: nobody plans"""
        self.deaf_until = 0.0
        """slurmctld doesn't answer until then"""
        self.blind_until = 0.0
        """the listings of all pools are partial until then"""
        self.paused: frozenset[str] = frozenset()
        self.did: list[tuple[float, Action]] = []
        self.passes = 0
        self._seen = -1
        self._stirred = 0.0
        self._planned = -1e9
        self._cached: dict[str, tuple[tuple[object, ...], Node]] = {}

    # --- going on

    def run(self, wait: Span, until: Callable[[], bool] | None = None) -> bool:
        """Let time go by; stops early, and says True, once `until` holds."""
        end = self.now + span(wait).total_seconds()
        while self.now < end:
            if until is not None and until():
                return True
            self.step()
        return until is not None and until()

    def step(self) -> None:
        self.now += STEP
        self.journal.now = self.now
        self.compute.step(self.now)
        self.hands.remember_ends()
        self.slurm.step(self.now, self.compute.vms)
        if self.away or self.now < max(self.deaf_until, self.blind_until):
            self.ledger.streaks.clear()
        else:
            self.ledger.watch(self.slurm, self.compute, self.now, STEP)
        if self.journal.changes != self._seen:
            self._seen, self._stirred = self.journal.changes, self.now
        quiet = self.now - self._stirred > 10 * STEP
        if self.away or (quiet and not self.restless and self.now - self._planned < 300):
            return
        self.plan()

    def forget(self) -> None:
        self.journal.note("memory is lost")
        self.memory = Memory()
        self.ledger.forgive()

    def plan(self) -> Acts:
        """One pass: observe, plan, apply (with what goes wrong in between)."""
        self._planned = self.now
        self.passes += 1
        if self._chance(self.faults.amnesia):
            self.forget()
        snapshot = self.snapshot()
        actions, memory = plan(snapshot, self.memory)
        if not self._chance(self.faults.unsaved):
            self.memory = memory
        stages = [action.stage for action in actions]
        if stages != sorted(stages):
            self.ledger.accuse(self.now, "actions aren't in the order of application")
        self._apply(actions)
        return Acts(actions)

    def _apply(self, actions: tuple[Action, ...]) -> None:
        survives = len(actions)
        if self._chance(self.faults.crash):
            survives = self.random.randint(0, len(actions))
            self.journal.note(f"the daemon dies after {survives} of {len(actions)} actions")
        for action in actions[:survives]:
            if self._chance(self.faults.lost_action):
                self.journal.note(f"lost: {describe(action)}")
                continue
            self.did.append((self.now, action))
            self.journal.lines.append(f"{self.now / 3600:8.3f} h    > {describe(action)}")
            try:
                self.hands.apply(action, self.now)
            except Refused as refusal:
                self.journal.note(f"refused: {refusal}")
                if not self._chance(self.faults.lost_reply):
                    self._answer(action, refusal)
            except SlurmRefused as refusal:
                self.journal.note(f"refused: {refusal}")

    def _answer(self, action: Action, refusal: Refused) -> None:
        answer = Answer(
            pool=getattr(action, "pool", ""),
            request=getattr(action, "name", None),
            nodes=getattr(action, "nodes", ()),
            code=refusal.code,
            message=refusal.message,
            at=when(self.now),
        )
        self.memory = replace(self.memory, answers=(*self.memory.answers, answer))

    def _chance(self, chance: float) -> bool:
        return chance > 0 and self.random.random() < chance

    # --- what observe sees

    def snapshot(self) -> Snapshot:
        cluster, slurm, knobs = self.cluster, self.slurm, self.slurm.knobs
        maint = slurm.in_maintenance(self.now)
        excluded = ",".join(sorted(slurm.excluded)) or "(null)"
        return Snapshot(
            now=when(self.now),
            settings=self.config,
            cluster=cluster,
            slurm=Slurm(
                version=knobs.version,
                responding=self.now >= self.deaf_until,
                config=SlurmConfig(
                    suspend_exc_nodes=excluded,
                    suspend_exc_parts="(null)",
                    suspend_exc_states=knobs.suspend_exc_states or "(null)",
                    suspend_time=timedelta(seconds=knobs.suspend_time),
                    suspend_timeout=timedelta(seconds=knobs.suspend_timeout),
                    resume_timeout=timedelta(seconds=knobs.resume_timeout),
                    slurmctld_parameters="cloud_dns,idle_on_node_suspend",
                ),
                nodes=tuple(
                    self._node(node, node.name in maint)
                    for node in slurm.nodes.values()
                    if not node.missing
                ),
                jobs=tuple(_job(job) for job in slurm.jobs.values() if not job.over),
                partitions=tuple(
                    Partition(name, "INACTIVE" if slurm.stopped else "UP", tuple(members))
                    for name, members in slurm.members.items()
                ),
                reservations=tuple(
                    Reservation(each.name, each.nodes, when(each.start), when(each.end), each.flags)
                    for each in slurm.reservations.values()
                ),
            ),
            cloud={
                pool.id: self.compute.group(pool.id, self.now, self.now < self.blind_until)
                for pool in self.pools
            },
            paused_pools=self.paused,
        )

    def _node(self, node: SimNode, maint: bool) -> Node:
        key = (node.text(maint), node.reason, node.reason_time, node.comment, node.boot_time)
        cached = self._cached.get(node.name)
        if cached is not None and cached[0] == key:
            return cached[1]
        seen = Node(
            name=node.name,
            state=node.text(maint),
            reason=node.reason,
            reason_time=when(node.reason_time) if node.reason else None,
            reason_user=node.reason_user,
            boot_time=when(node.boot_time) if node.power == "up" else None,
            comment=node.comment,
        )
        self._cached[node.name] = (key, seen)
        return seen

    # --- what people do

    def submit(self, number: int, **more: Any) -> SimJob:
        return self.slurm.submit(SimJob(number, **more), self.now)

    def node(self, name: str) -> SimNode:
        return self.slurm.nodes[name]

    def reload(self, *pools: Pool) -> None:
        """The cluster file changes, and slurm.conf with it, but for nodes that still are there."""
        self.pools = pools
        self.cluster = make_cluster(*pools, partitions=self.partitions)
        self.slurm.cluster = self.cluster
        for name, node in self.slurm.nodes.items():
            place = self.cluster.locate(name)
            node.static = place is not None and place.static
        self.slurm.excluded = {name for name, node in self.slurm.nodes.items() if node.static}
        self.journal.note("the cluster file changes")

    def drain_for_health(self, name: str, context: str = "epilog") -> None:
        """What a broken node's own checks write on it."""
        reason = f"slurm-flex:health: gpu-count: 7 of 8 GPUs answer ({context})"
        self.scontrol.drain((name,), reason, self.now)

    def fail_prolog(self, name: str) -> None:
        """The prolog drains its node and exits 1: the job goes back (nohold_on_prolog_fail)."""
        self.drain_for_health(name, "prolog")
        self.slurm.fail_jobs(self.node(name), self.now, "failure")

    # --- looking back

    def requests(self) -> list[MakeRequest]:
        return [action for _, action in self.did if isinstance(action, MakeRequest)]

    def count(self, kind: str, name: str | None = None) -> int:
        """How often an action of a kind was done (for one node)."""
        return sum(
            kind == action.KIND and (name is None or name in getattr(action, "nodes", ()))
            for _, action in self.did
        )

    def busy_vms(self) -> list[str]:
        return sorted(vm.name for vm in self.compute.vms.values() if vm.billed)

    def live_requests(self) -> list[str]:
        return sorted(each.name for each in self.compute.requests.values() if each.live)

    def check(self) -> None:
        """Nothing that must never happen has happened."""
        assert not self.ledger.violations, self.story("\n".join(self.ledger.violations[:12]))

    def story(self, headline: str) -> str:
        return f"{headline}\n--- what happened last\n{self.journal.tail()}"


def _job(job: SimJob) -> Job:
    begin = job.begin if job.state == "PENDING" else job.started or job.placed
    return Job(
        id=job.id,
        state=job.state,
        reason=job.reason,
        partition=job.partition,
        user="ada",
        batch=job.batch,
        nodes=job.nodes,
        required_nodes=job.needs,
        num_nodes=job.size,
        time_limit=None if job.limit is None else timedelta(seconds=job.limit),
        submit_time=when(job.submitted),
        start_time=None if begin is None else when(begin),
        end_time=None
        if job.started is None or job.limit is None
        else when(job.started + job.limit),
        priority=0 if job.held else job.priority,
        exclusive=job.share >= 1.0,
        requeue=job.requeue,
        restarts=job.restarts,
        het_job_id=job.het,
        comment=job.comment,
        admin_comment=job.admin_comment,
    )
