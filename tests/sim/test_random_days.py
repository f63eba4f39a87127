"""Simulated days with random jobs and random faults, from fixed seeds.

SIM_SEEDS=200 pytest tests/sim/test_random_days.py looks further.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.days import Chaos, a_random_site, settle
from tests.sim.simulation import Faults

COUNT = int(os.environ.get("SIM_SEEDS", "12"))


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_day_of_trouble_ends_with_nothing_lost_and_nothing_left(seed: int) -> None:
    sim = a_random_site(seed)
    chaos = Chaos(sim, seed)
    chaos.live(hours=24)
    settle(chaos)
    sim.check()


@pytest.mark.parametrize("seed", range(10_000, 10_000 + COUNT))
def test_a_day_of_trouble_with_a_daemon_that_dies_and_forgets(seed: int) -> None:
    faults = Faults(
        lost_action=0.05, lost_reply=0.2, crash=0.05, unsaved=0.05, amnesia=0.02, seed=seed
    )
    sim = a_random_site(seed, faults)
    chaos = Chaos(sim, seed)
    chaos.live(hours=24)
    settle(chaos)
    sim.check()


@pytest.mark.parametrize("seed", range(20_000, 20_000 + COUNT))
def test_ten_wild_hours(seed: int) -> None:
    """Something happens every three minutes, and the planner passes in every step."""
    sim = a_random_site(seed)
    sim.restless = True
    chaos = Chaos(sim, seed)
    chaos.live(hours=10, rate=0.15)
    sim.restless = False
    settle(chaos)
    sim.check()
