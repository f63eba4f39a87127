"""Google's generated clients, made once each, with our endpoint and credentials.

This imports google.cloud.compute_v1, which takes 1.5 s and 150 MB: only what talks to Compute
Engine imports it, and the reading commands don't.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import google.auth
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import GoogleAuthError
from google.cloud import compute_v1

from slurm_flex.compute.errors import PermissionDenied
from slurm_flex.model.cloud import CloudError

C = TypeVar("C")

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


def sign_in(credentials: str) -> Credentials:
    """Application default credentials, or none at all for "anonymous".

    Raises PermissionDenied where there are no credentials to be found.
    """
    if credentials == "anonymous":
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    try:
        found, _ = google.auth.default(scopes=SCOPES)
    except GoogleAuthError as error:
        fix = "run `gcloud auth application-default login`, or give the VM a service account"
        refused = CloudError("unauthenticated", str(error))
        raise PermissionDenied(refused, where="credentials", fix=fix) from error
    return found


class Clients:
    """The clients of one project. `endpoint` is a URL, or empty for Google's own."""

    def __init__(self, endpoint: str, credentials: Credentials) -> None:
        self._options = ClientOptions(api_endpoint=endpoint.rstrip("/") or None)
        self._credentials = credentials

    def _make(self, client: Callable[..., C]) -> C:
        return client(credentials=self._credentials, client_options=self._options)

    @cached_property
    def groups(self) -> compute_v1.InstanceGroupManagersClient:
        return self._make(compute_v1.InstanceGroupManagersClient)

    @cached_property
    def requests(self) -> compute_v1.InstanceGroupManagerResizeRequestsClient:
        return self._make(compute_v1.InstanceGroupManagerResizeRequestsClient)

    @cached_property
    def instances(self) -> compute_v1.InstancesClient:
        return self._make(compute_v1.InstancesClient)

    @cached_property
    def templates(self) -> compute_v1.InstanceTemplatesClient:
        return self._make(compute_v1.InstanceTemplatesClient)

    @cached_property
    def zone_operations(self) -> compute_v1.ZoneOperationsClient:
        return self._make(compute_v1.ZoneOperationsClient)

    @cached_property
    def global_operations(self) -> compute_v1.GlobalOperationsClient:
        return self._make(compute_v1.GlobalOperationsClient)
