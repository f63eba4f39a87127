"""Signing in to Google Cloud. Light: the generated clients are not imported."""

from __future__ import annotations

from typing import Final

import google.auth
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import GoogleAuthError

from slurm_flex.compute.errors import PermissionDenied
from slurm_flex.model.cloud import CloudError

SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
SIGN_IN_FIX: Final = "run `gcloud auth application-default login`, or give the VM a service account"


def sign_in(credentials: str) -> Credentials:
    """Application default credentials, or none at all for "anonymous".

    Raises PermissionDenied where there are no credentials to be found.
    """
    if credentials == "anonymous":
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    try:
        found, _ = google.auth.default(scopes=SCOPES)
    except GoogleAuthError as error:
        refused = CloudError("unauthenticated", str(error))
        raise PermissionDenied(refused, where="credentials", fix=SIGN_IN_FIX) from error
    return found
