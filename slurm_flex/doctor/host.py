"""This host: the daemon, the clock, the resolver."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from slurm_flex import status_file
from slurm_flex.cluster.site import Site
from slurm_flex.compute.gather import gather
from slurm_flex.doctor.check import Check, error, ok, skipped, warn
from slurm_flex.doctor.rest import Rest
from slurm_flex.durations import humanize
from slurm_flex.errors import FlexError

DAEMON: Final = "daemon"
CLOCK: Final = "clock"
RESOLVER: Final = "resolver"

_NOTICED: Final = timedelta(seconds=5)
_SLOW: Final = timedelta(seconds=1)
_PATIENCE: Final = timedelta(seconds=5)
_JOURNAL: Final = "journalctl -u slurm-flex"


def is_alive(site: Site, now: datetime) -> bool:
    """Whether a daemon's last pass that went well is recent."""
    try:
        status = status_file.read(Path(site.settings.run_dir))
    except FlexError:
        return False
    last = _time(status.get("daemon", {}).get("heartbeat"))
    return last is not None and now - last <= _late(site)


def _late(site: Site) -> timedelta:
    return 3 * site.settings.interval + site.settings.observe_deadline


def daemon(site: Site, now: datetime) -> Iterator[Check]:
    """Whether the daemon runs and its passes succeed, from its status file. Raises FlexError."""
    try:
        status = status_file.read(Path(site.settings.run_dir))
    except FlexError as missing:
        yield error(DAEMON, missing.what, "systemctl enable --now slurm-flex")
        return
    told = status.get("daemon", {})
    errors = [str(line) for line in told.get("errors", ())]
    last = _time(told.get("heartbeat"))
    if last is None:
        yield error(DAEMON, f"no pass has gone well yet: {'; '.join(errors)[:300]}", _JOURNAL)
        return
    age = now - last
    if age > _late(site):
        text = f"the last pass that went well was {humanize(age)} ago"
        yield error(DAEMON, f"{text}; {'; '.join(errors)[:300]}".rstrip("; "), _JOURNAL)
    elif errors:
        yield warn(DAEMON, "; ".join(errors)[:300], _JOURNAL)
    elif other := _differing_pools(site, status):
        text = f"it goes by an older cluster file: other {', '.join(other)}"
        yield warn(DAEMON, text, "systemctl reload slurm-flex")
    else:
        role = "" if told.get("acting", True) else ", standing by"
        yield ok(DAEMON, f"the last pass was {humanize(age)} ago{role}")


def _differing_pools(site: Site, status: Mapping[str, Any]) -> list[str]:
    """Pools that the daemon's last pass had otherwise than the cluster file has them now."""
    told = {
        one.get("pool"): (one.get("nodes"), one.get("static"), one.get("zone"))
        for one in status.get("pools", ())
    }
    return [
        pool.id
        for pool in site.cluster.compute_pools
        if told and told.get(pool.id) != (pool.max_node_count, pool.min_node_count, pool.zone)
    ]


def clock(site: Site, rest: Rest) -> Iterator[Check]:
    """How far this clock is from Google's. Call it after something was asked."""
    skew = rest.skew
    if skew is None:
        yield skipped(CLOCK, "Google didn't answer, so there is nothing to compare with")
        return
    side = "ahead of" if skew > timedelta(0) else "behind"
    text = f"{abs(skew).total_seconds():.0f} s {side} Google's"
    fix = "run chrony or systemd-timesyncd"
    if abs(skew) > site.settings.clock_skew:
        yield error(CLOCK, f"{text}: ends of life would be missed", fix)
    elif abs(skew) > _NOTICED:
        yield warn(CLOCK, text, fix)
    else:
        yield ok(CLOCK, "agrees with Google's")


def resolver(site: Site) -> Iterator[Check]:
    """Whether names are looked up quickly, found or not.

    A CLOUD node that is off has its own name as its address: a reconfigure looks each of them up
    about ten times, and every command waits for it (facts: slurm.md).
    """
    names = [site.cluster.node_names(pool)[0] for pool in site.cluster.compute_pools
             if pool.max_node_count]  # fmt: skip
    if not names:
        yield ok(RESOLVER, "there is no node to look up")
        return
    started = time.monotonic()
    gather({names[0]: lambda: _look_up(names[0])}, within=_PATIENCE)
    took = timedelta(seconds=time.monotonic() - started)
    text = f"looking up {names[0]} took {took.total_seconds():.1f} s"
    if took > _SLOW:
        fix = "put the nodes' names into Cloud DNS or /etc/hosts, or mend resolv.conf"
        yield warn(RESOLVER, f"{text}; `scontrol reconfigure` does so ten times a node", fix)
    else:
        yield ok(RESOLVER, text)


def _look_up(name: str) -> None:
    with contextlib.suppress(OSError):
        socket.getaddrinfo(name, None)


def _time(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    with contextlib.suppress(ValueError):
        read = datetime.fromisoformat(value.replace("Z", "+00:00"))
        return read if read.tzinfo else None
    return None
