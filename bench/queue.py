#!/usr/bin/env python3
"""What many jobs at once cost: a real slurmctld, a warm daemon, the emulator in the cloud's place.

Usage: bench/queue.py [JOBS]. Two steps, each one call of ResumeProgram:

- JOBS (200) jobs of 4 nodes: a request each, and at most 8 other HTTP calls and 8 Slurm commands
  before the last of them is sent;
- 20 jobs, each call to the API answered after 50 ms and each operation done after 2 s: all requests
  are at the API within 1.5 s of the call.

Exit code 1 above a limit. Needs root and the packages of `make install`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from slurm_flex.demo.site_files import DemoPool, DemoSite  # noqa: E402
from slurm_flex.demo.world import World  # noqa: E402

NODES_A_JOB = 4
MOST_CALLS = 8
FEW = 20
WITHIN = timedelta(seconds=1.5)
CALL = re.compile(r"^(\S+Z) slurm-flex-resume\[\d+\]: called for ", re.M)
PATIENCE = timedelta(seconds=120)
SELDOM = timedelta(hours=1)  # only a hook makes it look
COUNTER = '#!/bin/sh\ndate -u +%Y-%m-%dT%H:%M:%S.%6N+00:00 >>"{log}"\nexec "{real}" "$@"\n'


@dataclass(frozen=True)
class Site(DemoSite):
    """slurmctld looks at all waiting jobs at once, so that one call of ResumeProgram has them."""

    def cluster_text(self) -> str:
        cluster = json.loads(super().cluster_text())
        slurm = cluster["orchestrator_spec"]["slurm_spec"]
        slurm["config"] = {"SchedulerParameters": "default_queue_depth=1000"}
        return json.dumps(cluster)


def main() -> int:
    if os.geteuid() != 0:
        print("queue: not measured, a slurmctld of its own needs root")
        return 0
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    site = Site(
        name="c1",
        pools=[DemoPool("gx", dynamic=many * NODES_A_JOB)],
        settings={
            "interval": SELDOM,
            "busy_interval": SELDOM,
            "active_requests": many + FEW,
            "gpu_files": "none",
        },
    )
    knobs = {"capacity": "never", "active_resize_requests": many + FEW}
    with World(site, knobs=knobs) as world:
        verdicts = [few_at_once(world), many_at_once(world, many)]
    return int(not all(verdicts))


def few_at_once(world: World) -> bool:
    world.emulator.knobs.set(op_delay="2s")
    slow = world.emulator.faults.set("slow_answers", delay=0.05)
    jobs = release_at_once(world, FEW, nodes=1)
    sent = requests_of(world, jobs)
    world.emulator.faults.clear(slow)
    world.emulator.knobs.set(op_delay="0.1s")
    took = max(sent) - called(world)
    print(
        f"queue: {FEW} jobs' requests at the API {took.total_seconds() * 1000:.0f} ms after "
        f"ResumeProgram's call (limit {WITHIN.total_seconds() * 1000:.0f} ms; 50 ms an answer, "
        "2 s an operation)"
    )
    give_back(world, jobs)
    return took <= WITHIN


def many_at_once(world: World, many: int) -> bool:
    log = world.folder / "slurm-commands.log"
    count_commands(world, log)
    wait_for_a_young_minute()
    before = calls(world)
    jobs = release_at_once(world, many, nodes=NODES_A_JOB)
    sent = requests_of(world, jobs)
    others = calls(world) - before - many
    begun, last = called(world), max(sent)
    commands = [at for at in map(read_time, log.read_text().split()) if begun <= at <= last]
    print(
        f"queue: {many} jobs of {NODES_A_JOB} nodes: {len(sent)} requests, {others} other HTTP "
        f"calls and {len(commands)} Slurm commands before the last (limit {MOST_CALLS} each), "
        f"{(last - begun).total_seconds() * 1000:.0f} ms after ResumeProgram's call"
    )
    return len(sent) == many and others <= MOST_CALLS and len(commands) <= MOST_CALLS


# --- doing


def release_at_once(world: World, count: int, *, nodes: int) -> set[int]:
    """Submit them held and let them go together: Slurm places them all in one go."""
    options = ("--hold", f"--nodes={nodes}", "--exclusive", "--wrap=true")
    jobs = [world.slurm.sbatch(*options) for _ in range(count)]
    world.slurm.scontrol("release", ",".join(map(str, jobs)))
    return set(jobs)


def give_back(world: World, jobs: Collection[int]) -> None:
    """Nothing of it may be left when the next step begins; a pass by hand sees to it."""
    world.slurm.scancel(*jobs)

    def is_over() -> bool:
        world.flex("reconcile")
        return not world.leftovers()

    world.wait_for(is_over, PATIENCE, "all is given back")


def count_commands(world: World, log: Path) -> None:
    """From now on each Slurm command of the daemon's leaves its time in ``log``."""
    real = world.folder / "bin-uncounted"
    real.mkdir()
    for name in ("scontrol", "squeue", "scancel"):
        path = world.slurm.bin_dir / name
        path.rename(real / name)
        path.write_text(COUNTER.format(log=log, real=real / name))
        path.chmod(0o755)
    log.touch()


def wait_for_a_young_minute() -> None:
    """The emulator counts calls by the minute."""
    while time.time() % 60 > 20:
        time.sleep(1)


# --- seeing


def requests_of(world: World, jobs: Collection[int]) -> list[datetime]:
    """When each job's request was made, by the emulator's clock; waits until all are there."""
    names = {f"j{job}-1" for job in jobs}
    found: dict[str, datetime] = {}

    def are_there() -> bool:
        for one in world.emulator.world()["requests"]:
            if one["name"] in names:
                found[one["name"]] = read_time(one["created"])
        return len(found) == len(names)

    world.wait_for(are_there, PATIENCE, "a request for each job")
    return list(found.values())


def called(world: World) -> datetime:
    """When slurmctld called ResumeProgram last."""
    text = (world.folder / "flex/state/hooks.log").read_text()
    return max(map(read_time, CALL.findall(text)))


def calls(world: World) -> int:
    """HTTP calls to the API within this minute."""
    used = world.emulator.ask("GET", "limits")["used"]
    return sum(int(count) for count in used.values())


def read_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


if __name__ == "__main__":
    sys.exit(main())
