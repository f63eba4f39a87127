"""The fleet on Compute Engine, over google-cloud-compute (1.55 and later)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import structlog

from slurm_flex.cluster import Cluster, Pool
from slurm_flex.cluster.settings import Settings
from slurm_flex.compute.calls import Caller
from slurm_flex.compute.clients import Clients, sign_in
from slurm_flex.compute.fleet import Operation, Outcome, Survey
from slurm_flex.compute.mutations import Mutations
from slurm_flex.compute.operations import poll
from slurm_flex.compute.reading import Reader
from slurm_flex.compute.workshop import Workshop

_log = structlog.get_logger(__name__)

StartupScript = Callable[[Pool], str]
"""The startup script of a pool's VMs, whole."""


class GoogleFleet(Mutations):
    """Implements Fleet. Safe to use from several threads.

    Raises PermissionDenied if there are no credentials at all.
    """

    def __init__(self, cluster: Cluster, settings: Settings, startup_script: StartupScript) -> None:
        clients = Clients(settings.endpoint, sign_in(settings.credentials))
        call = Caller(settings.cloud_timeout)
        super().__init__(cluster, clients, call)
        self._settings = settings
        self._warned: set[str] = set()
        self._lock = threading.Lock()
        # A caller of its own: a reading counts its calls while operations are looked at beside it.
        self._read_call = Caller(settings.cloud_timeout)
        self._reader = Reader(
            cluster, clients, self._read_call, settings.observe_deadline, self._warn_once
        )
        self.workshop = Workshop(cluster, settings, clients, call, startup_script)

    @property
    def calls(self) -> Counter[str]:
        """Calls over the wire so far, repetitions included, such as "Instances.list"."""
        return self._call.tries + self._read_call.tries

    def read(self, pools: Iterable[Pool]) -> Survey:
        return self._reader.read(pools)

    def poll(self, operations: Sequence[Operation]) -> tuple[Outcome, ...]:
        within = self._settings.observe_deadline
        return poll(self._clients, self._call, self._cluster.project, operations, within=within)

    def ensure_group(self, pool: Pool) -> Operation:
        return self.workshop.ensure_group(pool)

    def _warn_once(self, text: str) -> None:
        with self._lock:
            if text in self._warned:
                return
            self._warned.add(text)
        _log.warning(text)
