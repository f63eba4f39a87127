"""What the status file says, in a sentence: of a node, of a request, of a job.

The words answer what people ask when they read sinfo and squeue (facts: what-users-see.md): is it
billed, does it hang, whose drain is it, when does it go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from slurm_flex.cli.advice import time_limit_advice
from slurm_flex.cli.output import at, said, since, until
from slurm_flex.health.verdict import is_of_a_part

RETIRED_REASON = "slurm-flex: no longer in the cluster file"
Facts = Mapping[str, Any]


def find(things: list[dict[str, Any]], key: str, value: object) -> dict[str, Any] | None:
    """The first thing whose `key` is `value`."""
    return next((thing for thing in things if thing.get(key) == value), None)


def node_story(node: Facts, status: Facts, now: datetime) -> str:
    """One line: what the node is doing, and what comes next."""
    phase = node["phase"]
    if node["stranger"]:
        return "a VM of this name exists that isn't ours; nothing is done here"
    if phase == "off":
        return _off(node)
    if phase == "asked":
        return _asked(node, status, now)
    if phase == "queued":
        request = find(status["requests"], "request", node["request"])
        return "asked for" if request is None else request_story(request, now)
    if phase == "booting":
        age = since(node["vm_created"], now)
        return f"VM {node['vm']} for {age}, its slurmd has not registered yet"
    if phase == "up" and node["vm"] == "REPAIRING":
        return "its host has broken: Compute Engine restarts the VM, or it is replaced"
    if phase == "up":
        left = until(node["ends"], now)
        return f"up, ends in {left}{end_cause(node)}" if left else "up"
    if phase == "ending":
        return f"its VM is {node['vm'] or 'gone'}; the node is taken down"
    if phase == "leaving" and (node["reason"] or "").startswith(RETIRED_REASON):
        return "no longer in the cluster file: drained, and goes when its jobs have ended"
    if phase == "leaving":
        vm = "its VM is being deleted" if node["vm"] else "no VM any more"
        return f"leaving ({vm}), usable again after SuspendTimeout"
    if phase == "sick":
        kept = ", if health_partial_node says so" if is_of_a_part(node["reason"] or "") else ""
        return f"drained by slurm-flex: {node['reason']}; replaced when idle{kept}"
    if phase == "held":
        who = node["reason_user"] or "somebody"
        return f"held by {who}: {node['reason'] or 'no reason given'}; slurm-flex leaves it alone"
    return "Slurm or Compute Engine couldn't be asked about it; nothing is decided"


def end_cause(node: Facts) -> str:
    """What ends the VM before its time, in brackets."""
    return " (host maintenance)" if node.get("maintenance") else ""


def _off(node: Facts) -> str:
    if node["vm"]:
        return f"off, its VM is still {node['vm']} and is being removed"
    if "DOWN" in (node["slurm"] or "").upper().split("+"):
        return f"off and down: {node['reason'] or 'no reason'}"
    return "off, no VM, nothing billed"


def _asked(node: Facts, status: Facts, now: datetime) -> str:
    pool = find(status["pools"], "pool", node["pool"]) or {}
    held = pool_obstacle(pool, now)
    if held:
        return f"waits to be asked for: {held}"
    if node["vm"]:
        return f"waits until its old VM ({node['vm']}) is gone"
    return "Slurm wants it; it is asked for in the next pass, or stands in line"


def pool_obstacle(pool: Facts, now: datetime) -> str:
    """What keeps a pool from being asked for anything; empty if nothing does."""
    if not pool:
        return ""
    if pool["paused"]:
        return f"pool {pool['pool']} is paused (slurm-flex unpause {pool['pool']})"
    if pool["breaker"]:
        breaker = pool["breaker"]
        retry = until(breaker["retry_at"], now)
        return f"{breaker['why']}; next try in {retry}" if retry != "now" else breaker["why"]
    for wait in pool["back_offs"]:
        return f"{wait['why']}; next try in {until(wait['until'], now)}"
    if not pool["complete"]:
        return "Compute Engine couldn't be read"
    return ""


def request_story(request: Facts, now: datetime) -> str:
    age = since(request["created"], now)
    state = request["state"]
    if state == "SUCCEEDED":
        return "got its VMs"
    if not request["live"]:
        return f"{state.lower()}: {said(request['error']) or 'no reason given'}"
    words = f"queued for capacity for {age}" if age else "just sent"
    if state == "SENT":
        words = f"sent {age} ago, not listed yet" if age else "just sent"
    if request["last_attempt"]:
        words += f"; last answer: {said(request['last_attempt'])}"
    return words


def job_story(job: Facts, status: Facts, now: datetime) -> Iterator[str]:
    """Lines that say why the job is where it is."""
    if job["delay"]:
        yield f"delayed until {at(job['delay']['until'])}: {job['delay']['why']}"
    request = next(
        (one for one in status["requests"]
         if one["live"] and one["job"] in (job["job"], job["het_job"]) and one["job"] is not None),
        None,
    )  # fmt: skip
    if request:
        yield f"request {request['request']}: {request_story(request, now)}"
    mine = [node for node in status["nodes"] if job["job"] in node["jobs"]]
    up = sum(1 for node in mine if node["phase"] == "up")
    if mine:
        yield f"{up} of its {len(mine)} Flex-start nodes are up"
    if "PENDING" in job["state"]:
        yield from _pending(job, status, now)
    if job["expiries"]:
        yield f"the end of a node's life cut it {job['expiries']} times; it was restarted each time"
    if job["health_restarts"]:
        yield f"failed checks cost it its node {job['health_restarts']} times"


def _pending(job: Facts, status: Facts, now: datetime) -> Iterator[str]:
    reason = job["reason"] or "None"
    yield f"Slurm says: {reason}" + (f" ({meaning})" if (meaning := _meaning(reason)) else "")
    yield from time_limit_advice(job, status, now)
    starts = until(job["starts"], now)
    if reason == "BeginTime" and starts:
        yield f"may start in {starts}"
    for pool in status["pools"]:
        if job["partition"] in pool["partitions"] and (held := pool_obstacle(pool, now)):
            yield f"pool {pool['pool']}: {held}"


_MEANINGS = {
    "BeginTime": "it was sent back and waits for its start time: Slurm's own 120 s, or a back-off",
    "Resources": "no free node fits it yet",
    "Priority": "jobs before it take what is free",
    "ReqNodeNotAvail": "the nodes it asked for are busy, drained or reserved",
    "Reservation": "it would run into the end of a node's life",
    "JobHeldAdmin": "it is held",
    "JobHeldUser": "its owner holds it",
    "JobHoldMaxRequeue": "it was sent back too often: scontrol release",
    "launch failed requeued held": "its prolog failed; see the node, then scontrol release",
}


def _meaning(reason: str) -> str:
    return next((text for word, text in _MEANINGS.items() if reason.startswith(word)), "")
