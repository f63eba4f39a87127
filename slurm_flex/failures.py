"""Which kind of failure an error of Compute Engine is: what decides how we wait and whom we tell.

The codes are those of operation errors and of a resize request's `status.error` and
`status.lastAttempt.error` (facts: compute-engine.md, section 2), and the reasons of HTTP errors.
The code decides; the text only where the code is missing or says nothing.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from slurm_flex.model.cloud import CloudError


class Failure(str, Enum):
    """One word for what went wrong."""

    CAPACITY = "capacity"
    """Google has no such machines there now: wait, it is nobody's fault."""
    QUOTA = "quota"
    """The project's limit: somebody must ask for more, or wait until something ends."""
    ACTIVE_REQUESTS = "active_requests"
    """Too many resize requests wait in the region: stand in line, ask again as places free."""
    PERMISSION = "permission"
    """Refused: no retry helps until a person grants a role."""
    CONFIG = "config"
    """What was asked for can't be: no retry helps until a person changes it."""
    IP_SPACE = "ip_space"
    """The subnetwork has no free address."""
    BOOT = "boot"
    """The VM came, its slurmd did not."""
    PREEMPTED = "preempted"
    """Compute Engine took a Spot VM back."""
    UNKNOWN = "unknown"
    """Nothing that we know, or something that passes by itself (rate limits, server errors)."""

    def __str__(self) -> str:
        return self.value


# Looked for anywhere in the code; the first that is found counts, so the order matters.
_BY_CODE: Final = (
    ("RATE_LIMIT", Failure.UNKNOWN),
    ("RESOURCE_POOL_EXHAUSTED", Failure.CAPACITY),
    ("NO_CAPACITY", Failure.CAPACITY),
    ("INSUFFICIENT_CAPACITY", Failure.CAPACITY),
    ("CAPACITY_EXCEEDED", Failure.CAPACITY),
    ("RESOURCE_AVAILABILITY", Failure.CAPACITY),
    ("STOCKOUT", Failure.CAPACITY),
    ("IP_SPACE_EXHAUSTED", Failure.IP_SPACE),
    ("QUOTA", Failure.QUOTA),
    ("LIMIT_EXCEEDED", Failure.QUOTA),
    ("PERMISSION", Failure.PERMISSION),
    ("FORBIDDEN", Failure.PERMISSION),
    ("ACCESS_DENIED", Failure.PERMISSION),
    ("ACCESS_NOT_CONFIGURED", Failure.PERMISSION),
    ("SERVICE_DISABLED", Failure.PERMISSION),
    ("UNAUTHENTICATED", Failure.PERMISSION),
    ("AUTH_ERROR", Failure.PERMISSION),
    ("PREEMPTED", Failure.PREEMPTED),
    ("BOOT_FAILED", Failure.BOOT),
    ("INVALID", Failure.CONFIG),
    ("BAD_REQUEST", Failure.CONFIG),
    ("UNSUPPORTED", Failure.CONFIG),
    ("NOT_SUPPORTED", Failure.CONFIG),
    ("CONDITION_NOT_MET", Failure.CONFIG),
    ("RESERVATION", Failure.CONFIG),
    ("NOT_FOUND", Failure.CONFIG),
)
_BY_TEXT: Final = (
    (re.compile(r"enough resources|insufficient capacity|resource pool", re.I), Failure.CAPACITY),
    (re.compile(r"\bIP[ _]space\b", re.I), Failure.IP_SPACE),
    (re.compile(r"\bquota\b|exceeded limit", re.I), Failure.QUOTA),
    (re.compile(r"required '[^']{0,200}' permission|permission denied", re.I), Failure.PERMISSION),
    (re.compile(r"\bpreempted\b", re.I), Failure.PREEMPTED),
    (re.compile(r"not supported|is invalid|invalid value", re.I), Failure.CONFIG),
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def code_words(error: CloudError) -> str:
    """The code in one spelling, whichever it came in: quotaExceeded is QUOTA_EXCEEDED."""
    return re.sub(r"[\s-]+", "_", _HUMP.sub("_", error.code.strip())).upper()


def classify(error: CloudError) -> Failure:
    """The class of an error; UNKNOWN rather than a guess. Code and text are untrusted."""
    code = code_words(error)
    found = next((kind for part, kind in _BY_CODE if part in code), None)
    if found is None:
        found = next((kind for text, kind in _BY_TEXT if text.search(error.message)), None)
    if "ACTIVE_RESIZE_REQUESTS" in code or (
        found is Failure.QUOTA and "ACTIVE_RESIZE_REQUESTS" in error.message
    ):
        return Failure.ACTIVE_REQUESTS
    return found or Failure.UNKNOWN
