"""The doctor: whether cloud, Slurm and host fit together, one line a check."""

from slurm_flex.doctor.check import Check, Status
from slurm_flex.doctor.examine import examine, is_fine

__all__ = ["Check", "Status", "examine", "is_fine"]
