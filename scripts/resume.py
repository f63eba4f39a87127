#!/usr/bin/python3 -IS
"""ResumeProgram of slurm.conf: write down which nodes slurmctld wants, wake slurm-flex, exit."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from slurm_flex import hooks  # noqa: E402  # the tree this script stands in, and no other

if __name__ == "__main__":
    sys.exit(hooks.resume(sys.argv, os.environ, ROOT))
