"""Who may do what: the Google APIs service agent, which makes the VMs of a group, and ourselves.

Google's guide asks for roles/editor, or roles/compute.instanceAdmin.v1 and
roles/iam.serviceAccountUser, for PROJECT_NUMBER@cloudservices.gserviceaccount.com. A project's
policy doesn't show what is inherited from a folder or granted to a group, so that "not found" is a
warning and never an error (compute-engine.md, section 5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from slurm_flex.cluster import Cluster
from slurm_flex.compute.errors import ComputeError, PermissionDenied
from slurm_flex.doctor.check import Check, error, how_to_look, ok, skipped, warn
from slurm_flex.doctor.rest import Json, Rest

SERVICE_AGENT: Final = "service agent"
OWN_PERMISSIONS: Final = "own permissions"
ACT_AS: Final = "node service account"

_ALL: Final = frozenset({"roles/owner", "roles/editor"})
_MAKES_VMS: Final = frozenset({"roles/compute.instanceAdmin.v1", "roles/compute.admin"})
_ACTS_AS: Final = frozenset({"roles/iam.serviceAccountUser", "roles/iam.serviceAccountAdmin"})
_UNKNOWN: Final = "serviceAccount:THE_ACCOUNT_OF_THIS_HOST"
_DEFAULT_ACCOUNT: Final = re.compile(r"(\d+)-compute@developer\.gserviceaccount\.com")

NEEDED: Final = (
    "compute.instanceGroupManagers.create",
    "compute.instanceGroupManagers.update",
    "compute.instanceGroupManagers.delete",
    "compute.instanceGroupManagers.get",
    "compute.instanceGroupManagers.list",
    "compute.instanceTemplates.create",
    "compute.instanceTemplates.delete",
    "compute.instanceTemplates.get",
    "compute.instanceTemplates.list",
    "compute.instanceTemplates.useReadOnly",
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.get",
    "compute.instances.getSerialPortOutput",
    "compute.instances.list",
    "compute.zoneOperations.get",
    "compute.globalOperations.get",
)
"""What slurm-flex itself calls, in compute-engine.md's words."""


@dataclass(frozen=True)
class Project:
    """number: what service agents are named after; empty if nobody says it."""

    id: str
    number: str
    default_account: str


def find_project(rest: Rest, cluster: Cluster) -> Project:
    """The project's number and default service account, from whichever API tells them.

    Raises ComputeError if Compute Engine doesn't know the project or doesn't let us see it.
    """
    found = rest.get("compute", f"projects/{cluster.project}", where=f"project {cluster.project}")
    account = str(found.get("defaultServiceAccount", ""))
    match = _DEFAULT_ACCOUNT.fullmatch(account)
    if match:
        return Project(cluster.project, match[1], account)
    try:
        project = rest.get("cloudresourcemanager", f"projects/{cluster.project}", where="project")
    except ComputeError:
        return Project(cluster.project, "", account)
    number = str(project.get("name", "")).removeprefix("projects/")
    return Project(cluster.project, number if number.isdigit() else "", account)


def service_agent(rest: Rest, cluster: Cluster) -> Iterator[Check]:
    """present | conditional | not found here | can't be read. Raises ComputeError."""
    project = find_project(rest, cluster)
    if not project.number:
        fix = "enable cloudresourcemanager.googleapis.com, or grant resourcemanager.projects.get"
        yield skipped(SERVICE_AGENT, "the project's number can't be found out", fix)
        return
    agent = f"{project.number}@cloudservices.gserviceaccount.com"
    try:
        policy = rest.post(
            "cloudresourcemanager",
            f"projects/{project.id}:getIamPolicy",
            {"options": {"requestedPolicyVersion": 3}},
            where="project policy",
        )
    except PermissionDenied as refused:
        yield skipped(
            SERVICE_AGENT, f"the policy can't be read: {refused.what}", how_to_look(refused)
        )
        return
    roles = _roles_of(policy, agent)
    account = cluster.service_account or project.default_account
    if roles.always & _MAKES_VMS and not roles.always & _ACTS_AS and account:
        roles = roles.joined(_account_roles(rest, account, agent))
    yield _verdict(project, agent, roles)


@dataclass(frozen=True)
class _Roles:
    """Roles held without and with a condition."""

    always: frozenset[str] = frozenset()
    conditional: frozenset[str] = frozenset()

    def joined(self, other: _Roles) -> _Roles:
        return _Roles(self.always | other.always, self.conditional | other.conditional)


def _verdict(project: Project, agent: str, roles: _Roles) -> Check:
    if _suffice(roles.always):
        return ok(SERVICE_AGENT, f"{agent} may make VMs")
    if _suffice(roles.always | roles.conditional):
        names = ", ".join(sorted(roles.conditional))
        text = f"{agent} may make VMs under a condition only ({names})"
        return warn(SERVICE_AGENT, text, "see that the condition always holds, or grant without")
    has = f"has only {', '.join(sorted(roles.always))}" if roles.always else "has no role"
    text = f"{agent} {has} in the project's own policy; a folder or a group may still give it"
    return warn(SERVICE_AGENT, text, _granting(project, agent, roles))


def _suffice(roles: frozenset[str]) -> bool:
    return bool(roles & _ALL) or bool(roles & _MAKES_VMS and roles & _ACTS_AS)


def _granting(project: Project, agent: str, roles: _Roles) -> str:
    lacking = []
    if not roles.always & _MAKES_VMS:
        lacking.append("roles/compute.instanceAdmin.v1")
    if not roles.always & _ACTS_AS:
        lacking.append("roles/iam.serviceAccountUser")
    return " && ".join(
        f"gcloud projects add-iam-policy-binding {project.id} "
        f"--member=serviceAccount:{agent} --role={role}"
        for role in lacking
    )


def _roles_of(policy: Json, member: str) -> _Roles:
    always: set[str] = set()
    conditional: set[str] = set()
    for binding in policy.get("bindings", ()):
        if f"serviceAccount:{member}" in binding.get("members", ()):
            where = conditional if binding.get("condition") else always
            where.add(str(binding.get("role", "")))
    return _Roles(frozenset(always), frozenset(conditional))


def _account_roles(rest: Rest, account: str, agent: str) -> _Roles:
    """What the agent may do with the nodes' service account alone; nothing if unreadable."""
    try:
        policy = rest.post(
            "iam",
            f"projects/-/serviceAccounts/{account}:getIamPolicy",
            {"options": {"requestedPolicyVersion": 3}},
            where=f"policy of {account}",
        )
    except ComputeError:
        return _Roles()
    return _roles_of(policy, agent)


def own_permissions(rest: Rest, cluster: Cluster) -> Iterator[Check]:
    """Whether we may do what we do. Raises ComputeError."""
    held = _held(rest, "cloudresourcemanager", f"projects/{cluster.project}", NEEDED)
    lacking = [name for name in NEEDED if name not in held]
    if lacking:
        fix = (
            f"gcloud projects add-iam-policy-binding {cluster.project} "
            f"--member={rest.account or _UNKNOWN} --role=roles/compute.instanceAdmin.v1"
        )
        yield error(OWN_PERMISSIONS, f"we may not: {', '.join(lacking)}", fix)
    else:
        yield ok(OWN_PERMISSIONS, f"all {len(NEEDED)} that slurm-flex needs")


def acting_as(rest: Rest, cluster: Cluster) -> Iterator[Check]:
    """Whether we may give the nodes their service account. Raises ComputeError."""
    account = cluster.service_account or find_project(rest, cluster).default_account
    if not account:
        yield skipped(ACT_AS, "the default service account isn't known")
        return
    resource = f"projects/-/serviceAccounts/{account}"
    if _held(rest, "iam", resource, ("iam.serviceAccounts.actAs",)):
        yield ok(ACT_AS, f"we may act as {account}")
    else:
        fix = (
            f"gcloud iam service-accounts add-iam-policy-binding {account} "
            f"--member={rest.account or _UNKNOWN} --role=roles/iam.serviceAccountUser"
        )
        yield error(ACT_AS, f"we may not act as {account}, so that no template can name it", fix)


def _held(rest: Rest, api: str, resource: str, names: tuple[str, ...]) -> frozenset[str]:
    body: dict[str, Any] = {"permissions": list(names)}
    found = rest.post(api, f"{resource}:testIamPermissions", body, where="permissions")
    return frozenset(str(name) for name in found.get("permissions", ()))
