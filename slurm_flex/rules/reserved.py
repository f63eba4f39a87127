"""The end of life that a reservation of ours stands for, so that it can be read back from Slurm."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from slurm_flex.model import Reservation
from slurm_flex.world import World

LAPSES_AFTER: Final = timedelta(hours=1)
"""A reservation that outlives a dead manager would block its nodes for ever: it ends by itself."""
TOGETHER: Final = timedelta(minutes=2)
"""Ends that differ by less are one end: those of a request's VMs, or one read back."""


def reserved_end(world: World, reservation: Reservation) -> datetime | None:
    """The VM's end; a reservation made late starts at that moment, and only its end tells."""
    if reservation.start is None:
        return None
    by_start = reservation.start + world.settings.end_margin
    by_end = reservation.end - LAPSES_AFTER if reservation.end is not None else by_start
    return min(by_start, by_end) if by_end >= reservation.start else by_start


def first_reserved_end(world: World, name: str, ending: str = "") -> datetime | None:
    """The first end that is reserved for a node, by reservations of ours whose names end so."""
    ends = [
        reserved
        for reservation in world.own_reservations
        if reservation.is_for_an_end
        and name in reservation.nodes
        and reservation.name.endswith(ending)
        and (reserved := reserved_end(world, reservation)) is not None
    ]
    return min(ends, default=None)


def stands_for(world: World, reservation: Reservation, ends: datetime) -> bool:
    """Whether it was made for a VM that ends then."""
    reserved = reserved_end(world, reservation)
    return reserved is not None and abs(reserved - ends) <= TOGETHER
