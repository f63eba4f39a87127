"""A small Compute Engine: groups, resize requests, VMs and their end (facts: compute-engine.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from slurm_flex.cluster import Pool
from slurm_flex.model import CLUSTER_LABEL, CloudError, Group, Instance, Request
from tests.notation import STOCKOUT
from tests.sim.parts import Journal, SimRequest, SimVm, when

SHORTEST_RUN, LONGEST_RUN = 600.0, 604800.0


class Refused(Exception):
    """The API said no. `code` and `message` are Google's."""

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(f"{code}: {message}")


@dataclass
class Knobs:
    """How Compute Engine behaves; tests turn them while it runs."""

    capacity: Callable[[float], int] = lambda now: 10_000
    """VMs that a pool may have at the given time"""
    accept_delay: float = 30.0
    provision_delay: float = 60.0
    boot_delay: float = 90.0
    delete_delay: float = 45.0
    end_lag: float = 20.0
    """Compute Engine may begin to end a VM 30 s late"""
    end_leaves_terminated: bool = False
    list_lag: float = 0.0
    """how long a new request or instance isn't listed, and a deleted one still is"""
    request_quota: int = 100
    failing: Callable[[float], tuple[str, str] | None] = lambda now: None
    """an error that ends requests as FAILED"""
    refusing: Callable[[float], tuple[str, str] | None] = lambda now: None
    """an error that the insert itself answers"""
    boots: Callable[[str, float], bool] = lambda name, now: True


class SimCompute:
    def __init__(self, pools: tuple[Pool, ...], journal: Journal) -> None:
        self.pools = {pool.id: pool for pool in pools}
        self.journal = journal
        self.knobs = {pool.id: Knobs() for pool in pools}
        self.groups = {pool.id: True for pool in pools}
        self.vms: dict[str, SimVm] = {}
        self.requests: dict[tuple[str, str], SimRequest] = {}
        self.places: dict[str, str] = {}
        """createInstances without capacity: name -> pool; the group tries again by itself"""
        self.ghosts: list[tuple[float, Instance, str]] = []
        self.made = 0

    # --- what time does

    def step(self, now: float) -> None:
        for request in list(self.requests.values()):
            self._advance(request, now)
        for vm in list(self.vms.values()):
            self._live(vm, now)
        for name, pool in list(self.places.items()):
            if name not in self.vms and self._room(pool, now):
                del self.places[name]
                self._make(name, pool, None, now, None)
        for key, request in list(self.requests.items()):
            if request.ended is not None and now - request.ended > 14 * 86400:
                del self.requests[key]

    def _advance(self, request: SimRequest, now: float) -> None:
        knobs = self.knobs[request.pool]
        if request.state == "CREATING" and now >= request.created + knobs.accept_delay:
            request.state = "ACCEPTED"
            self.journal.note(f"request {request.name} accepted")
        if request.state != "ACCEPTED" or request.provisioning:
            self._finish(request, now)
            return
        failure = knobs.failing(now)
        if failure is not None:
            self._end(request, "FAILED", now, failure)
            return
        taken = sum(vm.pool == request.pool and not vm.dead for vm in self.vms.values())
        if any(name in self.vms for name in request.nodes):
            return
        if taken + len(request.nodes) > knobs.capacity(now):
            if request.last is None:
                request.last = STOCKOUT
                self.journal.changes += 1
            return
        request.provisioning = True
        self.journal.note(f"request {request.name} is being provisioned")
        for name in request.nodes:
            self._make(name, request.pool, request.duration, now, request.name)

    def _finish(self, request: SimRequest, now: float) -> None:
        if request.state != "ACCEPTED":
            return
        mine = [self.vms[name] for name in request.nodes if name in self.vms]
        if all(vm.status not in ("PROVISIONING", "STAGING") for vm in mine):
            request.last = None
            self._end(request, "SUCCEEDED", now)

    def _end(
        self, request: SimRequest, state: str, now: float, error: tuple[str, str] | None = None
    ) -> None:
        request.state, request.ended, request.error, request.last = state, now, error, None
        self.journal.note(f"request {request.name} {state.lower()}")

    def _make(
        self, name: str, pool: str, duration: float | None, now: float, request: str | None
    ) -> None:
        self.made += 1
        knobs = self.knobs[pool]
        vm = SimVm(name, str(1000 + self.made), pool, now, duration, request)
        asked = self.requests.get((pool, request or ""))
        vm.own = asked is None or asked.own
        vm.running_at = now + knobs.provision_delay
        if knobs.boots(name, now):
            vm.slurmd_at = vm.running_at + knobs.boot_delay
        self.vms[name] = vm
        self.journal.note(f"VM {name} ({vm.id}) is being made")

    def _live(self, vm: SimVm, now: float) -> None:
        knobs = self.knobs[vm.pool]
        if vm.gone_at is not None and now >= vm.gone_at:
            self._vanish(vm, now)
            return
        if vm.status == "PROVISIONING" and now >= vm.running_at and vm.action != "DELETING":
            vm.status, vm.action = "RUNNING", "NONE"
            vm.running_at = now
            vm.ends = None if vm.duration is None else now + vm.duration
            self.journal.note(f"VM {vm.name} runs")
        if vm.status == "REPAIRING" and vm.back_at is not None and now >= vm.back_at:
            vm.status, vm.slurmd_at = "RUNNING", now + knobs.boot_delay
            self.journal.note(f"VM {vm.name} runs again, on another host")
        if vm.status == "RUNNING" and vm.maintenance is not None and now >= vm.maintenance:
            self.journal.note(f"the host of VM {vm.name} goes into maintenance")
            vm.maintenance = None
            self.kill(vm.name, now)
        if vm.status != "RUNNING" or vm.ends is None or now < vm.ends + knobs.end_lag:
            return
        self.journal.note(f"VM {vm.name} comes to its end")
        if knobs.end_leaves_terminated:
            self.kill(vm.name, now)
        else:
            vm.status, vm.action, vm.died_at = "STOPPING", "DELETING", now
            vm.gone_at = now + knobs.delete_delay

    def _vanish(self, vm: SimVm, now: float) -> None:
        lag = self.knobs[vm.pool].list_lag
        if lag:
            self.ghosts.append((now + lag, self._listed(vm), vm.pool))
        del self.vms[vm.name]
        self.journal.note(f"VM {vm.name} ({vm.id}) is gone")

    # --- faults

    def kill(self, name: str, now: float, status: str = "TERMINATED") -> None:
        """A host error, or somebody who stops or suspends it; nobody repairs it (DO_NOTHING)."""
        vm = self.vms[name]
        vm.status, vm.action, vm.died_at = status, "NONE", now
        self.journal.note(f"VM {name} {status.lower()}")

    def break_host(self, name: str, now: float, back_in: float | None) -> None:
        """A host error with automatic restart: REPAIRING, and RUNNING again unless back_in is None.

        Its slurmd answers after another boot.
        """
        vm = self.vms[name]
        vm.status, vm.slurmd_at, vm.back_at = "REPAIRING", None, None
        if back_in is not None:
            vm.back_at = now + back_in
        self.journal.note(f"the host of VM {name} breaks")

    def lose(self, name: str, now: float) -> None:
        """Deleted by somebody else, or gone without a word."""
        self.vms[name].died_at = now
        self._vanish(self.vms[name], now)

    def announce(self, name: str, begins: float | None) -> None:
        """Its host's maintenance is announced, moved or (None) called off."""
        self.vms[name].maintenance = begins
        self.journal.note(f"maintenance of VM {name} is announced for {begins}")

    def silence(self, name: str, now: float) -> None:
        """The VM runs on, its slurmd doesn't."""
        self.vms[name].slurmd_at = None
        self.journal.note(f"slurmd on {name} falls silent")

    # --- the API

    def insert(
        self, pool: str, name: str, nodes: tuple[str, ...], duration: timedelta, now: float
    ) -> None:
        knobs, length = self.knobs[pool], duration.total_seconds()
        known = self.requests.get((pool, name))
        if known is not None:
            if known.live and known.nodes == nodes:
                return
            raise Refused("alreadyExists", f"The resource '{name}' already exists")
        refusal = knobs.refusing(now)
        if refusal is not None:
            raise Refused(*refusal)
        if not SHORTEST_RUN <= length <= LONGEST_RUN:
            raise Refused("INVALID_ARGUMENT", "Specified maxRunDuration is out of range.")
        if len(nodes) > 1000 or len(set(nodes)) != len(nodes) or not nodes:
            raise Refused("INVALID_ARGUMENT", "Invalid value for field 'resource.instances'")
        if not self.groups[pool]:
            raise Refused("notFound", "The resource 'instanceGroupManagers' was not found")
        live = [request for request in self.requests.values() if request.live]
        if len(live) >= knobs.request_quota:
            raise Refused(
                "QUOTA_EXCEEDED",
                f"Quota 'ACTIVE_RESIZE_REQUESTS' exceeded.  Limit: {knobs.request_quota}.0 in "
                "region us-central1.",
            )
        queued = {one for request in live if request.pool == pool for one in request.nodes}
        taken = [one for one in nodes if one in self.vms or one in queued]
        if taken:
            raise Refused("RESOURCE_ALREADY_EXISTS", f"Instance '{taken[0]}' already exists")
        self.requests[pool, name] = SimRequest(name, pool, nodes, length, now)
        self.journal.note(f"request {name} for {len(nodes)} nodes: {','.join(nodes)}")

    def create(self, pool: str, nodes: tuple[str, ...], now: float) -> None:
        """createInstances: each on its own (ON_DEMAND, SPOT)."""
        refusal = self.knobs[pool].refusing(now)
        if refusal is not None:
            raise Refused(*refusal)
        for name in nodes:
            if name in self.vms or name in self.places:
                continue
            if self._room(pool, now):
                self._make(name, pool, None, now, None)
            else:
                self.places[name] = pool
                self.journal.note(f"instance {name} waits for capacity")

    def _room(self, pool: str, now: float) -> bool:
        taken = sum(vm.pool == pool and not vm.dead for vm in self.vms.values())
        return taken < self.knobs[pool].capacity(now)

    def cancel(self, pool: str, name: str, now: float) -> None:
        request = self.requests.get((pool, name))
        if request is None:
            raise Refused("notFound", f"The resource '{name}' was not found")
        if not request.live or request.provisioning:
            raise Refused(
                "conditionNotMet",
                "Cancelling resize request that has reached a final state is not possible.",
            )
        self._end(request, "CANCELLED", now)

    def forget(self, pool: str, name: str) -> None:
        request = self.requests.get((pool, name))
        if request is not None and request.live:
            raise Refused("conditionNotMet", "The resize request is active")
        if request is not None:
            del self.requests[pool, name]
            self.journal.note(f"request {name} deleted")

    def delete(self, pool: str, nodes: tuple[str, ...], now: float) -> None:
        """deleteInstances with skipInstancesOnValidationError: what can't be deleted is skipped."""
        for name in nodes:
            if self.places.pop(name, None):
                self.journal.note(f"instance {name} waits no longer")
            vm = self.vms.get(name)
            if vm is None or vm.pool != pool or vm.action == "DELETING":
                continue
            vm.action, vm.status = "DELETING", "STOPPING"
            vm.died_at = now if vm.died_at is None else vm.died_at
            vm.gone_at = now + self.knobs[pool].delete_delay
            self.journal.note(f"VM {name} ({vm.id}) is being deleted")

    # --- the lists

    def group(self, pool: str, now: float, partial: bool = False) -> Group:
        """What the lists say; `partial`: a page is missing, and they say so."""
        lag = self.knobs[pool].list_lag
        requests = [each for each in self.requests.values() if each.pool == pool]
        listed = [vm for vm in self.vms.values() if vm.pool == pool and now - vm.created >= lag]
        instances = [self._listed(vm) for vm in listed]
        instances += [ghost for until, ghost, where in self.ghosts if where == pool and now < until]
        self.ghosts = [ghost for ghost in self.ghosts if now < ghost[0]]
        instances += [
            Instance(name=name, action="CREATING")
            for each in requests
            if each.live and not each.provisioning
            for name in each.nodes
            if name not in self.vms
        ]
        instances += [
            Instance(name=name, action="CREATING", error=CloudError(*STOCKOUT))
            for name, where in self.places.items()
            if where == pool and name not in self.vms
        ]
        return Group(
            complete=not partial,
            exists=self.groups[pool],
            target_size=None,
            instances=tuple(instances[::2] if partial else instances),
            requests=tuple(_listed_request(each) for each in requests if now - each.created >= lag),
        )

    @staticmethod
    def _listed(vm: SimVm) -> Instance:
        return Instance(
            name=vm.name,
            id=vm.id,
            status=vm.status,
            action=vm.action,
            created=when(vm.created),
            terminates=None if vm.ends is None else when(vm.ends),
            labels={CLUSTER_LABEL: "c1"} if vm.own else {},
            maintenance=None if vm.maintenance is None else when(vm.maintenance),
        )


def _listed_request(request: SimRequest) -> Request:
    return Request(
        name=request.name,
        state=request.state,
        nodes=request.nodes,
        created=when(request.created),
        run_duration=timedelta(seconds=request.duration),
        error=None if request.error is None else CloudError(*request.error),
        last_attempt=None if request.last is None else CloudError(*request.last),
    )
