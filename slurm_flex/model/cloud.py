"""What Compute Engine says at one moment: instances, resize requests, groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

CLUSTER_LABEL: Final = "slurm-flex-cluster"
"""The label that every cloud object of ours carries; its value is the cluster's id."""


@dataclass(frozen=True, slots=True)
class CloudError:
    """Google's code and text, as they came: untrusted, and perhaps incomplete."""

    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """A VM, or a managed instance that waits for one (no id, no status yet)."""

    name: str
    id: str | None = None
    status: str | None = None
    action: str = "NONE"
    created: datetime | None = None
    terminates: datetime | None = None
    labels: Mapping[str, str] | None = None
    error: CloudError | None = None
    maintenance: datetime | None = None
    """when its host's maintenance begins, which ends the VM"""

    @property
    def is_real(self) -> bool:
        """A managed instance without id and status is a place in the queue, not a VM."""
        return self.id is not None or self.status is not None

    @property
    def is_running(self) -> bool:
        return self.status == "RUNNING" and self.action != "DELETING"

    @property
    def is_in_repair(self) -> bool:
        """Its host has broken, and Compute Engine starts it again on another one."""
        return self.status == "REPAIRING"

    @property
    def is_dead(self) -> bool:
        """Nothing of it runs, and it stays so until somebody deletes it."""
        return self.status in {"TERMINATED", "STOPPED", "SUSPENDED"}

    @property
    def is_dying(self) -> bool:
        """On its way to be gone or dead."""
        return self.action == "DELETING" or self.status in {
            "STOPPING", "SUSPENDING", "DEPROVISIONING", "PENDING_STOP",
        }  # fmt: skip

    @property
    def is_alive(self) -> bool:
        """Anything that may still come up or is up, an unknown status included (scenario 39)."""
        return self.is_real and not self.is_dead and not self.is_dying

    def is_labelled(self, cluster_id: str) -> bool:
        return (self.labels or {}).get(CLUSTER_LABEL) == cluster_id


_TERMINAL: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
_OWN_REQUEST: Final = re.compile(
    r"(?:j(?P<job>\d+)|s(?P<static>\d+)|m-(?P<manual>[0-9a-f]{8}))-(?P<attempt>\d+)\Z", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Request:
    """A MIG resize request. States that this release doesn't know count as still waiting."""

    name: str
    state: str
    nodes: tuple[str, ...] = ()
    created: datetime | None = None
    run_duration: timedelta | None = None
    error: CloudError | None = None
    last_attempt: CloudError | None = None

    @property
    def is_live(self) -> bool:
        return self.state not in _TERMINAL and self.state != "DELETING"

    @property
    def is_failed(self) -> bool:
        return self.state == "FAILED"

    @property
    def is_cancelled(self) -> bool:
        return self.state == "CANCELLED"

    @property
    def is_succeeded(self) -> bool:
        return self.state == "SUCCEEDED"

    @property
    def was_accepted(self) -> bool:
        """It stands or stood in the queue."""
        return self.state in {"ACCEPTED", "SUCCEEDED"}

    @property
    def is_terminal(self) -> bool:
        return self.state in _TERMINAL

    @property
    def is_own(self) -> bool:
        return _OWN_REQUEST.match(self.name) is not None

    @property
    def job_id(self) -> int | None:
        match = _OWN_REQUEST.match(self.name)
        return int(match["job"]) if match and match["job"] else None

    @property
    def is_manual(self) -> bool:
        match = _OWN_REQUEST.match(self.name)
        return bool(match and match["manual"])

    @property
    def stem(self) -> str:
        """The name without its attempt number."""
        return self.name.rpartition("-")[0]

    @property
    def attempt(self) -> int:
        match = _OWN_REQUEST.match(self.name)
        return int(match["attempt"]) if match else 0


@dataclass(frozen=True, slots=True)
class Group:
    """A pool's managed instance group. `complete` False: the listing failed or was partial."""

    complete: bool = True
    exists: bool = True
    target_size: int | None = None
    instances: tuple[Instance, ...] = ()
    requests: tuple[Request, ...] = ()
