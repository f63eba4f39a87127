"""Apply one action to the simulated world, and judge it: is it ours to do, and is it right now?"""

from __future__ import annotations

from dataclasses import dataclass

from slurm_flex import actions as act
from slurm_flex.actions import Action
from tests.sim.commands import Commands
from tests.sim.compute import SimCompute
from tests.sim.ledger import Ledger
from tests.sim.parts import Lost, SimReservation, SimVm, seconds
from tests.sim.slurm import SimSlurm

SKEW = 90.0


@dataclass
class Hands:
    slurm: SimSlurm
    compute: SimCompute
    commands: Commands
    ledger: Ledger

    def apply(self, action: Action, now: float) -> None:
        """Do it. Raises Refused or SlurmRefused where the real thing would."""
        nodes: tuple[str, ...] = getattr(action, "nodes", ())
        if not isinstance(action, act.Event):
            self.ledger.acted(action.KIND, nodes, now)
        match action:
            case act.MakeRequest() | act.CreateInstances():
                self._ask(action, now)
            case act.CancelRequest() | act.DeleteRequest():
                self._end_request(action, now)
            case act.DeleteInstances():
                self._delete(action, now)
            case act.CreateGroup():
                self.compute.groups[action.pool] = True
            case act.SaveConsole() | act.ReportHost() | act.Event():
                pass
            case act.Reserve() | act.Unreserve():
                self._reserve(action, now)
            case act.NodeAction():
                self._node(action, now)
            case act.JobAction():
                self._job(action, now)
            case _:
                self.ledger.accuse(now, f"an action that nothing is known about: {action.KIND}")

    # --- Compute Engine

    def _ask(self, action: act.MakeRequest | act.CreateInstances, now: float) -> None:
        name = action.name if isinstance(action, act.MakeRequest) else f"create at {now}"
        self.ledger.asks(f"{action.pool}/{name}", action.nodes, now)
        for name in action.nodes:
            node = self.slurm.nodes.get(name)
            if node is None or node.pool != action.pool:
                self.ledger.accuse(now, f"a request for {name}, which isn't in pool {action.pool}")
            elif not node.asked_for:
                self.ledger.accuse(
                    now, f"a request for {name} that Slurm didn't ask for ({node.text(False)})"
                )
            if self.compute.knobs[action.pool].list_lag:
                continue
            if name in self.compute.vms:
                self.ledger.accuse(now, f"a request for {name}, which has a VM")
            for request in self.compute.requests.values():
                if request.live and name in request.nodes:
                    self.ledger.accuse(
                        now, f"a second live request for {name}: {request.name} is there"
                    )
        if isinstance(action, act.CreateInstances):
            self.compute.create(action.pool, action.nodes, now)
        else:
            self.compute.insert(action.pool, action.name, action.nodes, action.run_duration, now)

    def _end_request(self, action: act.CancelRequest | act.DeleteRequest, now: float) -> None:
        request = self.compute.requests.get((action.pool, action.name))
        if request is not None and not request.own:
            self.ledger.accuse(now, f"{action.KIND} of somebody else's {action.name}")
        if isinstance(action, act.DeleteRequest):
            self.compute.forget(action.pool, action.name)
        else:
            self.compute.cancel(action.pool, action.name, now)

    def _delete(self, action: act.DeleteInstances, now: float) -> None:
        for name in action.nodes:
            vm, node = self.compute.vms.get(name), self.slurm.nodes.get(name)
            if vm is None:
                continue
            if not vm.own:
                self.ledger.accuse(now, f"the VM {name} of somebody else is deleted")
            last = vm.last_moment
            if node is None or vm.status != "RUNNING" or last is None or now >= last - SKEW:
                continue
            runs = any(self.slurm.jobs[one].state == "RUNNING" for one in node.jobs)
            if runs and vm.answers(now):  # its node_down may have been lost on the way
                self.ledger.accuse(now, f"the VM {name} is deleted under a running job")
            if node.is_held() and node.wanted:
                self.ledger.accuse(now, f"the VM of {name} is deleted, which somebody holds")
        self.compute.delete(action.pool, action.nodes, now)

    # --- Slurm

    def _cause(self, name: str, now: float) -> Lost:
        vm = self.compute.vms.get(name)
        if vm is not None and self._had_its_short_life(vm, now):
            return "expired"
        ends = self.ends.get(name) if vm is None or vm.dead else vm.last_moment
        return "expired" if ends is not None and now >= ends - SKEW else "failure"

    @property
    def ends(self) -> dict[str, float]:
        return self._ends

    def remember_ends(self) -> None:
        """The last known end of each node's VM, for judging why it went."""
        for name, vm in self.compute.vms.items():
            if vm.last_moment is not None:
                if not vm.dead:
                    self._ends[name] = vm.last_moment
            elif vm.status == "RUNNING":
                self._ends.pop(name, None)

    def __post_init__(self) -> None:
        self._ends: dict[str, float] = {}

    def _node(self, action: act.NodeAction, now: float) -> None:
        known = [self.slurm.nodes[name] for name in action.nodes if name in self.slurm.nodes]
        for node in known:
            if node.is_held() and not isinstance(action, act.NodeComment):
                kept = isinstance(action, act.NodeDown) and action.reason == node.reason
                if not kept and not (isinstance(action, act.NodePowerUp) and node.asked_for):
                    self.ledger.accuse(
                        now, f"{action.KIND} on {node.name}, which somebody holds: {node.reason}"
                    )
        match action:
            case act.NodeDown() | act.NodePowerDown():
                self._take_away(action, now)
            case act.NodePowerUp():
                self.commands.power_up(action.nodes, now)
            case act.NodeDrain():
                self.commands.drain(action.nodes, action.reason, now)
            case act.NodeUndrain():
                self.commands.undrain(action.nodes)
            case act.NodeResume():
                self.commands.resume(action.nodes, now)
            case act.NodeIdle():
                self.commands.idle(action.nodes)
            case act.SuspendExclude():
                self.commands.exclude(action.nodes)
            case act.NodeComment():
                for node in known:
                    if node.comment and not node.comment.startswith("flex: "):
                        self.ledger.accuse(now, f"the comment on {node.name} is overwritten")
                if action.text and not action.text.startswith("flex: "):
                    self.ledger.accuse(now, f"a comment without our mark: {action.text}")
                self.commands.comment(action.nodes, action.text)

    def _take_away(self, action: act.NodeDown | act.NodePowerDown, now: float) -> None:
        for name in action.nodes:
            node = self.slurm.nodes.get(name)
            if node is None:
                continue
            if not action.reason.startswith("slurm-flex:") and action.reason != node.reason:
                self.ledger.accuse(now, f"a reason without our mark: {action.reason}")
            forced = isinstance(action, act.NodeDown) or action.how == "force"
            if forced and not self._may_cut(name, now):
                self.ledger.accuse(now, f"{action.KIND} cuts a running job on {name}: {action.why}")
        if isinstance(action, act.NodeDown):
            causes = {name: self._cause(name, now) for name in action.nodes}
            self.commands.down(action.nodes, action.reason, now, causes=causes)
        else:
            self.commands.power_down(action.nodes, action.how, action.reason, now)

    def _may_cut(self, name: str, now: float) -> bool:
        """A running job may lose its node only when the VM is gone, ended or silent."""
        node, vm = self.slurm.nodes[name], self.compute.vms.get(name)
        if not any(self.slurm.jobs[one].state == "RUNNING" for one in node.jobs):
            return True
        if vm is None or not vm.answers(now) or vm.id != node.vm_id or node.invalid:
            return True
        if self._had_its_short_life(vm, now):
            return True
        return vm.last_moment is not None and now >= vm.last_moment - SKEW

    def _had_its_short_life(self, vm: SimVm, now: float) -> bool:
        """Granted ten minutes for a shorter configured duration, and has had that."""
        pool = self.slurm.cluster.pool_of(vm.name)
        short = 600.0 if pool is None else pool.run_duration.total_seconds()
        return short < 600 and vm.status == "RUNNING" and now >= vm.running_at + short - 1

    def _job(self, action: act.JobAction, now: float) -> None:
        job = self.slurm.jobs.get(action.job)
        if job is None:
            self.ledger.accuse(now, f"{action.KIND} of an unknown job {action.job}")
            return
        match action:
            case act.JobComment():
                if job.admin_comment and not job.admin_comment.startswith("flex: "):
                    self.ledger.accuse(now, f"the comment of job {job.id} is overwritten")
                if action.text and not action.text.startswith("flex: "):
                    self.ledger.accuse(now, f"a comment without our mark: {action.text}")
                self.commands.job_comment(job.id, action.text)
            case act.JobStart():
                self._start(action, now)
            case act.JobRequeue():
                self.commands.requeue(job.id, now)
            case act.JobHold():
                self.commands.hold(job.id)
            case act.JobRelease():
                self.commands.release(job.id)
            case act.JobSignal():
                self.commands.signal(job.id, action.signal, now)
            case act.JobNotify():
                self.commands.notify(job.id, action.text, now)

    def _start(self, action: act.JobStart, now: float) -> None:
        job, after = self.slurm.jobs[action.job], action.after.total_seconds()
        if job.user_begin is not None and job.user_begin > now + after + 1:
            self.ledger.accuse(now, f"job {job.id} starts before the time its user set")
        if after == 0 and job.state == "PENDING" and job.begin is not None and job.begin > now:
            if job.lost == "failure":
                self.ledger.accuse(now, f"job {job.id} restarts at once after a failure")
            for vm in self.compute.vms.values():
                if vm.id in job.lost_vms and not vm.dead:
                    self.ledger.accuse(now, f"job {job.id} restarts while its old VM is there")
            leaving = [
                name for name in job.lost_nodes if self.slurm.nodes[name].power == "powering_down"
            ]
            if leaving and job.lost_vms:
                self.ledger.accuse(now, f"job {job.id} restarts while {leaving} are powering down")
        self.commands.start(job.id, after, now)

    def _reserve(self, action: act.Reserve | act.Unreserve, now: float) -> None:
        if not action.name.startswith("slurm-flex-"):
            self.ledger.accuse(now, f"{action.KIND} of {action.name}, which isn't ours")
        if isinstance(action, act.Unreserve):
            self.commands.unreserve(action.name)
            return
        start, end = seconds(action.start), seconds(action.end)
        self.commands.reserve(SimReservation(action.name, action.nodes, start, end), now)
