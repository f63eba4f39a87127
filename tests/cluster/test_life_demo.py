"""The demo, interrupted: whatever it had started is gone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.test_harness import processes_with, until

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(end: signal.Signals, tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "slurm_flex.demo.play"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert demo.stdout is not None
    for line in demo.stdout:
        if re.search(r"Act 1: ", line):
            break
    assert len(processes_with(str(tmp_path))) >= 6, "munged, slurmctld, the cloud, a VM, slurm-flex"
    if end == signal.SIGINT:  # as Ctrl-C does: to everything in the foreground
        os.killpg(demo.pid, end)
    else:
        demo.send_signal(end)
    _, said = demo.communicate(timeout=30)
    assert demo.returncode == 130
    assert "Interrupted" in said
    until(lambda: not processes_with(str(tmp_path)), "every process has ended")
    assert list(tmp_path.iterdir()) == []
