"""The little that is needed of Compute Engine's neighbours: Resource Manager (v3), IAM, Filestore,
Lustre and Secret Manager, and Service Usage (``service_usage``). What they hold are knobs:
``iam_bindings``, ``denied_permissions``, ``disabled_apis``, ``policy_readable``, ``filestores``,
``secrets``."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Final

from slurm_flex.emulator.core.capacity import best_rule
from slurm_flex.emulator.core.knobs import Knobs
from slurm_flex.emulator.web.catalog_calls import BIRTH, number_of
from slurm_flex.emulator.web.exchange import Answer, Asked, error_answer, json_answer, rpc_error
from slurm_flex.emulator.web.service_usage import is_disabled, service_disabled, service_usage

Json = dict[str, Any]
Handler = Callable[[Knobs, Asked, "re.Match[str]"], Answer]
_RM: Final = "cloudresourcemanager.googleapis.com"
_FILE: Final = "file.googleapis.com"
_LUSTRE: Final = "lustre.googleapis.com"
_ROUTES: Final[list[tuple[str, re.Pattern[str], str, Handler]]] = []


def neighbours(knobs: Knobs, asked: Asked) -> Answer:
    """Answer a call of one of these APIs."""
    for verb, pattern, api, handler in _ROUTES:
        match = pattern.fullmatch(asked.path)
        if match is None or verb != asked.verb:
            continue
        project = match.groupdict().get("project", "")
        service = _LUSTRE if api == _FILE and _is_lustre(knobs, match["name"]) else api
        if is_disabled(knobs, service):
            return error_answer(service_disabled(service, project, is_compute=False))
        return handler(knobs, asked, match)
    if asked.path.startswith("/v1/projects/"):
        return service_usage(knobs, asked)
    return rpc_error(404, "NOT_FOUND", "Requested entity was not found.")


def _route(verb: str, path: str, api: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        _ROUTES.append((verb, re.compile(path), api, handler))
        return handler

    return register


@_route("GET", r"/v3/projects/(?P<project>[^/:]+)", _RM)
def _get_project(knobs: Knobs, _asked: Asked, match: re.Match[str]) -> Answer:
    project = match["project"]
    if not fnmatchcase(project, knobs.projects):
        return _denied("resourcemanager.projects.get", project)
    return json_answer(
        {
            "name": f"projects/{number_of(project)}",
            "parent": "organizations/123456789012",
            "projectId": project,
            "state": "ACTIVE",
            "displayName": project,
            "createTime": BIRTH.isoformat().replace("+00:00", "Z"),
            "updateTime": BIRTH.isoformat().replace("+00:00", "Z"),
            "etag": 'W/"emulated"',
        }
    )


@_route("POST", r"/v3/projects/(?P<project>[^/:]+):getIamPolicy", _RM)
def _get_policy(knobs: Knobs, _asked: Asked, match: re.Match[str]) -> Answer:
    project = match["project"]
    if not knobs.policy_readable:
        return _denied("resourcemanager.projects.getIamPolicy", project)
    bindings = _bindings(knobs.iam_bindings, project)
    version = 3 if any("condition" in item for item in bindings) else 1
    return json_answer({"version": version, "etag": "BwZemulated=", "bindings": bindings})


@_route("POST", r"/v3/projects/(?P<project>[^/:]+):testIamPermissions", _RM)
@_route("POST", r"/v1/projects/(?P<project>[^/:]+)/serviceAccounts/[^/:]+:testIamPermissions",
        "iam.googleapis.com")  # fmt: skip
def _test_permissions(knobs: Knobs, asked: Asked, _match: re.Match[str]) -> Answer:
    wanted = _read(asked).get("permissions", [])
    denied = [item.strip() for item in knobs.denied_permissions.split(",") if item.strip()]
    held = [p for p in wanted if not any(fnmatchcase(str(p), item) for item in denied)]
    return json_answer({"permissions": held} if held else {})


@_route("POST", r"/v1/projects/(?P<project>[^/:]+)/serviceAccounts/(?P<email>[^/:]+):getIamPolicy",
        "iam.googleapis.com")  # fmt: skip
def _account_policy(knobs: Knobs, _asked: Asked, match: re.Match[str]) -> Answer:
    rules = best_rule(knobs.service_account_bindings, match["email"]) or {}
    return json_answer({"version": 1, "etag": "ACAB", "bindings": _bindings(rules, "")})


@_route("GET", r"/v1/(?P<name>projects/(?P<project>[^/]+)/locations/[^/]+/instances/[^/]+)",
        _FILE)  # fmt: skip
def _file_system(knobs: Knobs, _asked: Asked, match: re.Match[str]) -> Answer:
    """Filestore and Lustre have the same path on hosts of their own; the knob tells which."""
    rule = best_rule(knobs.filestores, match["name"])
    if rule is None:
        return rpc_error(404, "NOT_FOUND", f"Resource '{match['name']}' was not found")
    if _is_lustre(knobs, match["name"]):
        return json_answer(
            {
                "name": match["name"],
                "state": rule.get("state", "ACTIVE"),
                "filesystem": str(rule["mount_point"]).rsplit("/", 1)[-1],
                "capacityGib": "18000",
                "mountPoint": rule["mount_point"],
                "network": f"projects/{match['project']}/global/networks/default",
            }
        )
    return json_answer(
        {
            "name": match["name"],
            "createTime": BIRTH.isoformat().replace("+00:00", "Z"),
            "state": rule.get("state", "READY"),
            "tier": "BASIC_SSD",
            "protocol": "NFS_V3",
            "fileShares": [{"name": rule.get("share", "nfsshare"), "capacityGb": "2560"}],
            "networks": [
                {
                    "network": "default",
                    "modes": ["MODE_IPV4"],
                    "reservedIpRange": "10.0.0.0/29",
                    "ipAddresses": [rule.get("address", "10.0.0.2")],
                    "connectMode": "DIRECT_PEERING",
                }
            ],
        }
    )


@_route("GET", r"/v1/projects/(?P<project>[^/]+)/secrets/(?P<secret>[^/]+)/versions/"
        r"(?P<version>[^/:]+):access", "secretmanager.googleapis.com")  # fmt: skip
def _secret(knobs: Knobs, _asked: Asked, match: re.Match[str]) -> Answer:
    held = knobs.secrets.get(match["secret"])
    name = f"projects/{number_of(match['project'])}/secrets/{match['secret']}"
    if held is None:
        return rpc_error(404, "NOT_FOUND", f"Secret [{name}] not found or has no versions.")
    version = "1" if match["version"] == "latest" else match["version"]
    data = base64.b64encode(str(held).encode()).decode()
    return json_answer({"name": f"{name}/versions/{version}", "payload": {"data": data}})


def _is_lustre(knobs: Knobs, name: str) -> bool:
    return "mount_point" in (best_rule(knobs.filestores, name) or {})


def _bindings(rules: Json, project: str) -> list[Json]:
    """Role to members, or to ``{"members": [...], "condition": {...}}``; ``{number}`` is replaced
    by the project's number."""
    found = []
    for role, given in rules.items():
        entry: Json = dict(given) if isinstance(given, dict) else {"members": given}
        members = [str(item).replace("{number}", number_of(project)) for item in entry["members"]]
        found.append({"role": role, **entry, "members": members})
    return found


def _read(asked: Asked) -> Json:
    try:
        body = json.loads(asked.body or b"{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _denied(permission: str, project: str) -> Answer:
    return rpc_error(
        403,
        "PERMISSION_DENIED",
        f"Permission '{permission}' denied on resource "
        f"'//cloudresourcemanager.googleapis.com/projects/{project}' (or it may not exist).",
        [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "IAM_PERMISSION_DENIED",
                "domain": "cloudresourcemanager.googleapis.com",
                "metadata": {"permission": permission, "resource": f"projects/{project}"},
            }
        ],
    )
