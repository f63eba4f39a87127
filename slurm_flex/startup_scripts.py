"""The startup script of each pool's VMs, with the shares that the pool mounts looked up once.

A cluster file names Filestore and Lustre instances; their addresses come from their own APIs, and
are asked for when the first template is made, not at every start of the daemon.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from slurm_flex.cluster import Cluster, Pool
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.storage import (
    FILESTORE_API,
    LUSTRE_API,
    Share,
    names_of,
    resolve_storage,
)
from slurm_flex.errors import FlexError
from slurm_flex.render.startup import startup_script


class StartupScripts:
    """Gives the script of a pool. Safe to use from several threads.

    Raises FlexError for storage that can't be found: a node without its home is of no use.
    """

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._shares: Mapping[str, Share] | None = None
        self._lock = threading.Lock()

    def __call__(self, pool: Pool) -> str:
        return startup_script(self._cluster, self._settings, pool, self._found_shares())

    def _found_shares(self) -> Mapping[str, Share]:
        with self._lock:
            if self._shares is None:
                self._shares = self._look_up()
            return self._shares

    def _look_up(self) -> Mapping[str, Share]:
        if not names_of(self._cluster):
            return {}
        # The emulator has these APIs under the same address as Compute Engine's.
        here = f"{self._settings.endpoint.rstrip('/')}/v1" if self._settings.endpoint else ""
        return resolve_storage(
            self._cluster, self._fetch, filestore=here or FILESTORE_API, lustre=here or LUSTRE_API
        )

    def _fetch(self, url: str) -> Mapping[str, Any]:
        """GET a URL as whoever we are signed in as. Raises FlexError."""
        import requests  # noqa: PLC0415  # only for sites that mount something
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
        from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415

        from slurm_flex.compute.clients import sign_in  # noqa: PLC0415

        name = url.partition("/v1/")[2]
        credentials = sign_in(self._settings.credentials)
        timeout = self._settings.cloud_timeout.total_seconds()
        try:
            with AuthorizedSession(credentials) as session:  # type: ignore[no-untyped-call]
                answer = session.get(url, timeout=timeout)
            found = answer.json() if answer.ok else {}
        except (requests.RequestException, GoogleAuthError, ValueError) as error:
            raise FlexError(f"it couldn't be looked up: {error}", where=name) from error
        if not answer.ok or not isinstance(found, dict):
            said = f"HTTP {answer.status_code}" + (f" {answer.reason}" if answer.reason else "")
            fix = "check its name, and that the controller may read it"
            raise FlexError(f"it couldn't be looked up: {said}", where=name, fix=fix)
        return found
