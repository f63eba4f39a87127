"""Calls that failed before there was a request, and named instances that could not be made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from slurm_flex.actions import Action, DeleteInstances
from slurm_flex.cluster.model import Pool
from slurm_flex.failures import Failure, classify
from slurm_flex.member import Member, Phase
from slurm_flex.model import CloudError
from slurm_flex.model.memory import Answer
from slurm_flex.rules.failure import note_failure, tell_failure
from slurm_flex.rules.release import give_back
from slurm_flex.world import World


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        yield from _hear_answers(world, pool)
        yield from _creations(world, pool)


def _hear_answers(world: World, pool: Pool) -> Iterator[Action]:
    """Errors of inserts, as apply found them out: judged like a request that failed."""
    heard = [answer for answer in world.recall.answers if answer.pool == pool.id]
    if not heard:
        return
    world.recall.answers = tuple(a for a in world.recall.answers if a.pool != pool.id)
    for answer in heard:
        error = CloudError(answer.code, answer.message)
        _forget_what_was_sent(world, answer)
        waiting = [
            m
            for name in answer.nodes
            if (m := world.members.get(name)) is not None
            and m.phase in (Phase.ASKED, Phase.QUEUED)
            and not world.is_settled(m)
            and not (m.request is not None and m.request.state not in ("SENT",))
        ]
        key = f"{answer.request or '+'.join(answer.nodes)}@{answer.at.isoformat()}"
        if classify(error) is Failure.ACTIVE_REQUESTS:
            note_failure(world, pool, key, None, error)
            _forget_the_launch(world, answer)
            world.settle(waiting)
        elif waiting:
            names = tuple(m.name for m in waiting)
            yield from tell_failure(world, pool, key, error, nodes=names, job=_job_on(waiting))
            yield from give_back(world, pool, waiting, key, error)


def _forget_what_was_sent(world: World, answer: Answer) -> None:
    """One createInstances is for what several jobs were noted for."""
    if answer.request is not None:
        world.recall.sent.pop(f"{answer.pool}/{answer.request}", None)
        return
    for key, sent in list(world.recall.sent.items()):
        if sent.pool != answer.pool or sent.name is not None:
            continue
        left = tuple(name for name in sent.nodes if name not in answer.nodes)
        if left:
            world.recall.sent[key] = replace(sent, nodes=left)
        else:
            del world.recall.sent[key]


def _forget_the_launch(world: World, answer: Answer) -> None:
    """It left no record and was no launch: it stands in line, and its name is free again."""
    for name in answer.nodes:
        world.recall.asked[name] = world.recall.asked.get(name, ())[:-1]
    if answer.request is not None:
        stem, _, attempt = answer.request.rpartition("-")
        key = f"{answer.pool}/{stem}"
        if world.recall.attempts.get(key) == int(attempt):
            world.recall.attempts[key] -= 1


def _creations(world: World, pool: Pool) -> Iterator[Action]:
    """Named instances that Compute Engine couldn't make: give up the try, keep the reason."""
    if pool.is_flex_start:
        return
    errors = {
        instance.name: instance.error
        for instance in world.groups[pool.id].instances
        if instance.error is not None and not instance.is_alive
    }
    failed = [
        m
        for name in errors
        if (m := world.members.get(name)) is not None
        and m.phase in (Phase.ASKED, Phase.QUEUED)
        and not world.is_settled(m)
    ]
    if not failed:
        return
    names = tuple(sorted(m.name for m in failed))
    yield DeleteInstances(pool=pool.id, nodes=names, why="they could not be made")
    for members in _by_launch(failed, errors):
        error = errors[members[0].name] or CloudError()
        first = world.recall.see(f"power-up/{pool.id}/{members[0].name}").first
        key = f"{members[0].name}@{first}"
        told = tuple(m.name for m in members)
        job = _job_on(members)
        yield from tell_failure(world, pool, key, error, nodes=told, job=job)
        yield from give_back(world, pool, members, key, error)


def _by_launch(
    failed: list[Member], errors: Mapping[str, CloudError | None]
) -> Iterable[list[Member]]:
    """What a job was to get is one launch, as a request is, and fails once for each class."""
    launches: dict[tuple[object, Failure], list[Member]] = {}
    for member in failed:
        owner = _job_on([member]) or member.name
        failure = classify(errors[member.name] or CloudError())
        launches.setdefault((owner, failure), []).append(member)
    return launches.values()


def _job_on(members: list[Member]) -> int | None:
    return min((job.group for member in members for job in member.jobs), default=None)
