"""Simulated days with random jobs and random faults, from fixed seeds."""

from __future__ import annotations

import pytest

from tests.sim.days import Chaos, a_random_site, settle
from tests.sim.simulation import Faults

NOTHING_LOST: Faults = Faults()


@pytest.mark.parametrize("seed", range(12))
def test_a_day_of_trouble_ends_with_nothing_lost_and_nothing_left(seed: int) -> None:
    sim = a_random_site(seed)
    chaos = Chaos(sim, seed)
    chaos.live(hours=24)
    settle(chaos)
    sim.check()


@pytest.mark.parametrize("seed", range(100, 112))
def test_a_day_of_trouble_with_a_daemon_that_dies_and_forgets(seed: int) -> None:
    faults = Faults(
        lost_action=0.05, lost_reply=0.2, crash=0.05, unsaved=0.05, amnesia=0.02, seed=seed
    )
    sim = a_random_site(seed, faults)
    chaos = Chaos(sim, seed)
    chaos.live(hours=24)
    settle(chaos)
    sim.check()
