"""PartitionName lines, with a MaxTime that a fresh node can keep."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from slurm_flex.cluster.model import Cluster, PartitionSpec, Pool
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.slurm_keys import Release, knows, spelling
from slurm_flex.errors import FlexError
from slurm_flex.hostlist import fold
from slurm_flex.text import one_line

# Of more than eight digits each, a time has no meaning to Slurm nor to Python.
_TIME: Final = re.compile(r"(?:([0-9]{1,8})-)?([0-9]{1,8})(?::([0-9]{1,8}))?(?::([0-9]{1,8}))?")
_SHORTEST: Final = timedelta(minutes=1)  # Slurm counts time limits in minutes


def partition_lines(
    cluster: Cluster,
    settings: Settings,
    part: PartitionSpec,
    release: Release,
    leaving: Sequence[str] = (),
) -> Iterator[str]:
    """The PartitionName line of a partition, over its pools and the nodes that are leaving it.

    Raises FlexError for a time that no node can keep.
    """
    names = [name for pool in partition_pools(cluster, part) for name in cluster.node_names(pool)]
    names += leaving
    if not names:
        yield f"# The partition {part.id} has no nodes: its pools have max_node_count 0."
        return
    keys = {"Nodes": fold(names), **_keys(cluster, settings, part, release)}
    pairs = " ".join(f"{key}={value}" for key, value in keys.items())
    yield f"PartitionName={part.id} {pairs}"


def partition_pools(cluster: Cluster, part: PartitionSpec) -> list[Pool]:
    found = (cluster.pool(pool_id) for pool_id in part.node_pool_ids)
    return [pool for pool in found if pool is not None]


def max_time(cluster: Cluster, part: PartitionSpec, settings: Settings) -> timedelta | None:
    """The longest job that a fresh node of each of the partition's pools can finish, or no limit.

    A Flex-start VM lives run_duration from its start: the boot comes off it, and the margin
    before its end in which nothing may run. Of a short life no more than half is taken off.
    """
    lives = [pool.run_duration for pool in partition_pools(cluster, part) if pool.is_flex_start]
    if not lives:
        return None
    life = min(lives)
    minutes = (life - min(settings.boot_allowance + settings.end_margin, life / 2)) // _SHORTEST
    return max(_SHORTEST, minutes * _SHORTEST)


def _keys(
    cluster: Cluster, settings: Settings, part: PartitionSpec, release: Release
) -> dict[str, str]:
    keys = {"Default": "YES"} if part.id == cluster.default_partition else {}
    keys["State"] = "UP"
    # On the partition rather than for all nodes: a site's own nodes must never be powered down.
    keys["SuspendTime"] = f"{settings.suspend_time.total_seconds():.0f}"
    longest = max_time(cluster, part, settings)
    if longest is not None:
        keys["MaxTime"] = slurm_time(longest)
    if settings.default_time:
        keys["DefaultTime"] = settings.default_time
    for key, value in part.config.items():
        name = spelling("partition", key)
        if knows(release, "partition", key) is False:
            what = f"{name} is no partition parameter of Slurm {release}"
            raise FlexError(what, where=f"partition {part.id}", fix="leave it out")
        keys[name] = value
    _check_time(keys, "MaxTime", longest, part)
    _check_time(keys, "DefaultTime", longest, part)
    return keys


def _check_time(
    keys: dict[str, str], key: str, longest: timedelta | None, part: PartitionSpec
) -> None:
    if longest is None or key not in keys:
        return
    given = parse_slurm_time(keys[key])
    if given is None or given > longest:
        what = f"{key}={keys[key]} is longer than a node of the partition can live"
        fix = f"at most {slurm_time(longest)}: flex_start_max_duration less boot and margin"
        raise FlexError(what, where=f"partition {part.id}", fix=fix)


def slurm_time(value: timedelta) -> str:
    """A time limit as Slurm writes it: ``6-23:40:00``."""
    minutes, seconds = divmod(int(value.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    clock = f"{hours:02}:{minutes:02}:{seconds:02}"
    return f"{days}-{clock}" if days else clock


def parse_slurm_time(text: str) -> timedelta | None:
    """A time limit as Slurm reads it (minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S); None: no limit.

    Raises FlexError for anything else.
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return None
    found = _TIME.fullmatch(text)
    if found is None:
        what = f'"{one_line(text, 40)}" is no time'
        raise FlexError(what, fix="such as 90 (minutes), 04:00:00, 1-12")
    days, first, second, third = (int(part) if part else None for part in found.groups())
    if days is not None:
        return timedelta(days=days, hours=first or 0, minutes=second or 0, seconds=third or 0)
    if third is not None:
        return timedelta(hours=first or 0, minutes=second or 0, seconds=third)
    return timedelta(minutes=first or 0, seconds=second or 0)
