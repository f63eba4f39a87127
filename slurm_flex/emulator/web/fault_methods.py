"""Whether a fault that is narrowed to methods can ever strike one.

A fault for a method that nobody serves would lie there in silence, and the test that set it would
pass for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

from slurm_flex.emulator.web.calls import ENDPOINTS
from slurm_flex.errors import FlexError

_OF_OPERATIONS: Final = ("slow_operations", "lost_operations")
"""They look at an operation's type, which is no method's name (facts: compute-engine.md)."""


def check_methods(order: Mapping[str, Any]) -> None:
    """Refuse an order whose ``method`` fits none. Raises FlexError with what it may have meant."""
    pattern = order.get("method")
    if pattern is None:
        return
    of_operations = order.get("name") in _OF_OPERATIONS
    names = _operation_types() if of_operations else _methods()
    if any(fnmatchcase(name, str(pattern)) for name in names):
        return
    what = "type of operation" if of_operations else "method"
    raise FlexError(f"no {what} here fits {pattern!r}", where="method", fix=_fix(pattern, names))


def _fix(pattern: object, names: tuple[str, ...]) -> str:
    lower = str(pattern).lower()
    same = [name for name in names if fnmatchcase(name.lower(), lower)]
    near = same or get_close_matches(lower.strip("*"), names, n=3, cutoff=0.4)
    if not near:
        return f"one of {', '.join(names)}, or a pattern like instances.*"
    hint = "; capital letters count" if same else ""
    return f"perhaps {', '.join(near[:3])}{hint}"


@lru_cache(maxsize=1)
def _methods() -> tuple[str, ...]:
    return tuple(sorted({endpoint.name for endpoint in ENDPOINTS}))


@lru_cache(maxsize=1)
def _operation_types() -> tuple[str, ...]:
    """``insert`` for an instance's, ``compute.instanceGroupManagers.patch`` for a group's."""
    verbs = {name.rsplit(".", 1)[-1] for name in _methods()}
    return tuple(sorted(verbs | {f"compute.{name}" for name in _methods()}))
