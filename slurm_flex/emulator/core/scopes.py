"""Where a resource lives: one zone, one region, or the whole project."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Scope:
    """``kind`` is zone, region or global; ``name`` is empty for global."""

    kind: str
    name: str = ""

    @property
    def path(self) -> str:
        """As it stands in URLs and aggregated lists: ``zones/us-central1-a``, ``global``."""
        return "global" if self.kind == "global" else f"{self.kind}s/{self.name}"

    @property
    def region(self) -> str:
        """The region's name; empty for global."""
        return self.name.rsplit("-", 1)[0] if self.kind == "zone" else self.name

    @property
    def is_regional(self) -> bool:
        """True for a region."""
        return self.kind == "region"

    @classmethod
    def of(cls, path: str) -> Scope:
        """Read ``zones/NAME``, ``regions/NAME`` or ``global`` back."""
        if path == "global":
            return GLOBAL
        kind, _, name = path.partition("/")
        return cls(kind.removesuffix("s"), name)


GLOBAL = Scope("global")


def zone_scope(name: str) -> Scope:
    """The scope of one zone."""
    return Scope("zone", name)


def region_scope(name: str) -> Scope:
    """The scope of one region."""
    return Scope("region", name)


def last_segment(url: str) -> str:
    """The name at the end of a full or partial URL."""
    return url.rstrip("/").rsplit("/", 1)[-1]
