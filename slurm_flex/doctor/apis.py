"""Which Google APIs this configuration calls, and whether the project has them enabled.

Asked of Service Usage (v1, services.batchGet: at most 30 names; it needs the permission
serviceusage.services.get). Whoever may not ask, or asks in vain, knows nothing: no
alarm. What lies in another project isn't looked at here, since its APIs may be enabled there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from slurm_flex.cluster import Cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.storage import names_of, services_of
from slurm_flex.compute.errors import PermissionDenied
from slurm_flex.disabled_api import enabling
from slurm_flex.doctor.check import Check, error, how_to_look, ok, skipped, warn
from slurm_flex.doctor.rest import Rest

NAME: Final = "APIs"

COMPUTE: Final = "compute.googleapis.com"
SECRETS: Final = "secretmanager.googleapis.com"
ASKED_BY_DOCTOR: Final = {
    "serviceusage.googleapis.com": "which APIs are enabled",
    "cloudresourcemanager.googleapis.com": "the service agent's roles and our permissions",
    "iam.googleapis.com": "whether we may act as the nodes' service account",
}
"""Without them a cluster works; the doctor sees less."""

_ROLE: Final = "roles/serviceusage.serviceUsageViewer"


@dataclass(frozen=True)
class Need:
    """Any one of these APIs is enough, for this."""

    services: tuple[str, ...]
    purpose: str


def needs(cluster: Cluster, settings: Settings) -> tuple[Need, ...]:
    """What a cluster can't do without, as far as it lies in the cluster's own project."""
    found: dict[tuple[str, ...], str] = {(COMPUTE,): "it makes the VMs"}
    for name in names_of(cluster):
        if _project(name) == cluster.project:
            purpose = f"it tells where {name.rpartition('/')[2]} is mounted from"
            found.setdefault(services_of(cluster, name), purpose)
    place, _, secret = settings.key_source.partition(":")
    if place == "secret" and _project(secret) == cluster.project:
        found[SECRETS,] = f"nodes read {secret.split('/')[3]} from it"
    return tuple(Need(services, purpose) for services, purpose in found.items())


def apis(rest: Rest, cluster: Cluster, settings: Settings) -> Iterator[Check]:
    """One check a disabled API, or one for all that are enabled. Raises ComputeError."""
    wanted = needs(cluster, settings)
    services = dict.fromkeys(one for need in wanted for one in need.services)
    try:
        states = _states(rest, cluster.project, (*services, *ASKED_BY_DOCTOR))
    except PermissionDenied as refused:
        fix = f"grant us serviceusage.services.get, which {_ROLE} has; or look: gcloud services "
        fix += f"list --enabled --project={cluster.project}"
        why = f"unknown which are enabled: {refused.what}"
        yield skipped(NAME, why, how_to_look(refused) or fix)
        return
    bad = [*_lacking(wanted, states, cluster.project), *_unseen(states, cluster.project)]
    yield from bad
    unsaid = sorted(one for one in services if states.get(one) not in ("ENABLED", "DISABLED"))
    if unsaid:
        yield skipped(NAME, f"unknown whether enabled: {', '.join(unsaid)}")
    elif not bad:
        enabled = sorted(one.partition(".")[0] for one in states if states[one] == "ENABLED")
        yield ok(NAME, f"enabled in project {cluster.project}: {', '.join(enabled)}")


def _lacking(wanted: tuple[Need, ...], states: Mapping[str, str], project: str) -> Iterator[Check]:
    for need in wanted:
        if all(states.get(service) == "DISABLED" for service in need.services):
            text = f"{' or '.join(need.services)} is not enabled in project {project}: "
            yield error(NAME, f"{text}{need.purpose}", enabling(need.services[0], project))


def _unseen(states: Mapping[str, str], project: str) -> Iterator[Check]:
    for service, purpose in ASKED_BY_DOCTOR.items():
        if states.get(service) == "DISABLED":
            text = f"{service} is not enabled in project {project}: doctor can't look at {purpose}"
            yield warn(NAME, text, enabling(service, project))


def _states(rest: Rest, project: str, services: tuple[str, ...]) -> Mapping[str, str]:
    """Service to ENABLED or DISABLED. Raises ComputeError."""
    query = urlencode([("names", f"projects/{project}/services/{one}") for one in services])
    found = rest.get("serviceusage", f"projects/{project}/services:batchGet?{query}", where=NAME)
    return {
        str(one.get("name", "")).rpartition("/")[2]: str(one.get("state", ""))
        for one in found.get("services", ())
    }


def _project(name: str) -> str:
    parts = name.split("/")
    return parts[1] if len(parts) > 1 else ""
