"""How fast the emulator is: large lists by CPU time, small calls by wall clock, requests a minute
with both cores.

Run: python bench/emulator.py
"""

from __future__ import annotations

import concurrent.futures
import json
import sys
import tempfile
import time
from pathlib import Path

import requests

sys.path.insert(0, str(Path(__file__).parents[1]))

from slurm_flex.emulator.launcher import Emulator
from tests.contract.test_over_the_wire import ZONE, make_group
from tests.contract.test_scale import _pages
from tests.unit.emulator.here import Here


def large_lists() -> dict[str, float]:
    """Seconds of CPU for lists of 10,000 instances in pages of 500, and for making them."""
    here = Here()
    begun = time.process_time()
    groups = []
    for number in range(10):
        group = here.group(f"g{number}", listManagedInstancesResults="PAGINATED")
        here.ask(group, "all", *[f"g{number}-{index}" for index in range(1000)])
        groups.append(group)
    here.wait(40)
    found = {"make": time.process_time() - begun}
    begun = time.process_time()
    for group in groups:
        _pages(here, "POST", f"{group}/listManagedInstances", "managedInstances")
    found["listManagedInstances"] = time.process_time() - begun
    begun = time.process_time()
    _pages(here, "GET", "zones/us-central1-a/instances", "items")
    found["instances.list"] = time.process_time() - begun
    begun = time.process_time()
    wanted = "labels.slurm-flex-cluster=c1"
    _pages(here, "GET", "zones/us-central1-a/instances", "items", filter=wanted)
    found["instances.list with a filter"] = time.process_time() - begun
    return found


def small_calls(state: Path | None = None) -> dict[str, float]:
    """Wall clock of 1,000 reads one after another, and of 1,000 inserts by four at a time."""
    knobs = {"reads_per_minute": 0, "writes_per_minute": 0, "active_resize_requests": 10_000,
             "capacity": "never", "zonal_group_size": 10_000}  # fmt: skip
    with Emulator(knobs=knobs, state=state) as emulator:
        make_group(emulator.url)
        session = requests.Session()
        begun = time.monotonic()
        for _ in range(1000):
            session.get(f"{emulator.url}{ZONE}/instances", timeout=30).raise_for_status()
        found = {"1000 reads": time.monotonic() - begun}

        def insert(number: int) -> None:
            body = {"name": f"j{number}", "instances": [{"name": f"n-{number}"}]}
            url = f"{emulator.url}{ZONE}/instanceGroupManagers/g/resizeRequests"
            requests.post(url, json=body, timeout=60).raise_for_status()

        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(insert, range(1000)))
        found["1000 inserts"] = time.monotonic() - begun
    return found


def main() -> None:
    """Print all numbers as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        report = {
            "cpu seconds, 10,000 instances": large_lists(),
            "wall seconds": small_calls(),
            "wall seconds, with a state file": small_calls(Path(folder, "state")),
        }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
