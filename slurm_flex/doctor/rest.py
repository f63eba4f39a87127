"""Google's APIs as plain JSON: for the few calls that a whole client library would be too much for.

Against the emulator all of them are at its one address; at Google each has a host of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Final

import requests
from google.api_core.exceptions import from_http_response
from google.auth.transport.requests import AuthorizedSession

from slurm_flex.cluster.settings import Settings
from slurm_flex.compute.calls import Caller
from slurm_flex.compute.credentials import sign_in

Json = Mapping[str, Any]

_HOSTS: Final = {
    "compute": "https://compute.googleapis.com",
    "cloudresourcemanager": "https://cloudresourcemanager.googleapis.com",
    "iam": "https://iam.googleapis.com",
    "serviceusage": "https://serviceusage.googleapis.com",
}
_PATHS: Final = {
    "compute": "compute/v1",
    "cloudresourcemanager": "v3",
    "iam": "v1",
    "serviceusage": "v1",
}


@dataclass(frozen=True)
class _Question:
    verb: str
    url: str
    body: Json | None


class Rest:
    """Asks Google's APIs. Safe to use from several threads.

    Every call raises ComputeError: PermissionDenied, NotFound, Unreachable and so on.
    """

    def __init__(self, settings: Settings) -> None:
        self._endpoint = settings.endpoint.rstrip("/")
        self._credentials = settings.credentials
        self._call = Caller(settings.cloud_timeout)
        self._lock = threading.Lock()
        self._session: requests.Session | None = None
        self._skew: timedelta | None = None

    @property
    def skew(self) -> timedelta | None:
        """How far our clock is ahead of Google's, to about a second; None before any answer."""
        return self._skew

    @property
    def account(self) -> str:
        """Who asks, as an IAM member such as ``serviceAccount:x@y``; known once something was
        asked. Empty where nobody signed in, or the credentials don't say."""
        credentials = getattr(self._session, "credentials", None)
        service = str(getattr(credentials, "service_account_email", "") or "")
        user = str(getattr(credentials, "account", "") or "")
        if "@" in service:
            return f"serviceAccount:{service}"
        return f"user:{user}" if "@" in user else ""

    def get(self, api: str, path: str, *, where: str) -> Json:
        """GET the JSON of a resource, such as ("compute", "projects/p"); a query may follow."""
        return self._call(self._ask, _Question("GET", self._url(api, path), None), where=where)

    def post(self, api: str, path: str, body: Json, *, where: str) -> Json:
        """POST a question (these calls change nothing)."""
        return self._call(self._ask, _Question("POST", self._url(api, path), body), where=where)

    def _url(self, api: str, path: str) -> str:
        return f"{self._endpoint or _HOSTS[api]}/{_PATHS[api]}/{path}"

    def _ask(self, request: _Question, *, retry: None, timeout: float) -> Json:  # noqa: ARG002
        answer = self._signed_in().request(
            request.verb, request.url, json=request.body, timeout=timeout
        )
        self._note_time(answer)
        if answer.status_code >= 400:
            raise from_http_response(answer)  # type: ignore[no-untyped-call]
        found = answer.json()
        if not isinstance(found, dict):
            raise ValueError("the answer is no JSON object")
        return found

    def _signed_in(self) -> requests.Session:
        with self._lock:
            if self._session is None:
                credentials = sign_in(self._credentials)
                self._session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
            return self._session

    def _note_time(self, answer: requests.Response) -> None:
        text = answer.headers.get("Date", "")
        try:
            theirs = parsedate_to_datetime(text)
        except ValueError:
            return
        if theirs.tzinfo is not None:
            self._skew = datetime.now(timezone.utc) - answer.elapsed / 2 - theirs
