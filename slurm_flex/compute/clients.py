"""Google's generated clients, made once each, with our endpoint and credentials.

This imports google.cloud.compute_v1, which takes 1.5 s and 150 MB: only what talks to Compute
Engine imports it, and the reading commands don't.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from google.api_core.client_options import ClientOptions
from google.auth.credentials import Credentials
from google.cloud import compute_v1

from slurm_flex.compute.credentials import sign_in

C = TypeVar("C")

__all__ = ["Clients", "sign_in"]


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
