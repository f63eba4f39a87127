#!/usr/bin/python3 -IS
"""Slurm's HealthCheckProgram, now and then, on every node: drains what is unfit, exits 0.

A fault of ours is no fault of the node's: whatever goes wrong in here itself, the job starts.
"""

import os
import sys
import syslog
from pathlib import Path
from types import TracebackType


def let_it_go(
    kind: "type[BaseException]", error: BaseException, trace: "TracebackType | None"
) -> None:
    """Say what went wrong, and end as if all were well."""
    syslog.syslog(syslog.LOG_ERR, "slurm-flex health.py: %s: %s" % (kind.__name__, error))  # noqa: UP031
    sys.__excepthook__(kind, error, trace)
    sys.stderr.flush()
    os._exit(0)


sys.excepthook = let_it_go
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from slurm_flex.health.scripts import periodic  # noqa: E402

sys.exit(periodic())
