"""The startup script of each pool's VMs, with the shares that the pool mounts looked up once.

A cluster file names Filestore and Lustre instances; their addresses come from their own APIs, and
are asked for when the first template is made, not at every start of the daemon.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from slurm_flex.cluster import Cluster, Pool
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.storage import (
    FILESTORE_API,
    LUSTRE_API,
    Share,
    names_of,
    resolve_storage,
)
from slurm_flex.disabled_api import disabled_api
from slurm_flex.errors import FlexError
from slurm_flex.render.startup import startup_script
from slurm_flex.text import one_line

_NOT_FOUND: Final = 404


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
        return startup_script(self._cluster, self._settings, pool, self.shares())

    def shares(self) -> Mapping[str, Share]:
        """All storage that the cluster file names, by its name. Raises InputErrors."""
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
            found = answer.json() if answer.ok or answer.content else {}
        except (requests.RequestException, GoogleAuthError, ValueError) as error:
            raise FlexError(f"it couldn't be looked up: {error}", where=name) from error
        if not answer.ok or not isinstance(found, dict):
            disabled = disabled_api(found)
            if disabled is not None:
                what = f"it couldn't be looked up: {disabled.what}"
                raise FlexError(what, where=name, fix=disabled.fix)
            said = f"HTTP {answer.status_code}" + (f" {answer.reason}" if answer.reason else "")
            message = _message(found)
            what = f"it couldn't be looked up: {said}" + (f", {message}" if message else "")
            raise FlexError(what, where=name, fix=_fix(answer.status_code, name))
        return found


def _message(answer: object) -> str:
    """The text of Google's error, on one line; empty where it isn't one."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    text = error.get("message") if isinstance(error, Mapping) else None
    return one_line(text) if isinstance(text, str) else ""


def _fix(status: int, name: str) -> str:
    project = name.split("/")[1] if name.startswith("projects/") else ""
    if status == _NOT_FOUND:
        return f"gcloud filestore instances list --project={project}, or gcloud lustre instances"
    return "let the controller's service account read it: roles/file.viewer, roles/lustre.viewer"
