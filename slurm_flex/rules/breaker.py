"""A pool whose launches fail is left alone for a while, visibly, and tried with one probe.

Open: nothing is asked for until the retry time. Half-open: one launch, the probe. Good: closed.
Capacity waits never open it; a missing permission or a wrong configuration opens it at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from slurm_flex.actions import Action, Event, JobStart
from slurm_flex.cluster.model import Pool
from slurm_flex.failures import Failure
from slurm_flex.member import Member, Phase
from slurm_flex.model.memory import Breaker
from slurm_flex.rules.failure import COUNTS_FOR_BREAKER, NEEDS_A_PERSON, pool_waits
from slurm_flex.world import World

REOPENED: Final = "reopened/"
_LONGEST = timedelta(hours=4)


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        breaker = world.recall.breakers.get(pool.id)
        reason = _reason_to_open(world, pool)
        if breaker is None:
            if reason is not None:
                yield from _open(world, pool, *reason, delay=world.settings.breaker_retry)
        elif breaker.probe is not None:
            yield from _judge_probe(world, pool, breaker)


def reopen(world: World) -> Iterator[Action]:
    """A person has mended it and said so: the jobs that wait out its failures come at once."""
    for pool in world.pools:
        if world.recall.told.pop(f"{REOPENED}{pool.id}", None) is None:
            continue
        for member in world.members_of(pool):
            world.recall.node_waits.pop(member.name, None)
        partitions = {partition.id for partition in world.cluster.partitions_of(pool)}
        for job in world.jobs:
            if job.partition not in partitions or not job.is_pending:
                continue
            if world.recall.delays.pop(str(job.id), None) is None:
                continue
            for failure in Failure:
                world.recall.back_offs.pop(f"j{job.group}/{failure}", None)
            if job.waits_for_begin_time:
                yield JobStart(job=job.id, why=f"pool {pool.id} was opened again")


def may_launch(world: World, pool: Pool, stem: str) -> bool:
    """Whether this launch may be asked for now; in a half-open pool one may, and is the probe."""
    if pool_waits(world, pool) is not None:
        return False
    breaker = world.recall.breakers.get(pool.id)
    if breaker is None:
        return True
    if breaker.probe is None and world.now >= breaker.retry_at:
        world.recall.breakers[pool.id] = Breaker(
            failure=breaker.failure,
            why=breaker.why,
            since=breaker.since,
            retry_at=world.now,
            delay=breaker.delay,
            probe=stem,
        )
        return True
    return False


def _reason_to_open(world: World, pool: Pool) -> tuple[str, str] | None:
    """The class and the words; only launches since the breaker was last closed count."""
    closed = world.recall.told.get(f"closed/{pool.id}")
    launches = [
        launch
        for launch in world.recall.launches.get(pool.id, ())
        if closed is None or launch.at > closed
    ]
    failures = [launch for launch in launches if launch.outcome in _COUNTED]
    for failure in NEEDS_A_PERSON:
        if launches and launches[-1].outcome == failure.value:
            return failure.value, f"{failure}: a person must mend it"
    if len(failures) >= world.settings.breaker_failures:
        return failures[-1].outcome, f"{len(failures)} of the last {len(launches)} launches failed"
    return _doubted_check(world, pool) or _asked_too_often(world, pool)


_NO_FAULT = frozenset({Failure.CAPACITY.value, Failure.PREEMPTED.value})
_COUNTED = frozenset(failure.value for failure in COUNTS_FOR_BREAKER)


def _doubted_check(world: World, pool: Pool) -> tuple[str, str] | None:
    """The same check failed on several nodes in a short time: the image or the check is broken.

    Since the pool was last opened again: whoever did that knows of those before.
    """
    opens = world.now - world.settings.health_breaker_window
    since = max(opens, world.recall.told.get(f"closed/{pool.id}", opens)).isoformat()
    for key, entries in sorted(world.recall.check_failures.items()):
        pool_id, _, check = key.partition("/")
        nodes = {entry.split(" ")[1] for entry in entries if entry.split(" ")[0] > since}
        if pool_id == pool.id and len(nodes) >= world.settings.health_breaker_nodes:
            return "health", f"check {check} failed on {len(nodes)} nodes within minutes"
    return None


def _asked_too_often(world: World, pool: Pool) -> tuple[str, str] | None:
    hour = world.now - timedelta(hours=1)
    limit = world.settings.launches_per_node_hour
    for member in world.members_of(pool):
        times = [at for at in world.recall.asked.get(member.name, ()) if at > hour]
        if len(times) >= limit and member.waits_for_vm and member.request is None:
            return "loop", f"{member.name} was asked for {len(times)} times within an hour"
    return None


def _open(world: World, pool: Pool, failure: str, why: str, delay: timedelta) -> Iterator[Action]:
    wait = min(delay, _LONGEST)
    world.recall.breakers[pool.id] = Breaker(
        failure=failure,
        why=why,
        since=world.now,
        retry_at=world.now + wait,
        delay=wait,
    )
    yield Event(
        event="BREAKER_OPEN",
        pool=pool.id,
        text=f"{why}; next try at {world.now + wait:%m-%d %H:%M} UTC",
        why=why,
    )


def _judge_probe(world: World, pool: Pool, breaker: Breaker) -> Iterator[Action]:
    """The launches since the probe went out tell: good closes, a failure waits twice as long."""
    since = [
        launch for launch in world.recall.launches.get(pool.id, ()) if launch.at >= breaker.retry_at
    ]
    if any(launch.outcome == "good" for launch in since):
        close(world, pool)
        yield Event(event="BREAKER_CLOSED", pool=pool.id, text="its probe is up", why="probe good")
        return
    failed = [launch for launch in since if launch.outcome not in _NO_FAULT]
    if failed:
        why = f"the probe failed: {failed[-1].outcome}"
        yield from _open(world, pool, failed[-1].outcome, why, delay=breaker.delay * 2)
    elif not _probe_is_under_way(world, pool, breaker):
        world.recall.breakers[pool.id] = Breaker(
            breaker.failure, breaker.why, breaker.since, world.now, breaker.delay
        )


def _probe_is_under_way(world: World, pool: Pool, breaker: Breaker) -> bool:
    """Its own request lives, or its own VM boots; a probe whose job went away makes room.

    So does one that has stood in the queue for as long as the breaker was open: it waits for
    capacity, which is no failure, and might do so for days.
    """
    if breaker.retry_at == world.now:
        return True
    if any(
        request.stem == breaker.probe
        and request.is_live
        and world.now - (request.created or world.now) < breaker.delay
        for request in world.requests(pool)
    ):
        return True
    return any(
        breaker.probe in {member.stem, *(f"j{job.group}" for job in member.jobs)}
        for member in world.members_of(pool)
        if member.phase is Phase.BOOTING or _is_being_created(member)
    )


def _is_being_created(member: Member) -> bool:
    return member.request is not None and not member.request.name


def close(world: World, pool: Pool) -> None:
    world.recall.breakers.pop(pool.id, None)
    world.recall.told[f"closed/{pool.id}"] = world.now
