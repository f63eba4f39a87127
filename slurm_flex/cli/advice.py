"""What a job's owner can set so that it starts: its time limit against the lives of the nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from slurm_flex.cli.output import clock
from slurm_flex.durations import humanize

_FOR_WANT_OF_NODES = ("Resources", "ReqNodeNotAvail", "Reserv", "Nodes required", "None")


def time_limit_advice(
    job: Mapping[str, Any], status: Mapping[str, Any], now: datetime
) -> Iterator[str]:
    """For a job that waits for nodes: whether its limit is why, and which one would do."""
    if not (job["reason"] or "None").startswith(_FOR_WANT_OF_NODES):
        return
    pools = {
        pool["pool"]: pool
        for pool in status["pools"]
        if job["partition"] in pool["partitions"] and pool["run_duration"]
    }
    if not pools:
        return
    limit = None if job["time_limit"] is None else timedelta(seconds=job["time_limit"])
    longest = timedelta(seconds=max(pool["run_duration"] for pool in pools.values()))
    if limit is not None and limit > longest:
        yield (
            f"its limit of {humanize(limit)} is longer than any node lives ({humanize(longest)}): "
            "set --time to less, and let it save its work"
        )
        return
    lives = _lives_left(pools.keys(), status, now)
    if limit is None:
        yield "it has no time limit, so it fits only a node that has never lived: set --time"
    elif lives and max(lives) < limit:
        yield f"its limit of {humanize(limit)} outlasts every node that is up"
    if lives and (limit is None or max(lives) < limit):
        fits = max(lives)
        minutes = int(fits.total_seconds() // 60)
        if minutes > 0:
            yield f"--time={_as_slurm(minutes)} or less fits a node that is up now"


def _lives_left(
    pools: Collection[str], status: Mapping[str, Any], now: datetime
) -> list[timedelta]:
    """What is left of each up node's life before its last moments are reserved."""
    left = []
    for node in status["nodes"]:
        ends = clock(node["ends"])
        if node["pool"] in pools and node["phase"] == "up" and ends is not None:
            left.append(ends - now - timedelta(seconds=status["end_margin"]))
    return [one for one in left if one > timedelta(0)]


def _as_slurm(minutes: int) -> str:
    """D-HH:MM:SS, as --time takes it."""
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    clock_time = f"{hours:02}:{minutes:02}:00"
    return f"{days}-{clock_time}" if days else clock_time
