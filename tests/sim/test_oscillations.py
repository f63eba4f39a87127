"""Loops that fail where single passes look right: each oscillated in an earlier draft (DESIGN)."""

from __future__ import annotations

import pytest

from tests.builders import pool
from tests.sim.ledger import Bounds
from tests.sim.simulation import Simulation

HOUR = 3600.0
DAY = 86400.0


@pytest.mark.parametrize("reason", ["Resources", "QOSMaxGRESPerUser", "Licenses", "BadConstraints"])
def test_renewal_for_a_job_that_slurm_never_places(reason: str) -> None:
    """Idle nodes are sent home for a job once; if it still doesn't start, that was all."""
    sim = Simulation((pool("gx", size=4, static=4, duration="7d"),))
    sim.run("5d")
    fresh = len(sim.requests())
    assert fresh == 4
    sim.submit(51, size=2, limit=None, never=reason)
    sim.run("1d")
    assert len(sim.requests()) - fresh <= 2, sim.story("renewed again and again")
    assert sim.count("node_power_down") <= 2
    sim.check()


def test_renewal_for_a_job_that_a_fresh_node_would_not_fit_either() -> None:
    """Without a time limit a job crosses any reservation: a fresh node has one after one pass."""
    sim = Simulation((pool("gx", size=2, static=2, duration="6h"),))
    sim.run("2h")
    fresh = len(sim.requests())
    job = sim.submit(51, size=1, limit=None, runtime=2 * HOUR)
    sim.run("20h")
    renewed = len(sim.requests()) - fresh
    assert job.state == "COMPLETED" or renewed <= 10, sim.story(f"{renewed} requests for nothing")
    sim.check()


@pytest.mark.parametrize("useful", ["15m", "19m", "20m", "55m"])
@pytest.mark.parametrize("refresh", [False, True])
def test_renewal_where_min_useful_life_is_close_to_the_duration(useful: str, refresh: bool) -> None:
    """A node that is fresh must not count as nearly used up: a quarter of the duration at most."""
    sim = Simulation(
        (pool("gx", size=2, static=1, duration="20m"),),
        settings={"min_useful_life": useful, "refresh_static": refresh, "end_margin": "1m"},
        bounds=Bounds(static_away=1500),
    )
    sim.compute.knobs["gx"].boot_delay = 30
    sim.run("1d")
    lives = len([one for one in sim.requests() if "c1-gx-0" in one.nodes])
    assert lives <= 24 * 4, sim.story(f"{lives} VMs in a day, of 20 minutes each")
    sim.check()


def test_short_lived_dynamic_nodes_are_not_renewed_while_a_job_waits() -> None:
    sim = Simulation(
        (pool("gx", size=1, duration="20m"),),
        settings={"min_useful_life": "19m", "end_margin": "1m"},
    )
    job = sim.submit(51, runtime=300, limit=600)
    late = sim.submit(52, runtime=600, limit=900, priority=500)
    sim.run("3h")
    assert (job.state, late.state) == ("COMPLETED", "COMPLETED"), sim.story("they didn't run")
    assert len(sim.requests()) <= 3
    sim.check()


def test_a_static_pool_under_stockout_keeps_its_place_at_every_resume_timeout() -> None:
    sim = Simulation((pool("gx", size=3, static=3),))
    sim.slurm.knobs.resume_timeout = 3600
    sim.compute.knobs["gx"].capacity = lambda now: 3 if now > 3 * DAY else 0
    sim.run("3d")
    assert len(sim.requests()) == 3, sim.story("places were lost")
    sim.run("1h")
    assert sim.busy_vms() == ["c1-gx-0", "c1-gx-1", "c1-gx-2"]
    sim.check()


def test_a_static_pool_keeps_its_place_though_the_daemon_is_away_for_a_night() -> None:
    """ResumeTimeout does run out: DOWN~ with a live request, and the place is kept."""
    sim = Simulation((pool("gx", size=2, static=2),))
    sim.slurm.knobs.resume_timeout = 3600
    sim.compute.knobs["gx"].capacity = lambda now: 2 if now > 2 * DAY else 0
    sim.run("3h")
    sim.away = True
    sim.run("8h")
    assert sim.node("c1-gx-0").down
    sim.away = False
    sim.run("30m")
    assert sim.node("c1-gx-0").power == "powering_up", sim.story("it isn't asked for")
    sim.run("2d")
    assert len(sim.requests()) == 2, sim.story("places were lost")
    assert sim.busy_vms() == ["c1-gx-0", "c1-gx-1"]
    sim.check()


def test_a_jobs_place_is_kept_though_the_daemon_is_away_for_a_night() -> None:
    sim = Simulation((pool("gx", size=4),))
    sim.slurm.knobs.resume_timeout = 3600
    sim.compute.knobs["gx"].capacity = lambda now: 4 if now > DAY else 0
    job = sim.submit(51, size=2, runtime=600)
    sim.run("2h")
    before = job.nodes
    sim.away = True
    sim.run("65m", until=lambda: job.state == "PENDING")
    sim.run("1m")
    sim.away = False
    sim.run("10m")
    assert job.nodes == before, sim.story("it got other nodes")
    assert sim.run("2d", until=lambda: job.state == "COMPLETED")
    assert len(sim.requests()) == 1, sim.story("the place was lost")
    sim.check()


@pytest.mark.parametrize("version", ["22.05.8", "24.11.5"])
def test_static_nodes_missing_from_suspend_exc_nodes(version: str) -> None:
    """Slurm sends them off every SuspendTime, and the floor brings them back, ever more slowly
    where the release takes no change of SuspendExcNodes (before 23.02)."""
    sim = Simulation((pool("gx", size=2, static=2),), bounds=Bounds(static_away=4500))
    sim.slurm.excluded.clear()
    sim.slurm.knobs.version = version
    sim.run("1d")
    each = len([one for one in sim.requests() if "c1-gx-0" in one.nodes])
    if version == "24.11.5":
        assert sim.count("suspend_exclude") >= 1
        assert each <= 3, sim.story(f"{each} VMs in a day")
    else:
        assert each <= 40, sim.story(f"{each} VMs in a day")
    sim.check()


@pytest.mark.parametrize("static", [0, 1])
def test_a_drain_that_survives_the_replacement(static: int) -> None:
    """The health check's drain must go with the VM that it was about."""
    sim = Simulation((pool("gx", size=1, static=static),))
    sim.submit(51, runtime=600)
    sim.run("20m")
    sim.drain_for_health("c1-gx-0")
    sim.run("1h")
    job = sim.submit(52, runtime=600)
    sim.run("1h")
    assert job.state == "COMPLETED", sim.story("the new VM is still drained")
    assert len(sim.requests()) <= 2
    sim.check()


def test_a_drain_written_while_the_node_is_off_is_lifted() -> None:
    sim = Simulation((pool("gx", size=1, static=1),))
    sim.drain_for_health("c1-gx-0")
    sim.run("1h")
    assert sim.node("c1-gx-0").power == "up"
    assert not sim.node("c1-gx-0").drain
    assert len(sim.requests()) <= 2
    sim.check()


@pytest.mark.parametrize("static", [0, 1])
def test_a_life_shorter_than_the_boot(static: int) -> None:
    """The VM ends before its slurmd registers, each time: a boot failure, and the breaker."""
    sim = Simulation(
        (pool("gx", size=1, static=static, duration="10m"),),
        bounds=Bounds(static_away=10 * DAY, down=2 * HOUR),
    )
    sim.compute.knobs["gx"].boot_delay = 3600
    job = sim.submit(51, runtime=600, limit=900)
    sim.run("1d")
    assert len(sim.requests()) <= 60, sim.story(f"{len(sim.requests())} VMs in a day for nothing")
    assert job.waits
    assert job.admin_comment
    sim.check()


def test_three_of_four_vms_idle_and_billed_while_the_fourth_queues_for_hours() -> None:
    """The part that came is given back, and the whole is asked for again."""
    sim = Simulation((pool("gx", size=4),))
    sim.slurm.knobs.suspend_time = DAY
    sim.submit(50, size=3, runtime=600)
    sim.run("30m")
    assert len(sim.busy_vms()) == 3
    sim.compute.knobs["gx"].capacity = lambda now: 3 if now < 12 * HOUR else 4
    job = sim.submit(51, size=4, runtime=600)
    sim.run("10h")
    seconds = sum(sim.ledger.billed.values())
    assert seconds < 6 * HOUR, sim.story(f"{seconds / HOUR:.1f} VM hours for nothing")
    assert sim.run("6h", until=lambda: job.state == "COMPLETED"), sim.story("it never ran")
    sim.check()


def test_one_of_four_vms_dies_before_the_job_starts_and_queues_for_hours() -> None:
    sim = Simulation((pool("gx", size=4),))
    sim.compute.knobs["gx"].boot_delay = 300
    job = sim.submit(51, size=4, runtime=600)
    sim.run("10m", until=lambda: len(sim.compute.vms) == 4)
    sim.run("2m")
    sim.compute.knobs["gx"].capacity = lambda now: 3 if now < 12 * HOUR else 4
    sim.compute.lose("c1-gx-2", sim.now)
    sim.run("10h")
    seconds = sum(sim.ledger.billed.values())
    assert seconds < 6 * HOUR, sim.story(f"{seconds / HOUR:.1f} VM hours for nothing")
    assert sim.run("6h", until=lambda: job.state == "COMPLETED"), sim.story("it never ran")
    sim.check()


def test_suspend_timeout_longer_than_slurms_two_minutes() -> None:
    """The job becomes eligible while its own nodes are still leaving, and takes others."""
    sim = Simulation((pool("gx", size=8),))
    sim.slurm.knobs.suspend_timeout = 600
    sim.slurm.knobs.resume_timeout = 3600
    sim.compute.knobs["gx"].capacity = lambda now: 8 if now > DAY else 0
    job = sim.submit(51, size=2, runtime=600)
    sim.run("2h")
    sim.away = True
    sim.run("65m", until=lambda: job.state == "PENDING")
    sim.away = False
    assert sim.run("1d", until=lambda: job.state == "COMPLETED"), sim.story("it never ran")
    assert len(sim.requests()) == 1, sim.story("the place was lost")
    sim.check()


def test_suspend_timeout_longer_than_slurms_two_minutes_after_an_expiry() -> None:
    sim = Simulation((pool("gx", size=4, duration="3h"),))
    sim.slurm.knobs.suspend_timeout = 600
    job = sim.submit(51, size=2, runtime=2 * HOUR, limit=2.4 * HOUR)
    sim.run("1h")
    for vm in sim.compute.vms.values():
        vm.ends = sim.now + 300
    assert sim.run("8h", until=lambda: job.state == "COMPLETED"), sim.story("it never ran")
    assert len(sim.requests()) == 2, sim.story("more requests than VMs' lives")
    sim.run("1h")
    assert not sim.busy_vms()
    assert not sim.compute.requests
    sim.check()


def test_a_reservation_keeps_its_name_when_its_request_succeeds() -> None:
    sim = Simulation((pool("gx", size=2),))
    sim.slurm.knobs.suspend_time = DAY
    sim.submit(51, size=2, runtime=600)
    sim.run("30m")
    names = set(sim.slurm.reservations)
    assert len(names) == 1
    sim.run("10h")
    assert set(sim.slurm.reservations) == names
    assert sim.count("unreserve") == 0
    assert sim.count("reserve") == 1, sim.story("it was written again and again")
    sim.check()


def test_a_reservation_keeps_its_name_when_memory_is_lost() -> None:
    from slurm_flex.model import Memory

    sim = Simulation((pool("gx", size=2),))
    sim.slurm.knobs.suspend_time = DAY
    sim.submit(51, size=2, runtime=600)
    sim.run("30m")
    names = set(sim.slurm.reservations)
    for _ in range(10):
        sim.memory = Memory()
        sim.run("10m")
    assert set(sim.slurm.reservations) == names
    assert sim.count("reserve") == 1
    sim.check()
