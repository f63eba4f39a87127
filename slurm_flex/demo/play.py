"""``slurm-flex demo``: the whole life of a Flex-start cluster, played for real on this machine."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from slurm_flex.demo.release_tree import SUITES, host_release
from slurm_flex.demo.stage import Stage, StoryEnds
from slurm_flex.demo.story import SITE, Story
from slurm_flex.demo.world import World
from slurm_flex.errors import FlexError

_INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Play the demo. 0: all that was expected came about. 1: not, or it couldn't be played."""
    options = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _terminated)
    began = time.monotonic()
    print(f"Starting Slurm {options.release or host_release() or '?'}, an emulated Compute Engine")
    print("and slurm-flex between them; this takes some ten seconds.", flush=True)
    try:
        with World(SITE, release=options.release) as world:
            held = _play(world, began)
            if options.keep:
                world.keep()
                _print_what_to_type(world)
            return 0 if held else 1
    except FlexError as error:
        print(f"slurm-flex demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted: everything has been ended and removed.", file=sys.stderr)
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slurm-flex demo",
        description="The whole life of a Flex-start cluster on this machine: a real slurmctld, an "
        "emulated Compute Engine whose VMs are real slurmds, and slurm-flex. Needs root.",
    )
    parser.add_argument(
        "--release",
        choices=sorted(SUITES),
        help="of Slurm; another than this machine's is unpacked into .trees first (220 MB)",
    )
    parser.add_argument("--keep", action="store_true", help="leave the cluster up at the end")
    return parser


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _play(world: World, began: float) -> bool:
    stage = Stage(world, began)
    try:
        Story(stage).play()
    except StoryEnds as end:
        print(f"The story ends here: {end}")
        print(f"All logs are kept in {_kept_logs(world)}.")
    return stage.verdict()


def _kept_logs(world: World) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="slurm-flex-demo-logs-"))
    for name, text in world.slurm.logs().items():
        (folder / name).write_text(text)
    return folder


def _print_what_to_type(world: World) -> None:
    program = Path(sys.executable).with_name("slurm-flex")
    print(
        f"""
The cluster stays up. In this shell:

  export PATH={world.slurm.bin_dir}:{program.parent}:$PATH
  export SLURM_CONF={world.slurm.conf_path} SLURM_FLEX_CONFIG={world.settings_path}

  sinfo; squeue                      the cluster
  sbatch -N2 -p train --wrap 'srun hostname'
  slurm-flex status                  and: nodes, queue, why JOB, events --follow
  xdg-open {world.emulator.url}/     what the cloud holds, and what can be made to go wrong there
  curl -d '{{"name": "stockout"}}' {world.emulator.url}/emulator/faults
  curl -d '{{"name": "end_of_life", "instance": "demo-serve-0", "in": "10s"}}' \\
      {world.emulator.url}/emulator/faults
  less {world.slurm.log_dir}/slurm-flex.log

  kill {world.keeper_pid}            ends all of it and leaves nothing behind
""",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
