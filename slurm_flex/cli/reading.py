"""status, nodes, queue, why, events: what the last pass saw. No rights, no Slurm, no cloud."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from slurm_flex import status_file
from slurm_flex.cli import words
from slurm_flex.cli.output import (
    at,
    clock,
    print_facts,
    print_json,
    print_table,
    said,
    since,
    until,
    utc_now,
    warn,
)
from slurm_flex.consoles import last_console
from slurm_flex.durations import humanize, parse_duration
from slurm_flex.errors import FlexError
from slurm_flex.hook_site import HookSite
from slurm_flex.text import one_line

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_FOLLOW_SECONDS = 2.0
_SLACK = timedelta(seconds=90)


def _status() -> tuple[dict[str, Any], datetime]:
    """The status file and the time it tells of. Says so if it is old."""
    status = status_file.read(_site().run_dir)
    moment = clock(status["time"]) or utc_now()
    age = utc_now() - moment
    if age > timedelta(seconds=status["daemon"]["next_pass"]) * 2 + _SLACK:
        warn(f"this is {humanize(age)} old: is slurm-flex running?")
    return status, moment


def _site() -> HookSite:
    """Where everything is. Says so if the settings can't be read: it is elsewhere then."""
    site = HookSite(os.environ)
    if site.complaint:
        warn(site.complaint)
    return site


def status(as_json: Json = False) -> None:
    """How slurm-flex and each pool are.

    Examples:

      slurm-flex status

      slurm-flex status --json | jq '.pools[].phases'
    """
    found, now = _status()
    if as_json:
        print_json(found)
        return
    daemon = found["daemon"]
    slurm = daemon["slurm"]
    print_facts(
        {
            "cluster": found["cluster"],
            "last pass": f"{at(found['time'])} ({since(found['time'], utc_now())} ago)",
            "all well": f"{at(daemon['heartbeat'])}" if daemon["heartbeat"] else "not yet",
            "slurmctld": _controller(slurm),
            "daemon": f"{daemon['version']}, pid {daemon['pid']}, since {at(daemon['started'])}",
        }
    )
    typer.echo()
    rows = [
        (
            pool["pool"],
            pool["model"],
            f"{pool['nodes']} ({pool['static']} static)",
            pool["vms"],
            " ".join(f"{count} {phase}" for phase, count in pool["phases"].items()),
            words.pool_obstacle(pool, now) or "open",
        )
        for pool in found["pools"]
    ]
    headers = ("POOL", "MODEL", "NODES", "VMS", "PHASES", "STATE")
    print_table(headers, rows, empty="no pools")
    for line in (*daemon["notices"], *daemon["errors"]):
        warn(line)
    if daemon["errors"]:
        raise typer.Exit(1)


def _controller(slurm: dict[str, Any]) -> str:
    if not slurm["responding"]:
        return "does not answer; nothing is decided until it does"
    role = "primary" if slurm["primary"] else "backup: another controller acts"
    return f"{slurm['version'] or 'unknown release'}, {role}"


def nodes(
    pool: Annotated[str | None, typer.Option(help="Only this pool.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Nodes that are off, too.")] = False,
    as_json: Json = False,
) -> None:
    """Each node with its VM: what Slurm says, what the cloud says, when it ends.

    Examples:

      slurm-flex nodes

      slurm-flex nodes --all --pool a3u

      slurm-flex nodes --json | jq '.[] | select(.phase == "up") | .ends'
    """
    found, now = _status()
    chosen = [node for node in found["nodes"] if pool in (None, node["pool"])]
    if as_json:
        print_json(chosen)
        return
    shown = [node for node in chosen if everything or node["phase"] != "off" or node["vm"]]
    rows = [
        (
            node["node"],
            node["phase"],
            node["slurm"],
            node["vm"],
            node["request"],
            since(node["vm_created"], now),
            until(node["ends"], now),
            node["jobs"],
            words.node_story(node, found, now),
        )
        for node in shown
    ]
    headers = ("NODE", "PHASE", "SLURM", "VM", "REQUEST", "AGE", "ENDS IN", "JOBS", "STORY")
    off = len(chosen) - len(shown)
    print_table(headers, rows, empty="every node is off: no VM, nothing billed")
    if shown and off:
        typer.echo(f"{off} more are off (--all shows them)")


def queue(
    everything: Annotated[bool, typer.Option("--all", help="Requests that are over, too.")] = False,
    as_json: Json = False,
) -> None:
    """What waits for capacity: each resize request with its job, its age and the last answer.

    Examples:

      slurm-flex queue

      slurm-flex queue --all

      slurm-flex queue --json | jq '.[] | {job, nodes, last_attempt}'
    """
    found, now = _status()
    chosen = [one for one in found["requests"] if everything or one["live"]]
    if as_json:
        print_json(chosen)
        return
    rows = [
        (
            one["request"],
            one["pool"],
            one["job"],
            one["nodes"] or one["count"],
            one["state"],
            since(one["created"], now),
            said(one["error"] or one["last_attempt"]),
        )
        for one in chosen
    ]
    headers = ("REQUEST", "POOL", "JOB", "NODES", "STATE", "AGE", "LAST ANSWER")
    print_table(headers, rows, empty="nothing is queued for capacity")


def why(
    whom: Annotated[str, typer.Argument(metavar="JOB|NODE", help="A job's id or a node's name.")],
    as_json: Json = False,
) -> None:
    """Why a job waits, or what a node is doing.

    Examples:

      slurm-flex why 51

      slurm-flex why demo-a3u-0
    """
    found, now = _status()
    node = words.find(found["nodes"], "node", whom)
    job_id = whom.partition("_")[0]
    job = words.find(found["jobs"], "job", int(job_id)) if job_id.isdecimal() else None
    if node is None and job is None:
        raise FlexError(
            f"{whom} is no node of the cluster file and no job that Slurm lists",
            fix="a job that is over: sacct -j ID, or slurm-flex events",
        )
    thing = node if node is not None else job
    events = [
        event for event in found["events"]
        if (job and event["job"] == job["job"]) or (node and whom in _names(event["nodes"]))
    ]  # fmt: skip
    if as_json:
        print_json({**(thing or {}), "events": events})
        return
    if node is not None:
        _why_node(node, found, now)
    elif job is not None:
        _why_job(job, found, now)
    if events:
        typer.echo("\nwhat happened:")
        for event in events[-10:]:
            typer.echo(f"  {at(event['time'])}  {event['kind']}: {event['text']}")


def _why_node(node: dict[str, Any], found: dict[str, Any], now: datetime) -> None:
    typer.echo(f"{node['node']}: {words.node_story(node, found, now)}")
    print_facts(
        {
            "Slurm": node["slurm"],
            "reason": node["reason"],
            "VM": node["vm"] and f"{node['vm']} (id {node['vm_id']})",
            "VM since": node["vm_created"] and f"{at(node['vm_created'])}",
            "ends": node["ends"]
            and f"{at(node['ends'])} (in {until(node['ends'], now)}){words.end_cause(node)}",
            "longest job that fits": until(node["ends"], now) if node["phase"] == "up" else None,
            "request": node["request"],
            "jobs": node["jobs"],
            "kind": "static: kept up" if node["static"] else "dynamic: up while jobs need it",
        }
    )
    console = last_console(Path(HookSite(os.environ).state_dir), node["node"])
    if console is not None:
        file, lines = console
        typer.echo(f"\nlast words of a VM that was replaced ({file}):")
        for line in lines:
            typer.echo(f"  {one_line(line, 300)}")


def _why_job(job: dict[str, Any], found: dict[str, Any], now: datetime) -> None:
    state = job["state"].lower().replace("+", ", ")
    typer.echo(f"job {job['job']} is {state} in partition {job['partition']}")
    lines = list(words.job_story(job, found, now))
    for line in [job["story"] or "", *lines]:
        if line:
            typer.echo(f"  {line}")
    for node in found["nodes"]:
        if job["job"] in node["jobs"]:
            typer.echo(f"  {node['node']}: {words.node_story(node, found, now)}")


def _names(hostlist: str | None) -> tuple[str, ...]:
    from slurm_flex.hostlist import expand  # noqa: PLC0415  # ClusterShell, for this alone

    return expand(hostlist) if hostlist else ()


def events(
    since_when: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="Not older than: 30m, 2h, 7d.")
    ] = "1d",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """What happened: expiries, requests, failures, replacements. `explain` knows the kinds.

    The whole journal is for the owner of the state folder and for root; others see the last lines
    of it, out of the status file.

    Examples:

      slurm-flex events --since 2h

      slurm-flex events --follow --json
    """
    earliest = utc_now() - parse_duration(since_when)
    seen = 0
    site = _site()
    while True:
        for event in _events(site, earliest, seen):
            seen = max(seen, event["id"])
            if as_json and follow:
                typer.echo(_one_line_json(event))
            elif not as_json:
                whom = event["nodes"] or (f"job {event['job']}" if event["job"] else event["pool"])
                typer.echo(
                    f"{at(event['time'])}  {event['kind']:<18} {whom or '-'}: {event['text']}"
                )
        if not follow:
            break
        time.sleep(_FOLLOW_SECONDS)
    if as_json:
        print_json(_events(site, earliest, 0))
    elif not seen:
        typer.echo(f"nothing happened within {since_when}")


def _one_line_json(event: dict[str, Any]) -> str:
    import json  # noqa: PLC0415

    return json.dumps(event, ensure_ascii=False)


def _events(site: HookSite, earliest: datetime, after: int) -> list[dict[str, Any]]:
    """From the journal; for those who may not read it, out of the status file."""
    from slurm_flex.memory import MemoryFileError, open_journal  # noqa: PLC0415  # slow to import
    from slurm_flex.status import entry_as_json  # noqa: PLC0415

    try:
        journal = open_journal(site.state_dir)
    except MemoryFileError:
        found = status_file.read(site.run_dir)["events"]
        return [e for e in found if e["id"] > after and (clock(e["time"]) or earliest) >= earliest]
    try:
        entries = journal.events(since=earliest, after=after, last=100_000)
        return [entry_as_json(entry) for entry in entries]
    finally:
        journal.close()
