"""Ask for what Slurm powers up: one request for all of a job's nodes that have no VM yet.

By job priority, then age, static nodes in between; at most `active_requests` a region. Whoever has
to wait stands in line, and `narrate` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from slurm_flex.actions import (
    Action,
    CreateGroup,
    CreateInstances,
    DeleteInstances,
    MakeRequest,
)
from slurm_flex.cluster.model import LONGEST_RUN, Pool
from slurm_flex.member import Member, Phase
from slurm_flex.model import Job
from slurm_flex.model.memory import SentRequest
from slurm_flex.rules.breaker import may_launch
from slurm_flex.world import SHORTEST_RUN, World

NODES_A_REQUEST = 1000
"""Google's limit for one resize request, and for one deleteInstances call."""


@dataclass(frozen=True)
class Ask:
    """What one request (or one createInstances) will be for."""

    pool: Pool
    stem: str
    members: tuple[Member, ...]
    jobs: tuple[Job, ...]

    @property
    def rank(self) -> tuple[int, float, int, str]:
        """Highest priority first, then the oldest, then Slurm's own order: the job's number."""
        age = min((j.submit_time.timestamp() for j in self.jobs if j.submit_time), default=0.0)
        number = min((j.id for j in self.jobs), default=0)
        return (-max((j.priority for j in self.jobs), default=0), age, number, self.stem)


def plan(world: World) -> Iterator[Action]:
    yield from _resend(world)
    yield from _clear_namesakes(world)
    places = _free_places(world)
    created: dict[str, list[Member]] = {}
    for ask in _in_order(world):
        if _is_too_often(world, ask):
            continue
        region = world.region_of(ask.pool)
        exists = world.groups[ask.pool.id].exists
        if exists and ask.pool.is_flex_start and places[region] <= 0:
            world.in_line.update(member.name for member in ask.members)
            continue
        # Last, since it may make this one the probe, which then has to be sent.
        if not may_launch(world, ask.pool, ask.stem):
            continue
        if not exists:
            if ask.pool.id not in created:
                created[ask.pool.id] = []
                yield CreateGroup(pool=ask.pool.id, why="the first node of this pool is wanted")
            continue
        if not ask.pool.is_flex_start:
            created.setdefault(ask.pool.id, []).extend(ask.members)
            _note(world, ask, None, ask.members)
            continue
        for start in range(0, len(ask.members), NODES_A_REQUEST):
            if places[region] <= 0:
                world.in_line.update(member.name for member in ask.members)
                break
            places[region] -= 1
            yield _request(world, ask, ask.members[start : start + NODES_A_REQUEST])
    for pool_id, members in sorted(created.items()):
        for start in range(0, len(members), NODES_A_REQUEST):
            names = tuple(m.name for m in members[start : start + NODES_A_REQUEST])
            yield CreateInstances(pool=pool_id, nodes=names, why="Slurm powers them up")


def _request(world: World, ask: Ask, members: tuple[Member, ...]) -> Action:
    key = f"{ask.pool.id}/{ask.stem}"
    attempt = world.recall.attempts.get(key, 0) + 1
    world.recall.attempts[key] = attempt
    name = f"{ask.stem}-{attempt}"
    sent = _note(world, ask, name, members)
    job = ask.jobs[0].group if ask.jobs else None
    return MakeRequest(
        pool=ask.pool.id,
        name=name,
        nodes=sent.nodes,
        job=job,
        run_duration=sent.run_duration,
        why=f"job {job} waits for them" if job is not None else "Slurm powers them up",
    )


def _note(world: World, ask: Ask, name: str | None, members: tuple[Member, ...]) -> SentRequest:
    """Remember what is sent, before it is: a lost reply must not make a second VM."""
    nodes = tuple(member.name for member in members)
    sent = SentRequest(
        pool=ask.pool.id,
        name=name,
        nodes=nodes,
        run_duration=_run_duration(world, ask),
        at=world.now,
        job=ask.jobs[0].group if ask.jobs else None,
    )
    world.recall.sent[f"{ask.pool.id}/{name or nodes[0]}"] = sent
    for node in nodes:
        world.recall.asked[node] = (*world.recall.asked.get(node, ()), world.now)
        world.recall.armed[node] = world.now
    world.settle(members)
    return sent


def _run_duration(world: World, ask: Ask) -> timedelta:
    """The pool's duration, or the job's own where that is shorter; within Google's bounds."""
    wished = ask.pool.run_duration
    limits = [job.time_limit for job in ask.jobs]
    if world.settings.run_duration == "job" and limits and None not in limits:
        longest = max(limit for limit in limits if limit is not None)
        wished = min(wished, longest + world.settings.boot_timeout + world.settings.job_margin)
    return min(max(wished, SHORTEST_RUN), LONGEST_RUN)


def _clear_namesakes(world: World) -> Iterator[Action]:
    """A dead VM of that name from before stands in the way: a new one can't be asked for."""
    for pool in world.pools:
        dead = [
            m.name
            for m in world.undecided(Phase.ASKED)
            if m.pool.id == pool.id
            and m.instance is not None
            and m.instance.is_dead
            and m.instance.action != "DELETING"
        ]
        if dead:
            yield DeleteInstances(pool=pool.id, nodes=tuple(dead), why="a dead VM has their name")


def _resend(world: World) -> Iterator[Action]:
    """A request whose reply was lost and that no list shows: the same name again, the same VMs."""
    for key, sent in sorted(world.recall.sent.items()):
        pool = next((pool for pool in world.pools if pool.id == sent.pool), None)
        if pool is None or sent.name is None or sent.listed:
            continue
        if key not in world.recall.last.sent:
            continue
        quiet = world.now - sent.at
        if quiet < world.settings.cloud_timeout + world.settings.orphan_grace:
            continue
        members = [world.members[name] for name in sent.nodes if name in world.members]
        if sent.job in world.cut or any(world.is_settled(m) for m in members):
            continue
        if len(members) < len(sent.nodes) or not _all_still_wait(sent, members):
            del world.recall.sent[key]  # whoever waits there now is asked for anew
            continue
        if pool.id in world.paused:
            continue  # nobody knows whether it arrived: it may well be something new
        world.recall.sent[key] = replace(sent, at=world.now)
        yield MakeRequest(
            pool=sent.pool,
            name=sent.name,
            nodes=sent.nodes,
            job=sent.job,
            run_duration=sent.run_duration,
            why="no list shows it: sent again under the same name",
        )


def _all_still_wait(sent: SentRequest, members: list[Member]) -> bool:
    """For the same job, or for none as before."""
    groups = [{job.group for job in m.jobs} for m in members]
    same = (sent.job in group if sent.job is not None else not group for group in groups)
    return all(m.waits_for_vm for m in members) and all(same)


def _free_places(world: World) -> dict[str, int]:
    """Places left in each region's queue; other people's requests in our groups take some too.

    In a pool that couldn't be read, what was sent and isn't known to be over still takes its place.
    """
    taken = [
        world.region_of(pool)
        for pool in world.pools
        for request in world.requests(pool)
        if request.is_live
    ]
    for sent in world.recall.sent.values():
        pool = world.cluster.pool(sent.pool) if sent.pool in world.hidden_pools else None
        if pool is not None and sent.name is not None:
            taken.append(world.region_of(pool))
    most = world.settings.active_requests
    return {region: most - taken.count(region) for region in map(world.region_of, world.pools)}


def _in_order(world: World) -> list[Ask]:
    """All that may be asked for now: jobs by rank, a single node after each of them."""
    asks = [ask for pool in world.pools for ask in _asks(world, pool)]
    by_job = sorted((ask for ask in asks if ask.jobs), key=lambda ask: ask.rank)
    single = sorted(
        (ask for ask in asks if not ask.jobs), key=lambda ask: _waiting_since(world, ask)
    )
    ordered: list[Ask] = []
    while by_job or single:
        ordered += by_job[:1] + single[:1]
        by_job, single = by_job[1:], single[1:]
    return ordered


def _waiting_since(world: World, ask: Ask) -> tuple[datetime, int, str]:
    member = ask.members[0]
    first = world.recall.see(f"power-up/{member.pool.id}/{member.name}").first
    return (first, member.index, ask.stem)


def _asks(world: World, pool: Pool) -> Iterator[Ask]:
    if pool.id in world.paused:
        return
    open_members = {
        m.name: m
        for m in world.undecided(Phase.ASKED)
        if m.pool.id == pool.id and m.request is None
    }
    if not open_members:
        return
    blocked = {
        m.name
        for m in open_members.values()
        if m.stranger or m.instance is not None or _may_still_be_listed(world, m)
    }
    world_jobs = sorted(
        world.jobs, key=lambda job: (-job.priority, job.submit_time or world.now, job.id)
    )
    taken: set[str] = set()
    for group in dict.fromkeys(job.group for job in world_jobs if job.holds_nodes):
        if group in world.cut:
            continue
        jobs = world.components(group)
        held = [m for m in world.members_held_by(jobs) if m.name in open_members]
        members = tuple(m for m in held if m.name not in taken)
        if not members or not any(m.node and m.node.is_powering_up for m in held):
            continue
        taken.update(m.name for m in members)
        if any(r.is_live and r.job_id == group and not r.nodes for r in world.requests(pool)):
            continue  # its own request is there, and the list doesn't say for which nodes
        if not any(m.name in blocked for m in members):
            yield Ask(pool, f"j{group}", members, jobs)
    for member in open_members.values():
        if member.name in taken or member.name in blocked or member.is_allocated:
            continue
        if member.node is None or not member.node.is_powering_up or member.node.is_drained:
            continue
        yield Ask(pool, member.stem, (member,), ())


def _may_still_be_listed(world: World, member: Member) -> bool:
    """A request succeeded for this very power-up, and its VM isn't in the list yet."""
    for request in world.requests_for(member):
        if not request.is_succeeded:
            continue
        if world.was_made_for(request, member):
            return world.recall.see(f"unlisted/{member.pool.id}/{member.name}").passes < 3
    return False


def _is_too_often(world: World, ask: Ask) -> bool:
    """At most so many launches a node and hour: whatever loops, loops slowly."""
    limit = world.settings.launches_per_node_hour
    hour = world.now - timedelta(hours=1)
    return any(
        sum(1 for at in world.recall.asked.get(member.name, ()) if at > hour) >= limit
        for member in ask.members
    )
