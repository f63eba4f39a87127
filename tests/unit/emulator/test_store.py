"""The world on disk."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from slurm_flex.emulator.core.clock import ScaledClock, wall_now
from slurm_flex.emulator.core.codec import decode, encode
from slurm_flex.emulator.core.world import World
from slurm_flex.emulator.options import EmulatorOptions
from slurm_flex.emulator.server import make_service
from slurm_flex.emulator.store import Store
from slurm_flex.emulator.web.control import world_view
from slurm_flex.emulator.web.service import Service
from slurm_flex.errors import FlexError
from tests.unit.emulator.here import Here


def _here(path: Path, **knobs: object) -> Here:
    """Words of Here for a service with a file; its clock is the wall's, so knobs are short."""
    here = Here()
    pace = dict.fromkeys(("op_delay", "accept_delay", "provision_delay", "boot_delay"), "0s")
    here.service = make_service(EmulatorOptions(state=path, knobs={**pace, **knobs}))
    here.world = here.service.cloud.world
    return here


def _skip(service: Service, seconds: float) -> None:
    service.cloud.skip(timedelta(seconds=seconds))
    service.settle()


def test_a_world_is_as_it_was_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state"
    here = _here(path)
    group = here.group()
    here.ask(group, "j1-1", "n-0", "n-1")
    _skip(here.service, 1)
    here.knob(boot_delay="7s", capacity={"us-central1-b/*": "never"})
    here.service.set_fault({"name": "stockout", "zone": "us-central1-b", "for": "1h"})
    here.service.settle()
    before = world_view(here.world)
    again = _here(path)
    after = world_view(again.world)
    for part in ("groups", "requests", "instances", "members", "templates"):
        assert after[part] == before[part], part
    assert again.world.knobs == here.world.knobs
    assert [fault.name for fault in again.world.fault_table] == ["stockout"]
    assert again.world.in_use == here.world.in_use
    assert again.request(group, "j1-1")["state"] == "SUCCEEDED"


def test_a_state_file_with_a_fault_that_can_strike_nothing_is_refused(tmp_path: Path) -> None:
    """Written by a release that took any."""
    here = _here(tmp_path / "state")
    here.service.cloud.set_fault({"name": "unavailable", "method": "*resizeRequests.insert"})
    here.service.settle()
    with pytest.raises(FlexError, match="no method here fits"):
        _here(tmp_path / "state")


def test_what_was_under_way_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state"
    here = _here(path, boot_delay="1h")
    group = here.group()
    here.ask(group, "j1-1", "n-0")
    _skip(here.service, 1)
    again = _here(path, boot_delay="1h")
    assert again.instances() == {"n-0": "STAGING"}
    _skip(again.service, 3601)
    assert again.instances() == {"n-0": "RUNNING"}
    assert again.request(group, "j1-1")["state"] == "SUCCEEDED"


def test_ids_are_new_after_a_restart_with_the_same_seed(tmp_path: Path) -> None:
    options = EmulatorOptions(state=tmp_path / "state", seed=7)
    ids = [make_service(options).cloud.world.new_id() for _ in range(3)]
    assert len(set(ids)) == 3


def test_knobs_given_anew_win_over_those_that_were_kept(tmp_path: Path) -> None:
    path = tmp_path / "state"
    first = make_service(EmulatorOptions(state=path, knobs={"capacity": "never"}))
    first.cloud.set_knobs({"capacity": "now"})
    first.settle()
    same = make_service(EmulatorOptions(state=path, knobs={"capacity": "never"}))
    assert same.cloud.world.knobs.capacity == {"*": "now"}
    other = make_service(EmulatorOptions(state=path, knobs={"capacity": 4}))
    assert other.cloud.world.knobs.capacity == {"*": 4}


def test_emulated_time_goes_on_while_the_emulator_is_away(tmp_path: Path) -> None:
    past = wall_now() - timedelta(minutes=10)
    clock = ScaledClock(60, past, past)
    store = Store(tmp_path / "state")
    store.load(clock, World(past), {})
    store.save(clock, World(past))
    later = ScaledClock(60)
    assert Store(tmp_path / "state").load(later, World(past), {})
    assert later.now() - past >= timedelta(minutes=600)


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state"
    _here(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_text("not a database, surely, and long enough to be read as one" * 40)
    with pytest.raises(FlexError, match="can't use the state file") as caught:
        Store(path)
    assert caught.value.where == str(path)


def test_records_keep_times_durations_and_scopes() -> None:
    here = Here()
    here.up(here.group(), "j1-1", "n-0")
    for table in here.world.tables:
        for record in table:
            assert encode(decode(type(record), encode(record))) == encode(record)
