"""Ask squeue for jobs in a form that no user's text can forge, and read it.

Comments, names and features are the users' own words and may hold line breaks, so that
``scontrol show job -o`` prints whatever they like, other jobs' records too. squeue ends each field
with a text of our choosing: a new random mark for each call, handed over in the environment, which
other users can't read (an argument they could).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from slurm_flex.hostlist import HostlistError, expand
from slurm_flex.model import Job
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.errors import ParseError
from slurm_flex.slurm.records import named
from slurm_flex.slurm.values import parse_limit, parse_text, parse_time

T = TypeVar("T")

_FIELDS: Final = tuple(
    "jobid state reason partition username batchflag nodelist reqnodes feature reservation numnodes"
    " timelimit submittime starttime endtime prioritylong oversubscribe requeue restartcnt"
    " arraytaskid arrayjobid hetjobid comment admin_comment".split()
)
# squeue 22.05 knows ExcNodes only as the letter %x; 24.11 knows the name (R).
_EXC_NODES_NAMED: Final = (24, 11)
# A default shared job's OverSubscribe reads NO from 26.05, which has a field of its own (R).
_EXCLUSIVE_NAMED: Final = (26, 5)


def read_jobs(
    commands: SlurmCommands, release: tuple[int, int]
) -> tuple[tuple[Job, ...], dict[int, str]]:
    """Every job that isn't over, and the exact name of those whose id is also a whole array's.

    The last task of an array that is split off keeps the array's id: ``requeue 13`` would hit all
    of its tasks, ``requeue 13_4`` only this one. Raises SlurmError.
    """
    fields = _fields(release)
    mark = _mark()
    text = commands.check(
        "squeue",
        *("--noheader", "--all", "--local", "--noconvert"),
        env={
            "SQUEUE_FORMAT2": ",".join(f"{field}:0{mark}" for field in fields),
            "SLURM_BITSTR_LEN": "0",
        },
    )
    excluded = {} if "excnodes" in fields else _excluded(commands)
    records = list(parse_queue(text, mark, fields))
    jobs = tuple(_job(record, excluded) for record in records)
    exact = {
        int(record["jobid"]): f"{record['arrayjobid']}_{record['arraytaskid']}"
        for record in records
        if record["jobid"] == record["arrayjobid"] and record["arraytaskid"].isdigit()
    }
    return jobs, exact


def parse_queue(text: str, mark: str, fields: tuple[str, ...]) -> Iterator[Mapping[str, str]]:
    """The fields of each job, by name. Raises ParseError if squeue left some out."""
    *values, rest = text.split(mark)
    if len(values) % len(fields) or rest.strip():
        raise ParseError(
            f"{len(values)} values are no multiple of {len(fields)} fields", where="squeue"
        )
    for start in range(0, len(values), len(fields)):
        record = dict(zip(fields, values[start : start + len(fields)], strict=True))
        record[fields[0]] = record[fields[0]].lstrip("\n")
        yield record


def _fields(release: tuple[int, int]) -> tuple[str, ...]:
    named_since = {"excnodes": _EXC_NODES_NAMED, "exclusive": _EXCLUSIVE_NAMED}
    return (*_FIELDS, *(field for field, since in named_since.items() if release >= since))


def _mark() -> str:
    return f"~{secrets.token_hex(12)}~"


def _excluded(commands: SlurmCommands) -> dict[str, str]:
    """Excluded nodes by job id, where only the short format has them."""
    mark = _mark()
    text = commands.check(
        "squeue",
        *("--noheader", "--all", "--local"),
        env={"SQUEUE_FORMAT": f"%A{mark}%x{mark}"},
    )
    return {record["id"]: record["x"] for record in parse_queue(text, mark, ("id", "x"))}


def _job(record: Mapping[str, str], excluded: Mapping[str, str]) -> Job:
    job_id = record["jobid"]
    where = f"squeue, job {job_id[:20]}"
    try:
        return Job(
            id=int(job_id),
            state=record["state"],
            reason=record["reason"] or None,
            partition=parse_text(record["partition"]),
            user=parse_text(record["username"]),
            batch=record["batchflag"] == "1",
            nodes=named(record["nodelist"]),
            required_nodes=_asked(record["reqnodes"]),
            exclude_nodes=_asked(record.get("excnodes", excluded.get(job_id))),
            features=parse_text(record["feature"]),
            reservation=parse_text(record["reservation"]),
            num_nodes=int(record["numnodes"].partition("-")[0]),
            time_limit=parse_limit(record["timelimit"]),
            submit_time=parse_time(record["submittime"]),
            start_time=parse_time(record["starttime"]),
            end_time=parse_time(record["endtime"]),
            priority=int(record["prioritylong"]),
            exclusive=_is_exclusive(record),
            requeue=record["requeue"] == "1",
            restarts=int(record["restartcnt"]),
            array_tasks=parse_text(record["arraytaskid"]),
            het_job_id=_optional(int, record["hetjobid"]),
            comment=parse_text(record["comment"]),
            admin_comment=parse_text(record["admin_comment"]),
        )
    except (HostlistError, ValueError) as error:
        raise ParseError(str(error), where=where) from error


def _is_exclusive(record: Mapping[str, str]) -> bool:
    if "exclusive" in record:
        return record["exclusive"] == "NODE"
    return record["oversubscribe"] == "NO"


def _optional(read: Callable[[str], T], value: str) -> T | None:
    text = parse_text(value)
    return None if text is None else read(text)


def _asked(value: str | None) -> tuple[str, ...]:
    """What a user asked for: if it can't be read it says nothing, and stops nothing."""
    text = parse_text(value)
    try:
        return expand(text) if text else ()
    except HostlistError:
        return ()
