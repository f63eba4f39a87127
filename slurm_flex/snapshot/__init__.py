"""One file that holds a moment: read strictly, written exactly, in the format of a bug report.

A snapshot is JSON (format slurm-flex-snapshot/1): everything that a pass decides on, so that
`slurm-flex plan --snapshot` replays it offline. What is written reads back as the same values.
An instance whose host's maintenance is announced has one key more, `maintenance`: its begin.
"""

from slurm_flex.snapshot.actions import dump_actions
from slurm_flex.snapshot.memory import dump_memory, load_memory
from slurm_flex.snapshot.read import FORMAT, load_snapshot
from slurm_flex.snapshot.record import SnapshotError
from slurm_flex.snapshot.write import dump_snapshot

__all__ = [
    "FORMAT",
    "SnapshotError",
    "dump_actions",
    "dump_memory",
    "dump_snapshot",
    "load_memory",
    "load_snapshot",
]
