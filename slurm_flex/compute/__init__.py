"""The fleet: one Protocol, its backend on google-cloud-compute, templates and groups.

Importing this costs nothing; Google's library (1.5 s) is imported when a fleet is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_flex.cluster import Cluster, Pool
    from slurm_flex.cluster.settings import Settings
    from slurm_flex.compute.google import GoogleFleet


def open_fleet(
    cluster: Cluster, settings: Settings, startup_script: Callable[[Pool], str]
) -> GoogleFleet:
    """The cluster's machines. `startup_script` gives the whole startup script of a pool's VMs.

    Raises PermissionDenied if there are no credentials to sign in with.
    """
    from slurm_flex.compute.google import GoogleFleet  # noqa: PLC0415 - 1.5 s, only when needed

    return GoogleFleet(cluster, settings, startup_script)
