"""Which APIs a project has enabled: Service Usage v1, and what a call of a disabled one is told.

Every API that Google has is enabled here, except those that the knob ``disabled_apis`` names.
Sources: serviceusage v1's discovery document (batchGet takes 30 names at most, list has pages of
50, 200 at most, and filters state:ENABLED and state:DISABLED); error bodies from public reports.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any, Final

from slurm_flex.emulator.core.errors import ApiError
from slurm_flex.emulator.core.knobs import Knobs
from slurm_flex.emulator.web.catalog_calls import number_of
from slurm_flex.emulator.web.exchange import Answer, Asked, json_answer, rpc_error

Json = dict[str, Any]
COMPUTE: Final = "compute.googleapis.com"
_ITSELF: Final = "serviceusage.googleapis.com"
_TITLES: Final = {
    "cloudresourcemanager.googleapis.com": "Cloud Resource Manager API",
    COMPUTE: "Compute Engine API",
    "file.googleapis.com": "Cloud Filestore API",
    "iam.googleapis.com": "Identity and Access Management (IAM) API",
    "iamcredentials.googleapis.com": "IAM Service Account Credentials API",
    "logging.googleapis.com": "Cloud Logging API",
    "lustre.googleapis.com": "Google Cloud Managed Lustre API",
    "monitoring.googleapis.com": "Cloud Monitoring API",
    "oslogin.googleapis.com": "Cloud OS Login API",
    "secretmanager.googleapis.com": "Secret Manager API",
    _ITSELF: "Service Usage API",
    "storage.googleapis.com": "Cloud Storage API",
}
_PATH: Final = re.compile(r"/v1/projects/(?P<project>[^/:]+)/services(?P<rest>:batchGet|/[^/:]+|)")
_MOST_NAMES: Final = 30
_PAGE: Final = 50
_LARGEST_PAGE: Final = 200


def is_disabled(knobs: Knobs, api: str) -> bool:
    return any(fnmatchcase(api, item.strip()) for item in knobs.disabled_apis.split(","))


def service_disabled(api: str, project: str, *, is_compute: bool) -> ApiError:
    """403 as Google says it; Compute Engine's bodies have an `errors` list as well."""
    number, title = number_of(project), _TITLES.get(api, api)
    page = f"https://console.developers.google.com/apis/api/{api}/overview?project={number}"
    message = (
        f"{title} has not been used in project {number} before or it is disabled. Enable it by "
        f"visiting {page} then retry. If you enabled this API recently, wait a few minutes for the "
        "action to propagate to our systems and retry."
    )
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "SERVICE_DISABLED",
        "domain": "googleapis.com",
        "metadata": {
            "service": api, "serviceTitle": title, "consumer": f"projects/{number}",
            "containerInfo": number, "activationUrl": page,
        },
    }  # fmt: skip
    said = {
        "@type": "type.googleapis.com/google.rpc.LocalizedMessage",
        "locale": "en-US",
        "message": message,
    }
    return ApiError(
        403, "accessNotConfigured", message, domain="usageLimits", status="PERMISSION_DENIED",
        details=(info, said), has_errors=is_compute,
    )  # fmt: skip


def service_usage(knobs: Knobs, asked: Asked) -> Answer:
    """Answer a call of Service Usage; 404 for what is none."""
    match = _PATH.fullmatch(asked.path)
    if match is None or asked.verb != "GET":
        return rpc_error(404, "NOT_FOUND", "Requested entity was not found.")
    project, rest = match["project"], match["rest"]
    if is_disabled(knobs, _ITSELF):
        error = service_disabled(_ITSELF, project, is_compute=False)
        return json_answer(error.body(), error.code)
    if rest == ":batchGet":
        return _batch(knobs, project, list(asked.repeated.get("names", ())))
    if rest:
        found = _looked_up(knobs, project, [rest[1:]])
        return found if isinstance(found, Answer) else json_answer(found[0])
    return _page(knobs, project, asked.params)


def _batch(knobs: Knobs, project: str, names: list[str]) -> Answer:
    parents = (f"projects/{project}/services/", f"projects/{number_of(project)}/services/")
    if not names or len(names) > _MOST_NAMES or any(not one.startswith(parents) for one in names):
        return rpc_error(400, "INVALID_ARGUMENT", "Request contains an invalid argument.")
    found = _looked_up(knobs, project, [one.rpartition("/")[2] for one in names])
    return found if isinstance(found, Answer) else json_answer({"services": found})


def _looked_up(knobs: Knobs, project: str, apis: list[str]) -> list[Json] | Answer:
    unheard_of = [api for api in apis if api not in _TITLES]
    if _is_denied(knobs, "serviceusage.services.get"):
        return _denied(f"Permission denied to get service [{apis[0]}]", "AUTH_PERMISSION_DENIED")
    if unheard_of:
        return _denied(
            f"Not found or permission denied for service(s): {', '.join(unheard_of)}.",
            "SERVICE_CONFIG_NOT_FOUND_OR_PERMISSION_DENIED",
        )
    return [_service(knobs, project, api) for api in apis]


def _page(knobs: Knobs, project: str, params: dict[str, str]) -> Answer:
    if _is_denied(knobs, "serviceusage.services.list"):
        where = f"consumer container [projects/{number_of(project)}]"
        return _denied(f"Permission denied to list services for {where}", "AUTH_PERMISSION_DENIED")
    size, start = params.get("pageSize", "0"), params.get("pageToken", "0")
    state = params.get("filter", "").removeprefix("state:")
    if not size.isdigit() or not start.isdigit() or state not in ("", "ENABLED", "DISABLED"):
        return rpc_error(400, "INVALID_ARGUMENT", "Request contains an invalid argument.")
    every = [_service(knobs, project, api) for api in sorted(_TITLES)]
    found = [one for one in every if one["state"] == state or not state]
    end = int(start) + min(int(size) or _PAGE, _LARGEST_PAGE)
    page: Json = {"services": found[int(start) : end]}
    if end < len(found):
        page["nextPageToken"] = str(end)
    return json_answer(page)


def _service(knobs: Knobs, project: str, api: str) -> Json:
    number = number_of(project)
    return {
        "name": f"projects/{number}/services/{api}",
        "parent": f"projects/{number}",
        "config": {"name": api, "title": _TITLES[api]},
        "state": "DISABLED" if is_disabled(knobs, api) else "ENABLED",
    }


def _is_denied(knobs: Knobs, permission: str) -> bool:
    return any(fnmatchcase(permission, one.strip()) for one in knobs.denied_permissions.split(","))


def _denied(message: str, reason: str) -> Answer:
    return rpc_error(
        403,
        "PERMISSION_DENIED",
        message,
        [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": reason,
                "domain": _ITSELF,
            }
        ],
    )
