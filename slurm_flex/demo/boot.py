"""What a demo VM does before its slurmd: its GPUs are those of a fresh machine.

Run as ``python -m slurm_flex.demo.boot FOLDER NAME PROGRAM ARG...``; it becomes the program.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from slurm_flex.demo.fakegpu import FakeGpus


def main(argv: list[str]) -> None:
    folder, name, *program = argv
    FakeGpus(Path(folder)).replaced(name)
    os.execv(program[0], program)  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    main(sys.argv[1:])
