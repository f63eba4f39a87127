"""Make, move and delete reservations of ours, and no others."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final

from slurm_flex.model import OWN_RESERVATION
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.errors import InvalidTarget, SlurmError

_DUPLICATE: Final = re.compile("duplicate reservation name", re.IGNORECASE)
_UNDER_WAY: Final = re.compile("reservation already started", re.IGNORECASE)


def reserve(
    commands: SlurmCommands, name: str, nodes: str, start: timedelta, end: timedelta
) -> None:
    """Reserve a hostlist, or give an existing reservation these nodes and times, counted from now.

    Flags maint and ignore_jobs: what is placed there stays. Raises SlurmError.
    """
    _refuse_foreign(name)
    if end <= timedelta(0):
        raise InvalidTarget(f"reservation {name} would end before it begins")
    what = (f"reservationname={name}", f"nodes={nodes}")
    begin, until = f"starttime={from_now(start)}", f"endtime={from_now(end)}"
    try:
        commands.check(
            *("scontrol", "create", *what, begin, until, "users=root"),
            "flags=maint,ignore_jobs",
        )
    except SlurmError as error:
        if not _DUPLICATE.search(error.what):
            raise
    else:
        return
    try:
        commands.check("scontrol", "update", *what, begin, until)
    except SlurmError as error:
        if not _UNDER_WAY.search(error.what):
            raise
        commands.check("scontrol", "update", *what, until)


def unreserve(commands: SlurmCommands, name: str) -> None:
    """Delete a reservation; one that is gone is no failure. Raises SlurmError."""
    _refuse_foreign(name)
    try:
        commands.check("scontrol", "delete", f"reservationname={name}")
    except InvalidTarget:
        return  # it is gone


def from_now(distance: timedelta) -> str:
    """now or now+N seconds; a distance between two seconds rounds up."""
    seconds = math.ceil(distance.total_seconds())
    return f"now+{seconds}" if seconds > 0 else "now"


def _refuse_foreign(name: str) -> None:
    if not name.startswith(OWN_RESERVATION):
        raise InvalidTarget(f"reservation {name!r} is not ours", fix="leave it to its owner")
