"""Lists of Compute Engine: all of their pages, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from slurm_flex.compute.calls import Caller
from slurm_flex.compute.errors import UnexpectedAnswer
from slurm_flex.model.cloud import CloudError

PAGE: Final = 500
"""The most that a list gives at once."""

_MOST_PAGES: Final = 200
_PARTIAL: Final = frozenset({"UNREACHABLE", "PARTIAL_SUCCESS", "LIST_OVERHEAD_QUOTA_EXCEED"})


def all_pages(
    call: Caller, method: Any, request: Any, items: str, where: str, *, until: float | None = None
) -> list[Any]:
    """The items of all pages. Raises ComputeError if only a part could be had.

    `items` is the field that holds them; `request` is changed on the way.
    """
    collected: list[Any] = []
    for page in _pages(call, method, request, where, until):
        warning = getattr(page, "warning", None)  # lists of managed instances have none
        if warning is not None and warning.code in _PARTIAL:
            message = warning.message or "a part of the list is missing"
            raise UnexpectedAnswer(CloudError(warning.code, message), where=where)
        collected += getattr(page, items)
    return collected


def scopes_of(call: Caller, method: Any, request: Any, where: str) -> Iterator[tuple[str, Any]]:
    """(scope, its part) of all pages of an aggregated list; parts carry warnings of their own."""
    for page in _pages(call, method, request, where, None):
        yield from page.items.items()


def _pages(
    call: Caller, method: Any, request: Any, where: str, until: float | None
) -> Iterator[Any]:
    for _ in range(_MOST_PAGES):
        page = next(iter(call(method, request, where=where, until=until).pages))
        yield page
        token = page.next_page_token
        if not token:
            return
        if token == request.page_token:
            break
        request.page_token = token
    raise UnexpectedAnswer(CloudError("pages", "the list has no end"), where=where)
