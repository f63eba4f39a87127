"""An API that isn't enabled, in every shape in which Google says so."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_flex.disabled_api import DisabledApi, disabled_api

TEXT = (
    "Compute Engine API has not been used in project 123 before or it is disabled. Enable it by "
    "visiting https://console.developers.google.com/apis/api/compute.googleapis.com/overview"
    "?project=123 then retry."
)
ENTRY = {"message": TEXT, "domain": "usageLimits", "reason": "accessNotConfigured"}


def info(service: str = "file.googleapis.com", consumer: str = "projects/123") -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "SERVICE_DISABLED",
        "domain": "googleapis.com",
        "metadata": {"service": service, "consumer": consumer},
    }


def said(message: str = TEXT, **more: Any) -> dict[str, Any]:
    return {"error": {"code": 403, "message": message, "status": "PERMISSION_DENIED", **more}}


@pytest.mark.parametrize(
    ("body", "service"),
    [
        (said(errors=[ENTRY]), "compute.googleapis.com"),
        (said(errors=[ENTRY], details=[info("compute.googleapis.com")]), "compute.googleapis.com"),
        (said("Cloud Filestore API ...", details=["?", {}, info()]), "file.googleapis.com"),
    ],
)
def test_each_shape_names_the_api_and_the_command(body: object, service: str) -> None:
    found = disabled_api(body)

    assert found == DisabledApi(service, "123")
    assert found.what == f"{service} is not enabled in project 123"
    assert found.fix == f"gcloud services enable {service} --project=123"


def test_credentials_without_a_quota_project_are_told_what_they_lack() -> None:
    """Enabling the API in Google's own project 764086051850 is nothing that one can do."""
    message = (
        "Your application is authenticating by using local Application Default Credentials. The "
        "file.googleapis.com API requires a quota project, which is not set by default."
    )
    found = disabled_api(said(message, details=[info(consumer="projects/764086051850")]))

    assert found is not None
    assert found.fix == "gcloud auth application-default set-quota-project PROJECT"
    assert "764086051850" not in found.what + found.fix


@pytest.mark.parametrize(
    "body",
    [
        None, [], "no", {}, {"error": "no"}, {"error": {}}, said(), said(details=5, errors={}),
        said("no", errors=[ENTRY | {"message": "Access Not Configured."}]),
        said("no", details=[info() | {"metadata": None}]),
        said("no", details=[info() | {"reason": ["SERVICE_DISABLED"]}]),
        said("no", details=[info("x; rm -rf /.googleapis.com")]),
        said(errors=[ENTRY | {"reason": "forbidden"}]),
    ],
)  # fmt: skip
def test_what_doesnt_name_an_api_is_left_to_others(body: object) -> None:
    assert disabled_api(body) is None


def test_a_project_that_is_none_stays_out_of_the_command() -> None:
    found = disabled_api(said("no", details=[info(consumer="projects/$(reboot)")]))

    assert found is not None
    assert found.fix == "gcloud services enable file.googleapis.com"
