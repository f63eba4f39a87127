"""The story of a wait, one short line on the job and on its nodes, written only when it changes.

No line holds a number that changes by itself (ages, places in line), or every pass would write it.
A wait of under a minute needs no story. Comments that somebody else wrote are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from slurm_flex.actions import Action, Event, JobComment, NodeComment
from slurm_flex.failures import Failure, classify
from slurm_flex.member import Member, Phase
from slurm_flex.model import OWN_COMMENT, Job, Request
from slurm_flex.rules.failure import describe, pool_waits
from slurm_flex.rules.maintenance import HOST_MAINTENANCE
from slurm_flex.rules.telling import ON_A_NEW_VM, may_comment
from slurm_flex.text import one_line
from slurm_flex.world import World

QUIET_FOR = timedelta(minutes=1)
_WAITS = (f"{OWN_COMMENT}wait", f"{OWN_COMMENT}in line")
_RETRY = f"{OWN_COMMENT}retry"
_PLACED_NEXT = f"{OWN_COMMENT}tried again as soon as Slurm places it"
_BOOT = f"{OWN_COMMENT}its VMs boot"
_BOOTS = f"{OWN_COMMENT}its VM boots"
_RUNS = f"{OWN_COMMENT}running"
LINES_A_PASS = 8
"""Each different line is a command of its own, and slurmctld has other things to do."""


def plan(world: World) -> Iterator[Action]:
    yield from _unknown_words(world)
    if not world.settings.comments:
        return
    yield from _told_to_jobs(world)
    yield from _told_of_nodes(world)


def _told_to_jobs(world: World) -> Iterator[Action]:
    """Jobs that share a line share a command; new lines beyond a handful wait for the next pass."""
    stories: dict[str, list[Job]] = {}
    for job in world.jobs:
        if job.id in world.said or _is_out_of_sight(world, job) or not may_comment(world, job):
            continue
        text = _job_story(world, job)
        if text is not None and text != job.admin_comment:
            stories.setdefault(text, []).append(job)
    untold_first = sorted(
        stories, key=lambda one: (bool(stories[one][0].admin_comment), stories[one][0].id)
    )
    for text in untold_first[:LINES_A_PASS]:
        for job in stories[text]:
            yield JobComment(job=job.id, text=text, why="its story changed")


def _told_of_nodes(world: World) -> Iterator[Action]:
    stories: dict[str, list[str]] = {}
    for member in world.members.values():
        text = _node_story(world, member)
        comment = member.node.comment if member.node else None
        if text is not None and text != comment and _is_ours_or_empty(comment):
            stories.setdefault(text, []).append(member.name)
    for text, names in sorted(stories.items())[:LINES_A_PASS]:
        yield NodeComment(nodes=tuple(names), text=text, why="their story changed")


def _unknown_words(world: World) -> Iterator[Action]:
    """A flag that a new release brought: no rule reads it, and somebody should know."""
    words = sorted({word for node in world.nodes.values() for word in node.unknown_flags})
    for word in words:
        if world.recall.once(f"unknown-flag/{word}"):
            yield Event(
                event="UNKNOWN_STATE",
                nodes=tuple(n.name for n in world.nodes.values() if word in n.unknown_flags),
                text=one_line(f"node state {word} is not known here and means nothing to any rule"),
                why="a new release of Slurm?",
            )


def _is_ours_or_empty(comment: str | None) -> bool:
    return not comment or comment.startswith(OWN_COMMENT.strip())


def _is_out_of_sight(world: World, job: Job) -> bool:
    """A pool that couldn't be read has no story in this pass."""
    places = (world.cluster.locate(name) for name in job.nodes)
    return any(place is not None and place.pool_id in world.hidden_pools for place in places)


def _job_story(world: World, job: Job) -> str | None:
    shown = job.admin_comment or ""
    delay = world.recall.delays.get(str(job.id))
    if delay is not None and (job.is_pending or job.group in world.cut):
        return one_line(f"{OWN_COMMENT}retry at {_clock(delay.until)}: {delay.why}")
    if job.is_pending:
        return _PLACED_NEXT if _is_over(world, job, shown) else None
    together = world.components(job.group) if job.het_job_id else (job,)
    held = world.members_held_by(together)
    missing = [m for m in held if m.waits_for_vm]
    waiting = [m for m in missing if not world.is_settled(m)]
    if waiting and not all(one.is_running for one in together):
        at_once = _tells_otherwise(shown, *_WAITS)
        return _waiting_story(world, waiting, named=True, at_once=at_once)
    if job.is_running:
        return _running_story(world, job, shown)
    if missing or not held or not job.is_configuring:
        return None  # asked for or given back in this very pass: the next one knows more
    boots_since = [_powers_up_since(world, m) for m in held if m.phase is Phase.BOOTING]
    is_long = bool(boots_since) and world.now - min(boots_since) >= QUIET_FOR
    return _BOOT if _tells_otherwise(shown, _BOOT) or (is_long and not shown) else None


def _tells_otherwise(shown: str, *beginnings: str) -> bool:
    """Words that aren't true any more are replaced at once; where there are none, a wait of under a
    minute needs none. That it restarts on a new VM is true until it runs."""
    return bool(shown) and not shown.startswith(beginnings) and not shown.endswith(ON_A_NEW_VM)


def _is_over(world: World, job: Job, shown: str) -> bool:
    """It tells a job that waits of a wait or a run that is over, or of a hold that was lifted."""
    if shown.startswith(_RETRY) and job.start_time is not None and job.start_time > world.now:
        return False
    was_held = shown.startswith(f"{OWN_COMMENT}held")
    return shown.startswith((*_WAITS, _RETRY, _BOOT, _RUNS)) or (was_held and not job.is_held)


def _running_story(world: World, job: Job, shown: str) -> str | None:
    """Only to who was told of a wait, and while all its nodes are there."""
    members = [m for name in job.nodes if (m := world.members.get(name)) is not None]
    if not shown or job.group in world.cut or not all(_is_there(m) for m in members):
        return None
    ends = [ends for m in members if (ends := world.end_of(m)) is not None]
    return f"{_RUNS}, its nodes end at {min(ends):%Y-%m-%d %H:%M} UTC" if ends else _RUNS


def _is_there(member: Member) -> bool:
    node = member.node
    is_up = node is not None and node.is_believed_up and not node.is_down
    return is_up and member.has_live_instance


def _is_stale(comment: str) -> bool:
    """On a node: it told of a wait that is over."""
    return comment.startswith((*_WAITS, _RETRY, _BOOTS))


def _node_story(world: World, member: Member) -> str | None:
    comment = (member.node.comment if member.node else None) or ""
    if member.waits_for_vm and not world.is_settled(member):
        return _waiting_story(world, [member])
    if member.phase is Phase.BOOTING and _is_stale(comment):
        return _BOOTS
    if member.phase is Phase.OFF and (story := _static_story(world, member)) is not None:
        return story
    is_untrue = _is_stale(comment) or (member.phase is Phase.UP and comment == f"{OWN_COMMENT}off")
    if member.phase in (Phase.UP, Phase.OFF) and (is_untrue or _has_news(world, member, comment)):
        return _end_story(world, member)
    if member.phase is Phase.OFF and comment.startswith(f"{OWN_COMMENT}ends"):
        return f"{OWN_COMMENT}off"
    return None


def _has_news(world: World, member: Member, comment: str) -> bool:
    """Its end was told, and then its host's maintenance was announced, moved or called off."""
    return (
        member.phase is Phase.UP
        and comment.startswith(f"{OWN_COMMENT}ends")
        and (HOST_MAINTENANCE in comment or world.maintenance_of(member) is not None)
    )


def _end_story(world: World, member: Member) -> str:
    ends = world.end_of(member)
    if ends is None:
        return f"{OWN_COMMENT}off"
    cause = f", {HOST_MAINTENANCE}" if world.maintenance_of(member) is not None else ""
    return f"{OWN_COMMENT}ends at {ends:%Y-%m-%d %H:%M} UTC{cause}"


def _static_story(world: World, member: Member) -> str | None:
    """A static node that waits out a failure says until when and why."""
    if not world.is_static_and_free(member):
        return None
    last = world.recall.power_ups.get(member.name)
    waits = [
        wait
        for failure in Failure
        if (wait := world.recall.back_offs.get(f"{member.pool.id}/{failure}")) is not None
    ]
    if last is None or not waits or world.now >= last.at + last.delay:
        return None
    why = max(waits, key=lambda wait: wait.until).why
    return one_line(f"{OWN_COMMENT}retry at {_clock(last.at + last.delay)}: {why}")


def _waiting_story(
    world: World, waiting: list[Member], *, named: bool = False, at_once: bool = False
) -> str | None:
    since = min(_powers_up_since(world, member) for member in waiting)
    requests = [m.request for m in waiting if m.request is not None]
    if requests:
        return _queue_story(world, requests[0], since, named=named, at_once=at_once)
    pool = waiting[0].pool
    if pool.id in world.paused:
        return f"{OWN_COMMENT}waiting: pool {pool.id} is paused"
    breaker = world.recall.breakers.get(pool.id)
    if breaker is not None and breaker.probe is None and world.now < breaker.retry_at:
        return one_line(
            f"{OWN_COMMENT}waiting: pool {pool.id} failed ({breaker.why}), "
            f"next try at {_clock(breaker.retry_at)}"
        )
    wait = pool_waits(world, pool)
    if wait is not None:
        return one_line(f"{OWN_COMMENT}waiting until {_clock(wait.until)}: {wait.why}")
    if any(m.stranger for m in waiting):
        return f"{OWN_COMMENT}waiting: a VM that is not ours has the node's name"
    if any(m.name in world.in_line for m in waiting):
        region = world.region_of(pool) or "the region"
        most = world.settings.active_requests
        return f"{OWN_COMMENT}in line since {_clock(since)}: {most} requests wait in {region}"
    if world.now - since < QUIET_FOR and not at_once:
        return None
    return f"{OWN_COMMENT}waiting for its turn since {_clock(since)}"


def _powers_up_since(world: World, member: Member) -> datetime:
    return world.recall.see(f"power-up/{member.pool.id}/{member.name}").first


def _queue_story(
    world: World, request: Request, since: datetime, *, named: bool, at_once: bool
) -> str | None:
    """Since the wait began, not since the last try of it."""
    began = min(since, request.created or since)
    answer = request.last_attempt
    if answer is None and world.now - began < QUIET_FOR and not at_once:
        return None
    asked = _asked(request, named=named)
    head = f"{OWN_COMMENT}waiting for capacity since {_clock(began)}, {asked}"
    if answer is None:
        return one_line(head)
    return one_line(f"{head}; last answer: {describe(classify(answer), answer)}")


def _asked(request: Request, *, named: bool) -> str:
    """A node's line leaves the name out, so that the nodes of many jobs share one command."""
    if not request.name:
        return "instances asked for"
    state = request.state.lower()
    return f"request {request.name} {state}" if named else f"request {state}"


def _clock(at: datetime) -> str:
    return f"{at:%m-%d %H:%M} UTC"
