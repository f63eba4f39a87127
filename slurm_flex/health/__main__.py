"""`python -m slurm_flex.health`."""

import sys

from slurm_flex.health.cli import main

sys.exit(main())
