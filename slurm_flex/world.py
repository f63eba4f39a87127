"""The snapshot seen whole: each configured node with its VM, its request, its jobs and its phase.

Built once a pass. Rules speak of phases and of members; they look nothing up by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from slurm_flex.cluster.model import Pool
from slurm_flex.member import Member, Phase, phase_of
from slurm_flex.model import (
    Group,
    Instance,
    Job,
    Node,
    Request,
    Reservation,
    Snapshot,
)
from slurm_flex.model.memory import SentRequest
from slurm_flex.recall import Recall

SHORTEST_RUN: Final = timedelta(seconds=600)
"""The least that Compute Engine takes as requestedRunDuration (facts: compute-engine.md)."""
REQUEUE_PENALTY: Final = timedelta(seconds=120)
"""Slurm's own wait after a node failure; any later start is somebody's wish (facts: slurm.md)."""
PLACE_KEPT_FOR: Final = timedelta(seconds=60)
CREATION_BELIEVED_FOR: Final = timedelta(minutes=5)
"""How long a call that was sent may take to show in a list ("more than a minute", facts)."""
_APPLY_SLACK: Final = timedelta(seconds=15)


class World:
    """One pass's view. `recall` is the only thing in it that rules write to."""

    def __init__(self, snapshot: Snapshot, recall: Recall) -> None:
        self.now: datetime = snapshot.now
        self.settings = snapshot.settings
        self.cluster = snapshot.cluster
        self.slurm = snapshot.slurm
        self.paused = snapshot.paused_pools
        self.recall = recall
        self.pools: tuple[Pool, ...] = tuple(
            pool for pool in snapshot.cluster.compute_pools if _is_seen(snapshot.cloud.get(pool.id))
        )
        self.hidden_pools = frozenset(
            {pool.id for pool in snapshot.cluster.pools}
            | set(snapshot.cloud)
            - {pool_id for pool_id, group in snapshot.cloud.items() if group.complete}
        ) - {pool.id for pool in self.pools}
        self.groups: dict[str, Group] = dict(snapshot.cloud)
        self.nodes: dict[str, Node] = {node.name: node for node in snapshot.slurm.nodes}
        self.jobs: tuple[Job, ...] = tuple(sorted(snapshot.slurm.jobs, key=lambda job: job.id))
        self.own_reservations: tuple[Reservation, ...] = tuple(
            sorted((r for r in snapshot.slurm.reservations if r.is_own), key=lambda r: r.name)
        )
        self.foreign_reservations: tuple[Reservation, ...] = tuple(
            r for r in snapshot.slurm.reservations if not r.is_own
        )
        self._holders: dict[str, list[Job]] = {}
        for job in self.jobs:
            if job.holds_nodes:
                for name in job.nodes:
                    self._holders.setdefault(name, []).append(job)
        self._instances: dict[str, tuple[Instance | None, bool]] = {}
        self._requests: dict[str, tuple[Request, ...]] = {}
        self._live: dict[str, Request] = {}
        self._naming: dict[tuple[str, str], list[Request]] = {}
        self._by_job: dict[int, list[Job]] = {}
        for job in self.jobs:
            self._by_job.setdefault(job.group, []).append(job)
        for pool in self.pools:
            self._index_instances(pool)
            self._index_requests(pool)
        self.members: dict[str, Member] = {
            member.name: member for pool in self.pools for member in self._members_of(pool)
        }
        self._pool_order = {pool.id: place for place, pool in enumerate(self.pools)}
        self._settled: set[str] = set()
        self.in_line: set[str] = set()
        """nodes that wait for a place in the region's queue of requests"""
        self.cut: set[int] = set()
        """jobs that lose a node in this pass: Slurm requeues them, so nothing is asked for them"""
        self.said: set[int] = set()
        """jobs that had their last words in this pass: nothing is added to those"""
        self.put_down: set[str] = set()
        """nodes whose VM has ended and that `ended` powers down in this very pass"""

    # --- looking

    def members_of(self, pool: Pool) -> Iterator[Member]:
        return (self.members[name] for name in self.cluster.node_names(pool))

    def undecided(self, *phases: Phase) -> list[Member]:
        """The members that no rule has decided about yet, in these phases (or in any)."""
        return [
            member
            for member in self.members.values()
            if member.name not in self._settled and (not phases or member.phase in phases)
        ]

    def settle(self, members: Iterable[Member]) -> None:
        """What was decided for these nodes stands: later rules leave them alone in this pass."""
        self._settled.update(member.name for member in members)

    def cut_jobs_on(self, members: Iterable[Member]) -> None:
        """These nodes go down: their jobs go back to the queue or end."""
        self.cut.update(job.group for member in members for job in member.jobs)

    def send_home(self, members: Iterable[Member]) -> None:
        """We send them off to come back fresh: a static one needs no patience to return."""
        for member in members:
            self.recall.power_ups.pop(member.name, None)
            self._settled.add(member.name)

    def is_settled(self, member: Member) -> bool:
        return member.name in self._settled

    def requests(self, pool: Pool) -> tuple[Request, ...]:
        """The pool's requests by name: those listed, and those sent and not listed yet."""
        return self._requests.get(pool.id, ())

    def requests_for(self, member: Member) -> tuple[Request, ...]:
        """The requests that name this node, live or over, oldest first."""
        return tuple(self._naming.get((member.pool.id, member.name), ()))

    def components(self, group: int) -> tuple[Job, ...]:
        """The jobs under one id: all components of a heterogeneous job, else just the job."""
        return tuple(self._by_job.get(group, ()))

    def members_held_by(self, jobs: Iterable[Job]) -> list[Member]:
        """The members that these jobs hold now, in the cluster's order, each once."""
        names = {name for job in jobs if job.holds_nodes for name in job.nodes}
        held = [member for name in names if (member := self.members.get(name)) is not None]
        return sorted(held, key=lambda member: (self._pool_order[member.pool.id], member.index))

    def region_of(self, pool: Pool) -> str:
        return pool.zone.rpartition("-")[0] or self.cluster.region

    def request_behind(self, member: Member) -> Request | None:
        """The request that an instance came from: the last one made before it that names it."""
        made = member.instance.created if member.instance else None
        sources = [
            request
            for request in self.requests_for(member)
            if not (request.is_failed or request.is_cancelled)
            and (made is None or request.created is None or request.created <= made)
        ]
        return max(sources, key=lambda one: (one.created or self.now, one.name), default=None)

    def was_made_for(self, request: Request, member: Member) -> bool:
        """The node was given out before the request was made; a later job has its own request."""
        if request.created is None:
            return True
        if member.jobs:
            starts = [job.start_time for job in member.jobs if job.start_time is not None]
            if not starts:
                return any(job.group == request.job_id for job in member.jobs)
            return min(starts) <= request.created + self.settings.clock_skew / 3
        first = self.recall.see(f"power-up/{member.pool.id}/{member.name}").first
        return first <= request.created or first == self.now

    # --- end of life

    def end_of(self, member: Member) -> datetime | None:
        """When the member's VM ends: its life, or sooner by its host; None while it isn't known."""
        return self.maintenance_of(member) or self.life_end_of(member)

    def maintenance_of(self, member: Member) -> datetime | None:
        """When its host's maintenance ends the VM, if that is before its life is over.

        One that began before the VM was made is another VM's.
        """
        instance = member.instance
        if instance is None or instance.maintenance is None:
            return None
        if instance.created is not None and instance.maintenance <= instance.created:
            return None
        life = self.life_end_of(member)
        return instance.maintenance if life is None or instance.maintenance < life else None

    def life_end_of(self, member: Member) -> datetime | None:
        """When the VM's duration is over, by Compute Engine or by us; None while not known."""
        instance = member.instance
        if instance is None:
            return None
        ends = instance.terminates
        if not member.pool.is_flex_start:
            return ends
        request = self.request_behind(member)
        granted = request.run_duration if request is not None else None
        if ends is None and instance.created is not None and instance.is_alive:
            ends = instance.created + (granted or max(member.pool.run_duration, SHORTEST_RUN))
        return self._shortened_end(member, instance, granted, ends)

    def _shortened_end(
        self, member: Member, instance: Instance, granted: timedelta | None, ends: datetime | None
    ) -> datetime | None:
        """A duration below 600 s is asked for as 600 s and ended by us (scenario 77).

        A VM that was granted more had its duration from an earlier cluster file, and keeps it.
        """
        wished = member.pool.run_duration
        if ends is None or wished >= SHORTEST_RUN:
            return ends
        if granted is None and instance.created is not None:
            granted = SHORTEST_RUN
            if ends - instance.created > SHORTEST_RUN + REQUEUE_PENALTY:
                return ends
        if granted != SHORTEST_RUN:
            return ends
        return ends - SHORTEST_RUN + wished

    # --- who needs it

    def is_reserved_by_others(self, member: Member) -> bool:
        """In somebody's active reservation: from the list, since the MAINT flag may be ours."""
        return any(
            member.name in reservation.nodes and reservation.is_active(self.now)
            for reservation in self.foreign_reservations
        )

    def is_static_and_free(self, member: Member) -> bool:
        """A static node that nothing holds back: it shall be up."""
        return (
            member.static
            and member.phase is not Phase.HELD
            and not self.is_reserved_by_others(member)
        )

    def keeps_place(self, request: Request) -> bool:
        """The request's job was sent back by Slurm and comes again in a moment: keep its place."""
        if request.job_id is None or not (request.is_live or request.is_succeeded):
            return False
        return any(
            (job.waits_for_begin_time or job.was_just_requeued)
            and str(job.id) not in self.recall.delays
            and (job.start_time is None or self.now <= job.start_time + PLACE_KEPT_FOR)
            and not self._starts_much_later(job)
            for job in self.components(request.job_id)
        )

    def _starts_much_later(self, job: Job) -> bool:
        """Slurm's own BeginTime is at most 120 s away; a later one is the user's wish."""
        return (
            job.start_time is not None
            and job.start_time > self.now + REQUEUE_PENALTY + _APPLY_SLACK
        )

    def wanted_nodes(self, request: Request) -> list[str]:
        """The request's nodes that somebody still needs: a job, the floor, or a hand."""
        if self.keeps_place(request):
            return list(request.nodes)
        return [name for name in request.nodes if self._is_wanted(name, manual=request.is_manual)]

    def _is_wanted(self, name: str, *, manual: bool) -> bool:
        member = self.members.get(name)
        if member is None:
            return name in self.nodes or self.cluster.locate(name) is not None
        if member.node is None or member.phase is Phase.UNKNOWN:
            return True  # half a picture decides nothing
        if member.phase is Phase.HELD:
            return member.is_allocated and not member.node.is_down
        if member.phase is Phase.LEAVING:
            return False
        if member.is_allocated or self.is_static_and_free(member):
            return True
        return manual and (member.node.is_powering_up or member.phase is Phase.UP)

    # --- Slurm's settings

    @property
    def release(self) -> tuple[int, ...]:
        """Slurm's release as numbers, (24, 11); one that isn't told counts as a new one."""
        words = (self.slurm.version or "").split(".")[:2]
        return tuple(int(word) for word in words if word.isdigit()) or (99, 0)

    @property
    def suspend_timeout(self) -> timedelta:
        return self.slurm.config.suspend_timeout or self.settings.suspend_timeout

    @property
    def resume_timeout(self) -> timedelta:
        return self.slurm.config.resume_timeout or self.settings.resume_timeout

    # --- building

    def _index_instances(self, pool: Pool) -> None:
        """One VM a node: of several the one that Slurm registered, else the living, the newest."""
        found: dict[str, list[Instance]] = {}
        for instance in self.groups[pool.id].instances:
            if instance.is_real:
                found.setdefault(instance.name, []).append(instance)
        for name, instances in found.items():
            ours = [one for one in instances if not self._is_stranger(one)]
            node = self.nodes.get(name)
            registered = node.instance_id if node else None
            best = max(
                ours,
                key=lambda one: (
                    one.id is not None and one.id == registered,
                    one.is_alive,
                    one.created.timestamp() if one.created else 0.0,
                    one.id or "",
                ),
                default=None,
            )
            self._instances[name] = (best, best is None)

    def _is_stranger(self, instance: Instance) -> bool:
        """Labels that couldn't be read (None) say nothing; labels without ours say no."""
        return instance.labels is not None and not instance.is_labelled(self.cluster.id)

    def _index_requests(self, pool: Pool) -> None:
        listed = {request.name: request for request in self.groups[pool.id].requests}
        for key, sent in list(self.recall.sent.items()):
            if sent.pool != pool.id:
                continue
            if sent.name is None:
                self._index_creation(key, sent)
            elif sent.name in listed:
                self._note_listed(key, sent, listed[sent.name])
            elif self._is_still_believed(key, sent):
                listed[sent.name] = Request(
                    name=sent.name,
                    state="SENT",
                    nodes=sent.nodes,
                    created=sent.at,
                    run_duration=sent.run_duration,
                )
            else:
                del self.recall.sent[key]
        ordered = tuple(sorted(listed.values(), key=lambda r: (r.created or self.now, r.name)))
        self._requests[pool.id] = ordered
        for request in ordered:
            for name in request.nodes:
                self._naming.setdefault((pool.id, name), []).append(request)
                if request.is_live:
                    self._live.setdefault(name, request)

    def _note_listed(self, key: str, sent: SentRequest, listed: Request) -> None:
        if not listed.is_live:
            del self.recall.sent[key]
        elif not sent.listed:
            self.recall.sent[key] = replace(sent, listed=True)

    def _is_still_believed(self, key: str, sent: SentRequest) -> bool:
        """Not listed yet, or listed once and hidden by a stale list: never ask twice for that."""
        return not sent.listed or self.recall.see(f"unlisted-request/{key}").passes <= 2

    def _index_creation(self, key: str, sent: SentRequest) -> None:
        """createInstances has no name to look for: it is over when its instances are listed."""
        missing = tuple(name for name in sent.nodes if name not in self._instances)
        if not missing or self.now - sent.at > CREATION_BELIEVED_FOR:
            del self.recall.sent[key]
            return
        creation = Request(name="", state="SENT", nodes=missing, created=sent.at)
        for name in missing:
            self._live.setdefault(name, creation)

    def _members_of(self, pool: Pool) -> Iterator[Member]:
        for index, name in enumerate(self.cluster.node_names(pool)):
            node = self.nodes.get(name)
            instance, stranger = self._instances.get(name, (None, False))
            request = self._live.get(name)
            yield Member(
                name=name,
                pool=pool,
                index=index,
                static=pool.is_static(index),
                node=node,
                instance=instance,
                request=request,
                jobs=tuple(self._holders.get(name, ())),
                phase=phase_of(node, instance, request, hidden=stranger),
                stranger=stranger,
            )


def _is_seen(group: Group | None) -> bool:
    return group is not None and group.complete
