"""Faults in what is shown: values and fields from the future, empty pages, lists of the past."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from slurm_flex.emulator.core.faults import Fault
from slurm_flex.emulator.core.world import World

Json = dict[str, Any]
MARK: Final = "e."


def unknown_enum(body: Any, fault: Fault) -> None:
    """Put a value that no client knows in every field of that name."""
    field, value = fault.text("field", "state"), fault.text("value", "NEW_IN_2027")
    if isinstance(body, list):
        for item in body:
            unknown_enum(item, fault)
    elif isinstance(body, dict):
        for key, item in body.items():
            if key == field and isinstance(item, str):
                body[key] = value
            else:
                unknown_enum(item, fault)


def unknown_field(body: Json) -> None:
    """Add a field that no client knows to the answer and to the things in it."""
    for items in body.values():
        if isinstance(items, list):
            for item in items:
                if isinstance(item, dict):
                    item["newIn2027"] = {"level": 1, "names": ["a", "b"]}
    body["newIn2027"] = "as yet unheard of"


def empty_page(token: str) -> Json:
    """A page without items that says where the next one is."""
    return {"nextPageToken": MARK + token}


class Yesterday:
    """Copies of the world for lists that lag behind: the one that is shown is between one and two
    lags old, once the fault has been in force that long; at first it is of its beginning."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._copies: list[tuple[float, World]] = []

    def follow(self, world: World) -> None:
        """Call often: takes the copies that are due while the fault is in force."""
        fault = next(iter(world.fault_table.under("stale_lists")), None)
        if fault is None:
            self._copies.clear()
            return
        lag = fault.duration("lag", timedelta(seconds=5)).total_seconds()
        if not self._copies or self._clock() - self._copies[-1][0] >= lag:
            self._copies = [*self._copies[-1:], (self._clock(), copy.deepcopy(world))]

    def world(self, present: World) -> World:
        """The world to be shown."""
        return self._copies[0][1] if self._copies else present
