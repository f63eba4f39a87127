"""Filestore and Lustre instances: whether the controller finds where they are served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from slurm_flex.cluster.storage import Share
from slurm_flex.doctor.check import Check, Status, ok

NAME: Final = "storage"


def storage(look_up: Callable[[], Mapping[str, Share]]) -> Iterator[Check]:
    """One check for all that is mounted. Raises InputErrors with what can't be found."""
    found = look_up()
    told = (f"{name.rpartition('/')[2]} is {share.source}" for name, share in found.items())
    yield ok(NAME, ", ".join(told) or "nothing is mounted")


def said_once(checks: Iterable[Check]) -> Iterator[Check]:
    """Without what the templates lack only because storage can't be found."""
    kept = list(checks)
    missing = {one.text for one in kept if one.name == NAME and one.status is Status.ERROR}
    return (one for one in kept if one.name == NAME or one.text not in missing)
