"""An API that a project hasn't enabled: told apart from a missing right, and mended by one command.

Google answers 403 then. Compute Engine's body says `errors[].reason: accessNotConfigured`, the
newer APIs' say ErrorInfo `SERVICE_DISABLED`; Compute Engine's present ones say both. The text names
the API by its title ("Compute Engine API has not been used in project 1 before or it is disabled")
and by the address of the page that enables it; ErrorInfo's metadata names it plainly.

A person's own credentials without a quota project are refused with the same reason, in the name of
a project of Google's that nobody else can enable anything in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

REASON: Final = "SERVICE_DISABLED"

_REASONS: Final = frozenset({REASON, "accessNotConfigured"})
_NO_PAYER: Final = "requires a quota project"
_ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
# Both go into a command that people paste into a shell.
_SERVICE: Final = re.compile(r"[a-z][a-z0-9-]*\.googleapis\.com")
_PROJECT: Final = re.compile(r"[a-z0-9][a-z0-9:.-]*")
_PAGE: Final = re.compile(
    r"/apis/(?:api|library)/([a-z][a-z0-9-]*\.googleapis\.com)\S*?[?&]project=([a-z0-9:.-]*[a-z0-9])"
)


@dataclass(frozen=True)
class DisabledApi:
    """service: such as compute.googleapis.com. project: its id, or its number as Google says it;
    it is the one that pays for the call, which may be another than the one that was asked about.
    Empty if unknown. lacks_payer: nothing is disabled, but the credentials name no project."""

    service: str
    project: str = ""
    lacks_payer: bool = False

    @property
    def what(self) -> str:
        if self.lacks_payer:
            return f"{self.service} needs a quota project, and our credentials name none"
        return f"{self.service} is not enabled" + (
            f" in project {self.project}" if self.project else ""
        )

    @property
    def fix(self) -> str:
        if self.lacks_payer:
            return "gcloud auth application-default set-quota-project PROJECT"
        return enabling(self.service, self.project)


def enabling(service: str, project: str) -> str:
    """The command that enables an API."""
    return f"gcloud services enable {service}" + (f" --project={project}" if project else "")


def disabled_api(body: object) -> DisabledApi | None:
    """What the JSON of an error says of an API that is off; None for every other error, and where
    nobody says which API it is. The body is untrusted."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        return None
    infos = [one for one in _mappings(error.get("details")) if one.get("@type") == _ERROR_INFO]
    reasons = [one.get("reason") for one in (*infos, *_mappings(error.get("errors")))]
    if not any(isinstance(reason, str) and reason in _REASONS for reason in reasons):
        return None
    message = str(error.get("message", ""))
    for info in infos:
        found = _of_metadata(info.get("metadata"))
        if found is not None and _NO_PAYER in message:
            return DisabledApi(found.service, lacks_payer=True)
        if found is not None:
            return found
    page = _PAGE.search(message)
    return DisabledApi(page[1], page[2]) if page else None


def _of_metadata(metadata: object) -> DisabledApi | None:
    if not isinstance(metadata, Mapping):
        return None
    service = str(metadata.get("service", ""))
    project = str(metadata.get("consumer", "")).removeprefix("projects/")
    if not _SERVICE.fullmatch(service):
        return None
    return DisabledApi(service, project if _PROJECT.fullmatch(project) else "")


def _mappings(found: object) -> Iterable[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
