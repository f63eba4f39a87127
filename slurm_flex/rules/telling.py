"""Words to jobs, and nodes that are somebody else's: what several rules say alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from slurm_flex.actions import Action, JobComment, NodeDown
from slurm_flex.member import Member
from slurm_flex.model import OWN_COMMENT, Job
from slurm_flex.text import one_line
from slurm_flex.world import World

ON_A_NEW_VM: Final = "restarts on a new VM"
LIMIT_REACHED: Final = "Flex-start limit reached"


def may_comment(world: World, job: Job) -> bool:
    """A comment that somebody else wrote is not overwritten."""
    return world.settings.comments and (
        not job.admin_comment or job.admin_comment.startswith(OWN_COMMENT)
    )


def last_words(
    world: World, job: Job, text: str, why: str = "its node goes down"
) -> Iterator[Action]:
    """Before its node goes down, since a finished job takes no comment; one a job and pass.

    What Slurm shows already isn't sent again: a pass may be repeated, with or without its memory.
    """
    if job.id in world.said:
        return
    world.said.add(job.id)
    words = one_line(f"{OWN_COMMENT}{text}")
    if may_comment(world, job) and job.admin_comment != words:
        yield JobComment(job=job.id, text=words, last_words=True, why=why)


def tell_the_cut(world: World, jobs: Iterable[Job], what: str, then: str) -> Iterator[Action]:
    """What cut them, and what comes next; Slurm ends what it can't requeue.

    `what` is the same in each pass that cuts them: with a time in it, not that of the pass.
    """
    for job in sorted(jobs, key=lambda job: job.id):
        after = then if job.is_requeueable else "Slurm can't requeue it"
        yield from last_words(world, job, f"{what}, {after}")


def tell_the_end(world: World, job: Job, what: str, ends: datetime) -> Iterator[Action]:
    """Its node ends in time: nobody's fault, and it goes on elsewhere."""
    yield from tell_the_cut(world, [job], f"{what} at {ends:%m-%d %H:%M} UTC", ON_A_NEW_VM)


def down_keeping_reason(held: list[Member]) -> Iterator[Action]:
    """Somebody else's drain stays theirs: Slurm would clear it on the way down."""
    for member in held:
        reason = (member.node.reason if member.node else None) or "drained"
        yield NodeDown(
            nodes=(member.name,),
            reason=reason,
            why="the VM is gone and a job hangs on it; the drain is not ours and stays",
        )
