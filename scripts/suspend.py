#!/usr/bin/python3 -IS
"""SuspendProgram and ResumeFailProgram of slurm.conf: write down which nodes, wake slurm-flex."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from slurm_flex import hooks  # noqa: E402  # the tree this script stands in, and no other

if __name__ == "__main__":
    sys.exit(hooks.suspend(sys.argv, os.environ, ROOT))
