"""What users wrote in ``--extra``, for the few jobs where it matters.

squeue has no field for it (R 22.05, 24.11, 26.05); its JSON has, at 8 kB a job. So it is asked for
only where a running job would outlast its node, as our reservation there tells, and once a job.
JSON can't be forged by users' words, as ``scontrol show job`` could.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from slurm_flex.model import Job, Reservation
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.errors import ParseError, SlurmError

_SINCE: Final = (23, 11)
_AT_ONCE: Final = 200


class Extras:
    """Remembers what it was told: the words of a job that runs don't change of themselves."""

    def __init__(self, commands: SlurmCommands) -> None:
        self._commands = commands
        self._known: dict[tuple[int, int], str | None] = {}
        self.error: SlurmError | None = None
        """why some couldn't be had in the last reading; those are asked for again in the next"""

    def add_to(
        self, jobs: Sequence[Job], reservations: Sequence[Reservation], release: tuple[int, int]
    ) -> tuple[Job, ...]:
        """The jobs, with their extra where it was asked for. A failure costs nothing else."""
        self.error = None
        ends_from = _first_starts(reservations) if release >= _SINCE else {}
        wanted = [job for job in jobs if _would_outlast_its_node(job, ends_from)]
        self._known = {key: self._known[key] for job in wanted if (key := _key(job)) in self._known}
        new = [job for job in wanted if _key(job) not in self._known]
        for start in range(0, len(new), _AT_ONCE):
            asked = new[start : start + _AT_ONCE]
            try:
                found = self._ask(asked)
            except SlurmError as error:
                self.error = error
                break
            self._known |= {_key(job): found.get(job.id) for job in asked}
        return tuple(replace(job, extra=self._known.get(_key(job))) for job in jobs)

    def _ask(self, jobs: Sequence[Job]) -> dict[int, str]:
        ids = ",".join(str(job.id) for job in jobs)
        text = self._commands.check("squeue", "--json", "--all", "--local", f"--jobs={ids}")
        try:
            return dict(_extra_of(record) for record in json.loads(text)["jobs"])
        except (ValueError, KeyError, TypeError) as error:
            raise ParseError(f"no list of jobs: {error!r}", where="squeue --json") from error


def _extra_of(record: Any) -> tuple[int, str]:
    return int(record["job_id"]), str(record.get("extra") or "")


def _key(job: Job) -> tuple[int, int]:
    return job.id, job.restarts


def _would_outlast_its_node(job: Job, ends_from: Mapping[str, datetime]) -> bool:
    if not (job.batch and job.is_running):
        return False
    starts = (ends_from[name] for name in job.nodes if name in ends_from)
    return any(job.end_time is None or job.end_time > start for start in starts)


def _first_starts(reservations: Sequence[Reservation]) -> dict[str, datetime]:
    """From when on each node is reserved by us."""
    first: dict[str, datetime] = {}
    for reservation in reservations:
        if reservation.is_own and reservation.start is not None:
            for name in reservation.nodes:
                first[name] = min(first.get(name, reservation.start), reservation.start)
    return first
