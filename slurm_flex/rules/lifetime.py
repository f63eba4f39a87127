"""The known end of a VM: reserve the last moments, warn who would outlast it, send idle nodes home.

No other power manager schedules for it: jobs that fit run, those that don't go to a fresh node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from slurm_flex.actions import (
    Action,
    Event,
    JobNotify,
    JobRequeue,
    JobSignal,
    NodePowerDown,
    Reserve,
    Unreserve,
)
from slurm_flex.member import Member, Phase
from slurm_flex.model import OWN_COMMENT, OWN_RESERVATION, Job, Reservation
from slurm_flex.model.memory import Restart
from slurm_flex.rules.exclusion import is_excluded
from slurm_flex.rules.maintenance import (
    FLEX_LIMIT,
    HOST_MAINTENANCE,
    RESERVED_FOR_IT,
    is_planned_for,
)
from slurm_flex.rules.renewal import renew
from slurm_flex.rules.reserved import LAPSES_AFTER, TOGETHER, stands_for
from slurm_flex.rules.telling import LIMIT_REACHED, tell_the_end
from slurm_flex.world import SHORTEST_RUN, World

GOES_HOME = "slurm-flex: near its end of life"
LEAVES_ITS_HOST = f"slurm-flex: {HOST_MAINTENANCE}"
_WISH = re.compile(r"(?:^|[\s,;])flex-signal=(?:SIG)?([A-Z0-9+-]{1,12})(?:@(\d{1,6}))?(?=$|[\s,;])")


def plan(world: World) -> Iterator[Action]:
    yield from _warn(world)
    yield from _send_home(world)
    yield from renew(world)
    yield from _reserve(world)


# --- reservations


def _reserve(world: World) -> Iterator[Action]:
    ours = {r.name: r for r in world.own_reservations if r.is_for_an_end}
    wished = _wished(world, ours)
    for name, (ending, ends) in sorted(wished.items()):
        start, end = ends - world.settings.end_margin, ends + LAPSES_AFTER
        existing = ours.get(name)
        doubtful = _still_doubtful(world, existing, ending) if existing is not None else ()
        nodes = (*ending, *doubtful)
        if existing is not None and _is_the_same(world, existing, nodes, start, end):
            continue
        yield Reserve(
            name=name,
            nodes=nodes,
            start=max(start, world.now),
            end=end,
            why=f"their VMs end at {ends:%m-%d %H:%M:%S} UTC",
        )
    for name, reservation in sorted(ours.items()):
        if name not in wished and _is_over(world, reservation):
            yield Unreserve(name=name, why="the VMs it was for are gone")


def _still_doubtful(world: World, existing: Reservation, nodes: tuple[str, ...]) -> Iterator[str]:
    """Nodes that are looked at again before they are given up: the reservation tells their end."""
    for name in existing.nodes:
        member = world.members.get(name)
        if name not in nodes and member is not None and _is_doubtful(world, member):
            yield name


def _is_doubtful(world: World, member: Member) -> bool:
    if member.phase is Phase.ENDING:
        return member.name not in world.put_down
    return member.phase is Phase.UNKNOWN


def _wished(
    world: World, ours: dict[str, Reservation]
) -> dict[str, tuple[tuple[str, ...], datetime]]:
    """name -> nodes and their end: one reservation for all nodes of a request that end together."""
    ending: dict[str, list[tuple[Member, datetime]]] = {}
    for member in world.members.values():
        ends = world.end_of(member)
        if ends is None or not _is_worth_reserving(world, member, ends):
            continue
        ending.setdefault(_reservation_name(world, member, ours), []).append((member, ends))
    wished: dict[str, tuple[tuple[str, ...], datetime]] = {}
    for name, group in ending.items():
        first = min(ends for _, ends in group)
        together = tuple(m.name for m, ends in group if ends - first <= TOGETHER)
        wished[name] = (together, first)
        for member, ends in group:
            if member.name not in together:
                own = f"{OWN_RESERVATION}{member.name}{_kind_of_end(world, member)}"
                wished[own] = ((member.name,), ends)
    return wished


def _is_worth_reserving(world: World, member: Member, ends: datetime) -> bool:
    return (
        member.has_live_instance
        and member.instance is not None
        and member.instance.is_running
        and is_planned_for(world, member)
        and ends > world.now
        and not world.is_settled(member)
        and member.phase in (Phase.UP, Phase.BOOTING, Phase.SICK, Phase.HELD)
    )


def _reservation_name(world: World, member: Member, ours: dict[str, Reservation]) -> str:
    """After the request; a name that already holds the node is kept, whatever became of it."""
    request = world.request_behind(member)
    kind = _kind_of_end(world, member)
    fresh = f"{OWN_RESERVATION}{request.name if request is not None else member.name}{kind}"
    if fresh in ours:
        return fresh
    ends = world.end_of(member)
    for name, reservation in sorted(ours.items()):
        if name.endswith(RESERVED_FOR_IT) != bool(kind):
            continue
        if member.name in reservation.nodes and ends and stands_for(world, reservation, ends):
            return name
    return fresh


def _kind_of_end(world: World, member: Member) -> str:
    """One VM's maintenance must not break up the reservation of its request's other nodes."""
    return RESERVED_FOR_IT if world.maintenance_of(member) is not None else ""


def _is_the_same(
    world: World, existing: Reservation, nodes: tuple[str, ...], start: datetime, end: datetime
) -> bool:
    """By the fields we set; Slurm adds flags of its own. A start that has passed can't be moved."""
    if set(existing.nodes) != set(nodes) or existing.start is None or existing.end is None:
        return False
    second = timedelta(seconds=1)
    started = start <= world.now and existing.start <= world.now
    return (started or abs(existing.start - start) <= second) and abs(existing.end - end) <= second


def _is_over(world: World, reservation: Reservation) -> bool:
    """None of its nodes is up under the VM that it was made for; unknown ones stay reserved."""
    members = [world.members.get(name) for name in reservation.nodes]
    known = [member for member in members if member is not None]
    elsewhere = any(
        member is None and (name in world.nodes or world.cluster.locate(name) is not None)
        for name, member in zip(reservation.nodes, members, strict=True)
    )
    return (
        bool(known)
        and not elsewhere
        and not any(
            _is_doubtful(world, member) or _is_made_for(world, reservation, member)
            for member in known
        )
    )


def _is_made_for(world: World, reservation: Reservation, member: Member) -> bool:
    """The node still has the VM whose end this reserves; an end that isn't known may be it."""
    if not member.has_live_instance or member.phase in (Phase.OFF, Phase.LEAVING):
        return False
    ends = world.end_of(member)
    return ends is None or stands_for(world, reservation, ends)


# --- warnings


def _warn(world: World) -> Iterator[Action]:
    for job in world.jobs:
        if not job.is_running or job.is_completing:
            continue
        ends = _end_under(world, job)
        if ends is None or (job.end_time is not None and job.end_time <= ends):
            continue
        key = f"{job.id}/{job.restarts}/{ends:%Y%m%dT%H%M}"
        left = ends - world.now
        if world.settings.expiry_warning and left <= world.settings.expiry_warning:
            yield from _notify(world, job, ends, key)
        yield from _signal(world, job, left, key)
        if (
            (world.settings.expiry_requeue or _is_lost_by_its_nodes(world, job))
            and job.is_requeueable
            and job.group not in world.cut
            and timedelta(0) < left <= world.settings.expiry_grace
            and world.recall.once(f"requeued/{key}")
        ):
            yield from _leave_in_order(world, job, ends)


def _leave_in_order(world: World, job: Job, ends: datetime) -> Iterator[Action]:
    """It may start elsewhere as soon as it has left; should a node end sooner, `ended` waits for
    its old VM to be gone, as after any other end."""
    key = str(job.id)
    left = {n: m.instance.id for n in job.nodes if (m := world.members.get(n)) and m.instance}
    world.recall.expiries[key] = world.recall.expiries.get(key, 0) + 1
    world.recall.restarts[key] = Restart(nodes=job.nodes, instances=left, at=world.now)
    by_host = _cause_of(world, job, ends) == HOST_MAINTENANCE
    yield from tell_the_end(world, job, HOST_MAINTENANCE if by_host else LIMIT_REACHED, ends)
    yield JobRequeue(job=job.id, why="its node ends in a moment: leave in good order")


def _end_under(world: World, job: Job) -> datetime | None:
    """The first end among the nodes that the job runs on."""
    return min(_ends_under(world, job), default=None)


def _ends_under(world: World, job: Job) -> list[datetime]:
    members = (world.members.get(name) for name in job.nodes)
    return [
        end
        for m in members
        if m is not None
        and is_planned_for(world, m)
        and m.has_live_instance
        and not world.is_settled(m)
        if (end := world.end_of(m)) is not None
    ]


def _is_lost_by_its_nodes(world: World, job: Job) -> bool:
    """Before 23.02 a job whose nodes all go down at once is never cleaned up after: its steps get
    no GPUs when it runs again, and those GPUs stay in use for ever (R 22.05.8)."""
    if world.release >= (23, 2) or len(job.nodes) < 2:
        return False
    ends = _ends_under(world, job)
    return len(ends) == len(job.nodes) and max(ends) - min(ends) <= TOGETHER


def _notify(world: World, job: Job, ends: datetime, key: str) -> Iterator[Action]:
    if ends <= world.now - world.settings.clock_skew or not world.recall.once(f"warned/{key}"):
        return
    then = "it will be requeued" if job.is_requeueable else "Slurm can't requeue it: save your work"
    cause = _cause_of(world, job, ends)
    yield JobNotify(
        job=job.id,
        text=f"{OWN_COMMENT}this node ends at {ends:%Y-%m-%d %H:%M} UTC ({cause}); {then}",
        why="it would outlast its node",
    )
    yield Event(
        event="NODE_EXPIRING",
        job=job.id,
        nodes=job.nodes,
        text=f"the job would outlast its node, which ends at {ends:%m-%d %H:%M} UTC ({cause})",
        why="warned",
    )


def _cause_of(world: World, job: Job, ends: datetime) -> str:
    members = (world.members.get(name) for name in job.nodes)
    by_host = any(m is not None and world.maintenance_of(m) == ends for m in members)
    return HOST_MAINTENANCE if by_host else FLEX_LIMIT


def _signal(world: World, job: Job, left: timedelta, key: str) -> Iterator[Action]:
    """Only where the job asked or the site did: an untrapped signal kills (facts: slurm.md)."""
    wish = _wish_of(world, job)
    if wish is None or not job.batch:
        return
    signal, before = wish
    if timedelta(0) < left <= before and world.recall.once(f"signalled/{key}"):
        yield JobSignal(
            job=job.id, signal=signal, why="its node ends soon, and it asked to be told"
        )


def _wish_of(world: World, job: Job) -> tuple[str, timedelta] | None:
    for text in (job.comment, job.extra):
        match = _WISH.search(text or "")
        if match:
            seconds = match[2]
            before = timedelta(seconds=int(seconds)) if seconds else world.settings.expiry_warning
            return match[1], before
    signal = world.settings.expiry_signal.get(job.partition or "")
    return (signal, world.settings.expiry_warning) if signal else None


# --- idle nodes


def _send_home(world: World) -> Iterator[Action]:
    tired = [
        member
        for member in world.undecided(Phase.UP)
        if _is_idle(member) and _is_tired(world, member)
    ]
    leaving = [member for member in tired if world.maintenance_of(member) is not None]
    old = [member for member in tired if member not in leaving]
    yield from _go_home(world, old, GOES_HOME, "too little of its life is left")
    yield from _go_home(world, leaving, LEAVES_ITS_HOST, "it comes back on another host")


def _go_home(world: World, members: list[Member], reason: str, why: str) -> Iterator[Action]:
    if members:
        names = tuple(member.name for member in members)
        yield NodePowerDown(nodes=names, how="asap", reason=reason, why=why)
        world.send_home(members)


def _is_idle(member: Member) -> bool:
    node = member.node
    return (
        node is not None
        and not member.is_busy
        and not node.is_down
        and not node.is_drained
        and not node.is_power_down_requested
    )


def _is_tired(world: World, member: Member) -> bool:
    ends = world.end_of(member)
    if ends is None or not is_planned_for(world, member):
        return False
    if member.static:
        if not world.settings.refresh_static and world.maintenance_of(member) is None:
            return False
    elif is_excluded(world, member):
        return False
    life = max(member.pool.run_duration, timedelta(seconds=1))
    if member.pool.run_duration >= SHORTEST_RUN:
        life = _own_life(member, ends) or life
    return ends - world.now < min(world.settings.min_useful_life, life / 4)


def _own_life(member: Member, ends: datetime) -> timedelta | None:
    """What this VM was given, which may differ from what the file says now."""
    created = member.instance.created if member.instance else None
    return ends - created if created is not None and ends > created else None
