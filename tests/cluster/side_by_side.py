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
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pytest

from slurm_flex.demo.world import World
from slurm_flex.errors import FlexError
from tests.cluster.truth import utc_now, wrong_now
from tests.cluster.watch import Watch

# Seconds: two passes, SuspendTimeout, a deletion and its operation, on a busy machine.
_MENDED_WITHIN: Final = 20.0

Story = Callable[[Watch], None]


@dataclass(frozen=True)
class Outcome:
    """How a story went. seen: the logs and the world when it failed."""

    error: BaseException | None = None
    seen: str = ""


Outcomes = dict[Story, "Future[Outcome]"]


class Running:
    """Stories under way."""

    def __init__(self, told: Outcomes) -> None:
        self._told = told

    def outcome_of(self, story: Story) -> None:
        """Wait for its end. Raises what it raised, and prints what there was to be seen."""
        outcome = self._told[story].result()
        if outcome.error is not None:
            print(outcome.seen, file=sys.stderr)
            raise outcome.error


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


class Guard:
    """Looks all the time whether anything stays wrong that nobody should ever find.

    lasting: what was so for longer than it takes to mend.
    """

    def __init__(self, watch: Watch) -> None:
        self.lasting: set[str] = set()
        self._watch = watch
        self._since: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="guard")

    def __enter__(self) -> Guard:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(1):
            try:
                seen = self._watch.look()
            except FlexError:
                continue  # the stories find out whether that is a failure
            now = time.monotonic()
            wrong = set() if self._watch.is_alone else set(wrong_now(seen, utc_now()))
            self._since = {what: self._since.get(what, now) for what in wrong}
            self.lasting |= {what for what, at in self._since.items() if now - at > _MENDED_WITHIN}


@contextmanager
def side_by_side(items: Iterable[pytest.Item], release: str) -> Iterator[Running]:
    """Tell the stories of those tests that were asked for, on this release of Slurm."""
    stages: dict[Stage, Outcomes] = {}
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


def _play(world: World, stories: Outcomes, *, in_turn: bool) -> None:
    """One world, from its beginning to its end. Raises AssertionError for what stayed wrong."""
    try:
        with world:
            watch = Watch(world)
            threads = ThreadPoolExecutor(1 if in_turn else len(stories))
            with Guard(watch) as guard, threads:
                for story, told in stories.items():
                    threads.submit(_tell, story, watch, told, afresh=in_turn)
            if guard.lasting:
                print(watch.report(), file=sys.stderr)
                raise AssertionError("\n".join(sorted(guard.lasting)))
    finally:
        for told in stories.values():
            if not told.done():
                told.set_result(Outcome(RuntimeError("its world didn't get that far")))


def _tell(story: Story, watch: Watch, told: Future[Outcome], *, afresh: bool) -> None:
    try:
        if afresh:
            watch.start_afresh()
        story(watch)
    except BaseException as error:  # a test that fails, in the thread of its story
        told.set_result(Outcome(error, _report(watch)))
    else:
        told.set_result(Outcome())


def _report(watch: Watch) -> str:
    try:
        return watch.report()
    except (FlexError, OSError) as error:
        return f"nothing to be seen: {error}"
