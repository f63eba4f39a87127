#!/usr/bin/env python3
"""From ResumeProgram's call to the resize request at the API: a real slurmctld, a warm daemon.

Usage: bench/resume_to_request.py [N]. The network is loopback, the cloud the emulator. The limit
is 300 ms in the median; exit code 1 above it. Needs root and the packages of `make install`.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from slurm_flex.demo.site_files import DemoPool, DemoSite  # noqa: E402
from slurm_flex.demo.world import World  # noqa: E402

LIMIT_MS = 300
CALL = re.compile(r"^(\S+Z) slurm-flex-resume\[\d+\]: called for (\S+)$", re.M)
PATIENCE = timedelta(seconds=20)
SELDOM = timedelta(hours=1)


def main() -> int:
    if os.geteuid() != 0:
        print("resume to request: not measured, a slurmctld of its own needs root")
        return 0
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    # Only a hook makes it look, and no node goes home while the others are measured.
    settings = {"interval": SELDOM, "busy_interval": SELDOM, "suspend_time": SELDOM}
    site = DemoSite(name="c1", pools=[DemoPool("gx", dynamic=calls)], settings=settings)
    with World(site) as world:
        hooks_log = world.folder / "flex" / "state" / "hooks.log"
        for number in range(calls):
            name = f"c1-gx-{number}"
            world.slurm.scontrol("update", f"nodename={name}", "state=power_up")
            world.wait_for(lambda name=name: name in asked(world), PATIENCE, f"{name} is asked for")
        made = asked(world)
        called = {node: read_time(stamp) for stamp, node in CALL.findall(hooks_log.read_text())}
    spans = sorted((made[node] - called[node]).total_seconds() * 1000 for node in called)
    median = statistics.median(spans)
    print(
        f"resume to request: median {median:.0f} ms, worst {spans[-1]:.0f} ms, "
        f"{len(spans)} calls (limit {LIMIT_MS} ms)"
    )
    return int(median > LIMIT_MS)


def asked(world: World) -> dict[str, datetime]:
    """Node -> when its first request was made, by the emulator's clock, which is this machine's."""
    found: dict[str, datetime] = {}
    for request in world.emulator.world()["requests"]:
        for node in request["nodes"]:
            found.setdefault(node, read_time(request["created"]))
    return found


def read_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


if __name__ == "__main__":
    sys.exit(main())
