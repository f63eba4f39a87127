"""Stories that are told at the same time, since they wait for Slurm nearly all of theirs.

A module has a :class:`Stage`, which is a world, and its tests are stories on it: each in a thread
and in a pool of its own. All stages of a release play side by side. A test tells how its story
went::

    STAGE = Stage(lambda release: World(SITE, release=release))

    @STAGE.story
    def test_a_job_waits(queue: Watch) -> None: ...
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from slurm_flex.demo.world import World
from tests.cluster.watch import Watch

Story = Callable[[Watch], None]


class Running:
    """Stories under way."""

    def __init__(self, told: Mapping[Story, Future[None]]) -> None:
        self._told = told

    def outcome_of(self, story: Story) -> None:
        """Wait for its end. Raises what it raised."""
        self._told[story].result()


@dataclass(frozen=True)
class Stage:
    """make: a world of a release, not entered yet. in_turn: one story after another."""

    make: Callable[[str], World]
    in_turn: bool = False

    def story(self, story: Story) -> Callable[[Running], None]:
        """Make a story a test; it takes the fixture ``running``."""

        def test(running: Running) -> None:
            running.outcome_of(story)

        functools.update_wrapper(test, story)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        test.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter("running", kind)]
        )
        test.told_on = (story, self)  # type: ignore[attr-defined]
        return test


@contextmanager
def side_by_side(items: Iterable[pytest.Item], release: str) -> Iterator[Running]:
    """Tell the stories of those tests that were asked for, on this release of Slurm."""
    stages: dict[Stage, dict[Story, Future[None]]] = {}
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item.function, "told_on"):
            continue
        if item.callspec.params["release"] == release:
            story, stage = item.function.told_on
            stages.setdefault(stage, {})[story] = Future()
    with ThreadPoolExecutor(max_workers=len(stages) or 1) as threads:
        plays = [
            threads.submit(_play, stage.make(release), stories, in_turn=stage.in_turn)
            for stage, stories in stages.items()
        ]
        yield Running({story: told for one in stages.values() for story, told in one.items()})
        for play in plays:
            play.result()


def _play(world: World, stories: Mapping[Story, Future[None]], *, in_turn: bool) -> None:
    """One world, from its beginning to its end."""
    try:
        with world, ThreadPoolExecutor(1 if in_turn else len(stories)) as threads:
            watch = Watch(world)
            for story, told in stories.items():
                threads.submit(_tell, story, watch, told, afresh=in_turn)
    except BaseException as error:
        for told in stories.values():
            if not told.done():
                told.set_exception(error)
        raise


def _tell(story: Story, watch: Watch, told: Future[None], *, afresh: bool) -> None:
    try:
        if afresh:
            watch.start_afresh()
        story(watch)
    except BaseException as error:  # a test that fails, in the thread of its story
        told.set_exception(error)
    else:
        told.set_result(None)
