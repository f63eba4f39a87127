"""Killed at any moment of any pass, the daemon's next life mends it (DESIGN.md, invariant 7).

The real cycle, apply, memory file and plan; a simulated Slurm and Compute Engine that accuse.
"""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from typing import Literal

import pytest

from slurm_flex.cluster.site import Site
from slurm_flex.cycle import Cycle, Outside
from slurm_flex.memory import Opened, open_store
from tests.acts import Acts
from tests.builders import pool
from tests.chaos.sides import Killed, Plug, PluggedStore, SimController, SimFleet
from tests.sim.parts import when
from tests.sim.simulation import Simulation
from tests.sim.test_faults import (
    MILD,
    STORIES,
    Story,
    cancelled_later,
    is_clean,
)


class Daemons(Simulation):
    """A simulation in which the daemon's own cycle passes, and is started anew when it dies."""

    def begin(self, folder: Path, plug: Plug) -> None:
        self.folder = folder
        self.plug = plug
        settings = self.config.model_copy(
            update={"run_dir": str(folder / "run"), "state_dir": str(folder / "state")}
        )
        site = Site(self.cluster, settings, folder / "c.json", folder / "s.toml")
        self.outside = Outside(site, SimController(self, plug), SimFleet(self, plug))
        self.lives = 0
        self._start()

    def _start(self) -> None:
        self.lives += 1
        self.plug.is_dead = False
        self.cycle: Cycle | None = None
        try:
            self.cycle = Cycle(self.outside, self._open, lambda: when(self.now))
        except Killed:
            self.journal.note("killed while starting")

    def forget(self) -> None:
        """The machine's disk is replaced."""
        if self.cycle is not None:
            self.cycle.close()
        shutil.rmtree(self.folder / "state")
        self.lives -= 1
        self._start()

    def _open(self, now: datetime) -> Opened:
        opened = open_store(self.folder / "state", now)
        store = PluggedStore(opened.store.path, opened.store._db)
        store.plug = self.plug
        store._db.execute("PRAGMA synchronous = OFF")  # the process dies, not the machine
        assert opened.complaint == ""
        return Opened(store, opened.memory)

    def plan(self) -> Acts:
        self._planned = self.now
        self.passes += 1
        if self.cycle is None or self.plug.is_dead:
            self._start()
        try:
            if self.cycle is not None:
                self.cycle.run()
        except Killed:
            self.journal.note(f"killed at act {self.plug.nth}, {self.plug.when} it was done")
            if self.cycle is not None:
                self.cycle._store._db.close()
        return Acts(())


def play(story: Story, folder: Path, plug: Plug) -> Daemons:
    sim = Daemons((pool("gx", size=4, duration="6h"),), bounds=MILD)
    sim.begin(folder, plug)
    try:
        story(sim)
        is_clean(sim)
    finally:
        if sim.cycle is not None:
            sim.cycle.close()
    return sim


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_life_without_a_kill(story: Story, tmp_path: Path) -> None:
    sim = play(story, tmp_path, Plug())
    assert sim.lives == 1
    assert sim.plug.acts > 20


@pytest.mark.parametrize("when_killed", ["before", "after"])
@pytest.mark.parametrize("story", [*STORIES, cancelled_later], ids=lambda story: story.__name__)
def test_killed_at_any_act_the_next_life_mends_it(
    story: Story, when_killed: Literal["before", "after"], tmp_path: Path
) -> None:
    lives, nth = 2, 0
    while lives == 2:
        folder = tmp_path / str(nth)
        folder.mkdir()
        lives = play(story, folder, Plug(nth, when_killed)).lives
        nth += 1
    assert lives == 1  # the story was over before the plug was pulled
    assert nth > 20
