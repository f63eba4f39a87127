"""The controller: one Protocol, and the ways to talk to slurmctld behind it."""

from slurm_flex.cluster.settings import Settings
from slurm_flex.slurm.controller import Failure, Failures, SlurmController
from slurm_flex.slurm.pyslurm_backend import PyslurmController
from slurm_flex.slurm.scontrol import ScontrolController

__all__ = ["Failure", "Failures", "SlurmController", "open_controller"]


def open_controller(settings: Settings) -> SlurmController:
    """The backend that the settings name. Starts nothing; the first command comes with a read."""
    if settings.backend == "pyslurm":
        return PyslurmController.from_settings(settings)
    return ScontrolController.from_settings(settings)
