"""How long a failure of each class is waited out, and what it does to the pool's breaker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from slurm_flex.actions import Action, Event
from slurm_flex.cluster.model import Pool
from slurm_flex.failures import Failure, classify
from slurm_flex.model import CloudError
from slurm_flex.model.memory import BackOff
from slurm_flex.text import one_line
from slurm_flex.world import World

NEEDS_A_PERSON = frozenset({Failure.PERMISSION, Failure.CONFIG})
"""No retry helps: the breaker opens at once."""
COUNTS_FOR_BREAKER = frozenset({Failure.PERMISSION, Failure.CONFIG, Failure.BOOT, Failure.IP_SPACE})
"""Capacity waits never use up a retry, and a quota is waited out by its own back-off."""
HOLDS_THE_POOL = frozenset({Failure.QUOTA, Failure.IP_SPACE, Failure.ACTIVE_REQUESTS})
"""What fails for one job fails for all: nothing more is asked of the pool meanwhile."""


def note_failure(
    world: World, pool: Pool, key: str, group: int | None, error: CloudError
) -> tuple[Failure, BackOff]:
    """Enter one failed launch; the back-off of its job (or of its pool where it has none)."""
    failure = classify(error)
    why = describe(failure, error)
    first, longest = _pace(world, failure)
    owner = f"j{group}" if group is not None else pool.id
    world.recall.count_launch(pool.id, key, failure.value)
    if failure in HOLDS_THE_POOL | {Failure.CAPACITY} and group is not None:
        world.recall.back_off(f"{pool.id}/{failure}", first, longest, why)
    return failure, world.recall.back_off(f"{owner}/{failure}", first, longest, why)


def describe(failure: Failure, error: CloudError) -> str:
    """One line that is true: the class, Google's code where it says more, and its text."""
    code = one_line(error.code, 60) or "no code"
    head = f"{failure}: {code}"
    return one_line(f"{head}: {error.message}" if error.message else head, 160)


def tell_failure(
    world: World,
    pool: Pool,
    key: str,
    error: CloudError,
    *,
    nodes: tuple[str, ...],
    job: int | None,
) -> Iterator[Action]:
    """One failed launch in the journal, once."""
    if world.recall.once(f"failed/{pool.id}/{key}"):
        yield Event(
            event="REQUEST_FAILED",
            pool=pool.id,
            nodes=nodes,
            job=job,
            text=describe(classify(error), error),
            why="a launch failed",
        )


def pool_waits(world: World, pool: Pool) -> BackOff | None:
    """The pool's own back-off that isn't over: the longest of its classes."""
    waits = [
        wait
        for failure in Failure
        if failure in HOLDS_THE_POOL or not pool.is_flex_start
        if (wait := world.recall.waits(f"{pool.id}/{failure}")) is not None
    ]
    return max(waits, key=lambda wait: wait.until, default=None)


def _pace(world: World, failure: Failure) -> tuple[timedelta, timedelta]:
    settings = world.settings
    if failure in (Failure.QUOTA, Failure.IP_SPACE):
        return settings.quota_backoff, settings.quota_backoff_max
    if failure in NEEDS_A_PERSON:
        return settings.config_backoff, settings.config_backoff
    if failure is Failure.BOOT:
        return settings.boot_backoff, settings.boot_backoff_max
    if failure is Failure.ACTIVE_REQUESTS:
        return settings.capacity_backoff, settings.capacity_backoff
    return settings.capacity_backoff, settings.capacity_backoff_max


def capacity_back_off(world: World, owner: str, why: str) -> BackOff:
    """One more wait for capacity, of a job (j51) or of a pool."""
    settings = world.settings
    first, longest = settings.capacity_backoff, settings.capacity_backoff_max
    return world.recall.back_off(f"{owner}/{Failure.CAPACITY}", first, longest, why)
