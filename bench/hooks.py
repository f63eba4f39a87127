#!/usr/bin/env python3
"""How long slurmctld stands still for a hook: N calls of scripts/resume.py with a daemon listening.

Usage: bench/hooks.py [N]. The limit is 60 ms in the median; exit code 1 above it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from slurm_flex.wake import Ear  # noqa: E402

LIMIT_MS = 60
NODES = "c1-gx-[0-511]"


def main() -> int:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = folder / "slurm-flex.toml"
        settings.write_text(f'run_dir = "{folder}/run"\nstate_dir = "{folder}/state"\n')
        (folder / "run").mkdir()
        resume_file = folder / "resume.json"
        jobs = [{"job_id": n, "nodes_resume": f"c1-gx-{n}"} for n in range(512)]
        resume_file.write_text(json.dumps({"all_nodes_resume": NODES, "jobs": jobs}))
        env = {"SLURM_CONF": str(folder / "slurm.conf"), "SLURM_RESUME_FILE": str(resume_file)}
        with Ear(folder / "run") as ear:
            spans = []
            for _ in range(calls + 1):
                started = time.perf_counter()
                command = [str(ROOT / "scripts" / "resume.py"), NODES]
                subprocess.run(command, env=env, check=True, stderr=subprocess.DEVNULL)
                spans.append((time.perf_counter() - started) * 1000)
                ear.wait(0)
    spans = sorted(spans[1:])  # the first one compiles
    median = statistics.median(spans)
    print(
        f"hook: median {median:.1f} ms, p95 {spans[int(len(spans) * 0.95)]:.1f} ms, "
        f"{calls} calls of 512 nodes and 512 jobs (limit {LIMIT_MS} ms)"
    )
    return int(median > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
