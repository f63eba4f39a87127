"""What must hold at any moment, and whether what a user reads about a wait is so.

Both are held against what Slurm and the cloud say themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Final

from slurm_flex.demo.commands import NotInTime
from slurm_flex.demo.slurm_text import flags
from tests.cluster.watch import SOON, Look, Record, Watch, names

_ASKED = re.compile(
    r"flex: waiting for capacity since (?P<since>\S+ \S+) UTC, request (?P<name>\S+) (?P<state>\w+)"
    r"(?:; last answer: (?P<kind>\w+): (?P<code>\w+).*)?"
)
_RETRY = re.compile(r"flex: retry at (?P<at>\S+ \S+) UTC: (?P<why>.+)")
_IN_LINE = re.compile(r"flex: in line since \S+ \S+ UTC: (?P<most>\d+) requests wait in \S+")
_UNTIL = re.compile(r"flex: waiting until (?P<at>\S+ \S+) UTC: (?P<why>.+)")
_BROKEN = re.compile(r"flex: waiting: pool \S+ failed \(.+\), next try at (?P<at>\S+ \S+) UTC")
_PAUSED = re.compile(r"flex: waiting: pool \S+ is paused")
_MINUTE = timedelta(minutes=1)


def tells_why(watch: Watch, job: int, *words: str, limit: timedelta = SOON) -> None:
    """Wait until the job's comment is true and has these words; fail with what is wrong with it."""
    wrong = ""

    def is_told() -> bool:
        nonlocal wrong
        wrong = untrue(watch.look(), job, utc_now())
        missing = [word for word in words if word not in watch.comment(job)]
        wrong = wrong or (f"no {missing} in {watch.comment(job)!r}" if missing else "")
        return not wrong

    try:
        watch.until(is_told, f"job {job} says why it waits: {words}", limit)
    except NotInTime as error:
        raise AssertionError(wrong) from error


def wrong_now(look: Look, now: datetime) -> Iterator[str]:
    """All that nobody wants, is broken or says what isn't so. Any of it may be so for a moment."""
    for name, record in look.nodes.items():
        if "DOWN" in flags(record["State"]):
            yield f"node {name} is DOWN ({record.get('Reason')})"
    for vm in look.instances:
        if _is_off(look, vm["name"]):
            yield f"VM {vm['name']} {vm['id']} is {vm['status']} and its node is off"
    asked: dict[str, str] = {}
    for one in look.requests:
        if one["state"] not in _LIVE:
            continue
        name = one["name"]
        is_wanted = not all(_is_off(look, node) for node in one["nodes"])
        if not is_wanted and not _waits(look.jobs.get(_job_of(name), {})):
            yield f"nobody wants the nodes of request {name}"
        for node in one["nodes"]:
            if asked.setdefault(node, name) != name:
                yield f"{node} is asked for by {asked[node]} and {name}"
    for job, record in look.jobs.items():
        if record["JobState"] == "CONFIGURING" and not _is_there(look, record):
            wrong = untrue(look, job, now)
            if wrong:
                yield f"the comment of job {job} isn't true: {wrong}"


_LIVE: Final = ("CREATING", "ACCEPTED")


def _is_off(look: Look, node: str) -> bool:
    """Off, and nobody has use for it."""
    state = flags(look.nodes[node]["State"])
    return "POWERED_DOWN" in state and not state & {"ALLOCATED", "MIXED", "POWERING_UP"}


def _job_of(request: str) -> int:
    match = re.match(r"j(\d+)-", request)
    return int(match[1]) if match else 0


def _waits(record: Record) -> bool:
    return record.get("JobState") in ("PENDING", "CONFIGURING")


def _is_there(look: Look, record: Record) -> bool:
    """All its VMs are on the way or there: it waits for their boot, or for Slurm to notice."""
    vms = {vm["name"] for vm in look.instances}
    return set(names(record["NodeList"])) <= vms


def untrue(look: Look, job: int, now: datetime) -> str:
    """Why the comment of a job that waits is not true; empty if it is.

    A wait of under a minute needs no comment. Times are written to the minute.
    """
    record = look.jobs.get(job)
    if record is None:
        return f"Slurm doesn't list job {job}"
    comment = record.get("AdminComment", "")
    if match := _ASKED.fullmatch(comment):
        return _asked(look, record, match)
    live = _live_requests(look, record)
    if match := _RETRY.fullmatch(comment):
        if record["JobState"] != "PENDING" or record["StartTime"] == "Unknown":
            return f"it says when it is tried again and is {record['JobState']}: {comment}"
        starts = slurm_time(record["StartTime"])
        return "" if abs(_clock(match["at"], now) - starts) <= _MINUTE else f"not then: {comment}"
    if match := _IN_LINE.fullmatch(comment):
        waiting = sum(1 for one in look.requests if one["state"] in _LIVE)
        is_so = not live and waiting >= int(match["most"]) and record["JobState"] == "CONFIGURING"
        return "" if is_so else f"{waiting} requests wait, its own are {live}: {comment}"
    if match := _UNTIL.fullmatch(comment) or _BROKEN.fullmatch(comment):
        if live or record["JobState"] != "CONFIGURING":
            return f"it is asked for by {live}: {comment}"
        return "" if _clock(match["at"], now) >= now - _MINUTE else f"that is over: {comment}"
    if _PAUSED.fullmatch(comment):
        return f"it is asked for by {live}: {comment}" if live else ""
    if not comment and _is_young(record, now):
        return ""
    return f"{record['JobState']} and no word of what it waits for: {comment!r}"


def _asked(look: Look, record: Record, match: re.Match[str]) -> str:
    comment = match[0]
    found = next((one for one in look.requests if one["name"] == match["name"]), None)
    if found is None or found["state"].lower() != match["state"]:
        return f"the request is {found and found['state']}: {comment}"
    if set(found["nodes"]).isdisjoint(names(record["NodeList"])):
        return f"the request is for {found['nodes']}: {comment}"
    codes = {one["code"] for one in found["last_attempt"]}
    return "" if match["code"] is None or match["code"] in codes else f"answered {codes}: {comment}"


def _is_young(record: Record, now: datetime) -> bool:
    start = record["StartTime"]
    return start != "Unknown" and now - slurm_time(start) < _MINUTE


def _live_requests(look: Look, record: Record) -> list[str]:
    nodes = set(names(record["NodeList"]))
    return [
        one["name"]
        for one in look.requests
        if one["state"] in _LIVE and not nodes.isdisjoint(one["nodes"])
    ]


def _clock(text: str, now: datetime) -> datetime:
    """``12-01 04:30`` in UTC, in the year that is nearest."""
    read = [
        datetime.strptime(f"{year}-{text}", "%Y-%m-%d %H:%M").replace(tzinfo=timezone.utc)
        for year in (now.year - 1, now.year, now.year + 1)
    ]
    return min(read, key=lambda at: abs(at - now))


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


def slurm_time(text: str) -> datetime:
    """What Slurm's commands print; a :class:`Look` has asked them for UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
