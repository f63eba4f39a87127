"""Ten thousand instances, a thousand calls a minute."""

from __future__ import annotations

import time

import pytest
import requests

from slurm_flex.emulator.launcher import Emulator
from tests.contract.inside import FAST
from tests.contract.test_over_the_wire import ZONE, make_group
from tests.unit.emulator.here import Here


@pytest.fixture(scope="module")
def large() -> tuple[Here, list[str]]:
    """Ten groups of a thousand instances."""
    here = Here()
    groups = []
    for number in range(10):
        group = here.group(f"g{number}", listManagedInstancesResults="PAGINATED")
        here.ask(group, "all", *[f"g{number}-{index}" for index in range(1000)])
        groups.append(group)
    here.wait(40)
    return here, groups


def _pages(here: Here, verb: str, path: str, key: str, **params: str) -> int:
    count = 0
    token = ""
    while True:
        found = here.ok(verb, path, maxResults="500", **params, **_with(token))
        count += len(found.get(key, []))
        token = found.get("nextPageToken", "")
        if not token:
            return count


def _with(token: str) -> dict[str, str]:
    return {"pageToken": token} if token else {}


def test_ten_thousand_managed_instances_are_listed_within_a_second_of_cpu(
    large: tuple[Here, list[str]],
) -> None:
    here, groups = large
    begun = time.process_time()
    count = sum(
        _pages(here, "POST", f"{group}/listManagedInstances", "managedInstances")
        for group in groups
    )
    assert count == 10_000
    assert time.process_time() - begun < 1.0


def test_ten_thousand_instances_are_listed_within_a_second_of_cpu(
    large: tuple[Here, list[str]],
) -> None:
    here, _ = large
    best = 60.0
    for _ in range(3):
        begun = time.process_time()
        assert _pages(here, "GET", "zones/us-central1-a/instances", "items") == 10_000
        best = min(best, time.process_time() - begun)
    assert best < 1.0


def test_a_thousand_calls_take_far_less_than_a_minute() -> None:
    with Emulator(knobs={**FAST, "reads_per_minute": 0}) as emulator:
        make_group(emulator.url)
        begun = time.monotonic()
        with requests.Session() as session:
            for _ in range(1000):
                assert session.get(f"{emulator.url}{ZONE}/instances", timeout=30).ok
        assert time.monotonic() - begun < 30
