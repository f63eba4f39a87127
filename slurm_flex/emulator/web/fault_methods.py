"""Whether a fault that is narrowed to methods can ever strike one.

A fault for a method that nobody serves would lie there in silence, and the test that set it would
pass for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final

from slurm_flex.emulator.web.calls import ENDPOINTS
from slurm_flex.errors import FlexError

_OF_OPERATIONS: Final = ("slow_operations", "lost_operations")
"""They look at an operation's type, which is no method's name (facts: compute-engine.md)."""
_OF_LISTS: Final = ("empty_pages", "stale_lists")


def check_methods(order: Mapping[str, Any]) -> None:
    """Refuse an order whose ``method`` fits none. Raises FlexError with what it may have meant."""
    pattern = order.get("method")
    if pattern is None:
        return
    what, names = _what_it_strikes(order.get("name"))
    if any(fnmatchcase(name, str(pattern)) for name in names):
        return
    raise FlexError(f"no {what} here fits {pattern!r}", where="method", fix=_fix(pattern, names))


def _what_it_strikes(fault: object) -> tuple[str, tuple[str, ...]]:
    if fault in _OF_OPERATIONS:
        return "type of operation", _operation_types()
    if fault in _OF_LISTS:
        return "method that lists", _lists()
    return "method", _methods()


def _fix(pattern: object, names: tuple[str, ...]) -> str:
    lower = str(pattern).lower()
    same = [name for name in names if fnmatchcase(name.lower(), lower)]
    near = same or get_close_matches(lower.strip("*"), names, n=3, cutoff=0.4)
    if not near:
        return f"one of {', '.join(names)}, or a pattern like *.{names[0].rsplit('.', 1)[-1]}"
    hint = "; capital letters count" if same else ""
    return f"perhaps {', '.join(near[:3])}{hint}"


def _methods() -> tuple[str, ...]:
    return tuple(sorted({endpoint.name for endpoint in ENDPOINTS}))


def _lists() -> tuple[str, ...]:
    return tuple(sorted({endpoint.name for endpoint in ENDPOINTS if endpoint.is_list}))


def _operation_types() -> tuple[str, ...]:
    """``insert`` for an instance's, ``compute.instanceGroupManagers.patch`` for a group's."""
    changes = {e.name for e in ENDPOINTS if e.bucket == "write" and not e.is_list}
    return tuple(sorted({_operation_type(name) for name in changes}))


def _operation_type(method: str) -> str:
    resource, _, verb = method.partition(".")
    return verb if resource in ("instances", "instanceTemplates") else f"compute.{method}"
