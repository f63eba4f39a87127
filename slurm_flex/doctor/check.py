"""What the doctor finds: one line a check, with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Final

from slurm_flex.compute.errors import ApiDisabled, PermissionDenied, RateLimited, Unreachable
from slurm_flex.errors import FlexError, InputErrors

_PERMISSION: Final = re.compile(r"\b[a-z]+\.[a-zA-Z]+\.[a-zA-Z]+\b(?=')")
_ROLES: Final = {
    "resourcemanager.projects.getIamPolicy": "roles/iam.securityReviewer",
    "resourcemanager.projects.get": "roles/browser",
}


class Status(str, Enum):
    """ok; warn: it may well work; error: it won't; skipped: it could not be looked at."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"
    SKIPPED = "skipped"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `fix` is a command or the line to write; empty with ok."""

    name: str
    status: Status
    text: str
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        return {**asdict(self), "status": self.status.value}


def ok(name: str, text: str) -> Check:
    return Check(name, Status.OK, text)


def warn(name: str, text: str, fix: str = "") -> Check:
    return Check(name, Status.WARN, text, fix)


def error(name: str, text: str, fix: str = "") -> Check:
    return Check(name, Status.ERROR, text, fix)


def skipped(name: str, text: str, fix: str = "") -> Check:
    return Check(name, Status.SKIPPED, text, fix)


def guarded(name: str, look: Callable[[], Iterable[Check]]) -> tuple[Check, ...]:
    """The checks of one look. What can't be looked at is skipped, never a false alarm; what is
    broken so that looking fails is an error."""
    try:
        return tuple(look())
    except PermissionDenied as problem:
        return (skipped(name, f"can't be looked at: {problem.what}", how_to_look(problem)),)
    except (RateLimited, Unreachable) as problem:
        return (skipped(name, f"can't be looked at: {problem.what}", problem.fix),)
    except InputErrors as problems:
        return tuple(error(name, _told(one), one.fix) for one in problems.errors)
    except FlexError as problem:
        return (error(name, _told(problem), problem.fix),)


def how_to_look(refused: PermissionDenied) -> str:
    """What would let us look: to sign in, the API to enable, or the permission to grant."""
    if isinstance(refused, ApiDisabled) or refused.error.code == "unauthenticated":
        return refused.fix
    named = _PERMISSION.search(refused.error.message)
    if named:
        role = _ROLES.get(named[0], "")
        return f"grant us {named[0]}" + (f", which {role} has" if role else "")
    return ""


def _told(problem: FlexError) -> str:
    return f"{problem.where}: {problem.what}" if problem.where else problem.what
