"""Lists: filtered, ordered, cut into pages."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from slurm_flex.emulator.core.errors import ApiError, invalid
from slurm_flex.emulator.core.filters import Filter, parse_filter

T = TypeVar("T")
Json = dict[str, Any]
MOST: Final = 500


@dataclass(frozen=True)
class Query:
    """What the caller of a list asked for."""

    filter: str = ""
    order_by: str = ""
    page_token: str = ""
    most: int = MOST

    @classmethod
    def read(cls, params: Mapping[str, str]) -> Query:
        """From query parameters, in either spelling. Raises 400."""

        def param(camel: str, snake: str) -> str:
            return params.get(camel, params.get(snake, ""))

        text = param("maxResults", "max_results")
        if text and not (text.isdigit() and int(text) <= MOST):
            raise invalid("maxResults", text, f"Values must be between 0 and {MOST}.")
        return cls(
            params.get("filter", ""),
            param("orderBy", "order_by"),
            param("pageToken", "page_token"),
            int(text) or MOST if text else MOST,
        )


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some of the items, and where the next ones begin."""

    items: list[T]
    next_token: str = ""


def page(
    records: Sequence[T], query: Query, name: Callable[[T], str], render: Callable[[T], Json]
) -> Page[Json]:
    """Render what a query asks for; only the page itself where that is enough."""
    kind, mark = _position(query.page_token)
    wanted: Filter | None = parse_filter(query.filter) if query.filter else None
    ordered = sorted(records, key=name)
    if query.order_by in ("", "name"):
        start = bisect_right(ordered, mark, key=name) if kind == "name" else 0
        return _by_name(ordered[start:], query.most, wanted, name, render)
    rendered = [render(item) for item in ordered]
    matching = _ordered(
        [item for item in rendered if wanted is None or wanted(item)], query.order_by
    )
    start = int(mark) if kind == "offset" else 0
    following = start + query.most
    more = following < len(matching)
    return Page(matching[start:following], _token("offset", str(following)) if more else "")


def _by_name(
    ordered: Sequence[T],
    most: int,
    wanted: Filter | None,
    name: Callable[[T], str],
    render: Callable[[T], Json],
) -> Page[Json]:
    """Render no more than the page needs; the next one begins after its last name."""
    shown: list[Json] = []
    last = ""
    for item in ordered:
        rendered = render(item)
        if wanted is not None and not wanted(rendered):
            continue
        if len(shown) == most:
            return Page(shown, _token("name", last))
        shown.append(rendered)
        last = name(item)
    return Page(shown)


def _token(kind: str, mark: str) -> str:
    """An opaque page token: after this name, or from this place on where the order is another."""
    return base64.urlsafe_b64encode(f"{kind}:{mark}".encode()).decode()


def _position(text: str) -> tuple[str, str]:
    if not text:
        return "", ""
    try:
        kind, _, mark = base64.urlsafe_b64decode(text.encode()).decode().partition(":")
    except ValueError:
        kind, mark = "", ""
    if kind == "name" or (kind == "offset" and mark.isdigit()):
        return kind, mark
    raise ApiError(400, "invalid", f"Invalid value for field 'pageToken': '{text}'.")


def _ordered(items: list[Json], order_by: str) -> list[Json]:
    if order_by == "creationTimestamp desc":
        return sorted(items, key=lambda item: str(item.get("creationTimestamp")), reverse=True)
    raise invalid("orderBy", order_by, "Only name and creationTimestamp desc are supported.")
