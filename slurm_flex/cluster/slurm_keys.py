"""Which slurm.conf keys there are, and which release of Slurm knows which; from slurm_keys.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final, Literal

from slurm_flex.cluster.reader import closest
from slurm_flex.errors import FlexError

Scope = Literal["global", "node", "partition"]

MEASURED: Final = ("22.05", "24.11", "26.05")
SUPPORTED: Final = ("22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05")
_RELEASE: Final = re.compile(r"(?:slurm(?:-wlm)?\s+)?(\d\d)\.(\d\d)(?:\D.*)?", re.ASCII)


@dataclass(frozen=True, order=True)
class Release:
    """A release of Slurm: year and month, as in 24.11."""

    year: int
    month: int

    def __str__(self) -> str:
        return f"{self.year:02}.{self.month:02}"


def parse_release(text: str) -> Release:
    """Read "24.11", "24.11.5" or "slurm-wlm 24.11.5". Raises FlexError below 22.05."""
    found = _RELEASE.fullmatch(text.strip())
    if found is None:
        fix = f"one of {', '.join(SUPPORTED)}"
        raise FlexError(f'"{text}" is no release of Slurm', fix=fix)
    release = Release(int(found.group(1)), int(found.group(2)))
    if release < Release(22, 5):
        fix = "slurm-flex needs 22.05 or later"
        raise FlexError(f"Slurm {release} is too old", fix=fix)
    return release


@lru_cache(maxsize=3)
def _keys(scope: Scope) -> Mapping[str, tuple[str, str]]:
    """Key in lower case -> (its spelling, since or until)."""
    text = files("slurm_flex.cluster").joinpath("slurm_keys.json").read_text(encoding="utf-8")
    table: Mapping[str, str] = json.loads(text)[scope]
    return {key.lower(): (key, when) for key, when in table.items()}


def spelling(scope: Scope, key: str) -> str:
    """The key as Slurm's documentation writes it; as given if no release knows it."""
    return _keys(scope).get(key.lower(), (key, ""))[0]


def is_key(scope: Scope, key: str) -> bool:
    """Some supported release knows the key."""
    return key.lower() in _keys(scope)


def nearest_key(scope: Scope, key: str) -> str:
    """The key that was probably meant, or nothing."""
    return closest(key, [name for name, _ in _keys(scope).values()])


def knows(release: Release, scope: Scope, key: str) -> bool | None:
    """Whether a release knows a key; None where only a later measured one is known to."""
    if key.lower() not in _keys(scope):
        return False
    when = _keys(scope)[key.lower()][1]
    since, _, until = when.partition("-")
    if until and release > parse_release(until):
        after = MEASURED[MEASURED.index(until) + 1]
        return False if release >= parse_release(after) else None
    if not since or release >= parse_release(since):
        return True
    if since not in MEASURED:  # a documented beginning
        return False
    before = MEASURED[MEASURED.index(since) - 1]
    return False if release <= parse_release(before) else None
