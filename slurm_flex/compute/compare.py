"""Is what Compute Engine gives back what it was given? It adds defaults and spells out names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """One part that is not as it should be. A `foreign` one isn't ours to mend."""

    path: str
    found: str
    wanted: str
    foreign: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.found or 'nothing'} -> {self.wanted or 'nothing'}"


def missing_parts(wanted: object, found: object, path: str = "") -> Iterator[Difference]:
    """Every part of `wanted` that `found` has not; what `found` has besides is no difference."""
    if isinstance(wanted, Mapping):
        have: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        for key, value in wanted.items():
            yield from missing_parts(value, have.get(key), f"{path}.{key.rstrip('_')}".lstrip("."))
    elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
        items = found if isinstance(found, Sequence) and not isinstance(found, str) else ()
        for at, value in enumerate(wanted):
            yield from missing_parts(value, items[at] if at < len(items) else None, f"{path}[{at}]")
    elif not _same(wanted, found):
        yield Difference(path, _shown(found), _shown(wanted))


def _same(wanted: object, found: object) -> bool:
    """Equal, or the same thing by another spelling: "7" for 7, a full URL for its end, absent
    for false."""
    if wanted == found or (wanted is False and found is None):
        return True
    if isinstance(wanted, str) and isinstance(found, str):
        return "/" in found and (found.endswith(f"/{wanted}"))
    return str(wanted) == str(found)


def _shown(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
