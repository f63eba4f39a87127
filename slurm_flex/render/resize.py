"""A changed cluster file: what follows for the nodes, and which must stay in slurm.conf for now.

The earlier rendered file says what Slurm knows today. A node that the cluster file no longer has
is kept in slurm.conf, with all that its line said, as long as it runs: taking it out kills its
jobs. slurm-flex drains it; the render after it has left takes it out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_flex.cluster.model import Cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.hostlist import HostlistError, expand, fold
from slurm_flex.render.conf_lines import ConfLine, parse_conf
from slurm_flex.render.names import GRES_FILE, MAIN_FILE, is_ours
from slurm_flex.render.partitions import max_time, slurm_time
from slurm_flex.render.power import static_nodes


@dataclass(frozen=True)
class Leaving:
    """Nodes that are no longer in the cluster file and still in use.

    lines: their NodeName lines as before, with these nodes only. partitions: partition -> nodes
    of it that stay. closed: PartitionName lines of partitions that are gone from the file. gres:
    their lines of gres.conf.
    """

    nodes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    partitions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    closed: tuple[str, ...] = ()
    gres: tuple[str, ...] = ()


def leaving_nodes(
    previous: str, cluster: Cluster, running: Collection[str] | None, previous_gres: str = ""
) -> Leaving:
    """What of an earlier slurm-flex.conf and gres.conf must stay.

    running: the nodes that Slurm shows as anything but powered down; None where that isn't
    known, and then all of them stay.
    """
    lines = list(parse_conf(previous))

    def stays(name: str) -> bool:
        return not _is_node(cluster, name) and (running is None or name in running)

    kept_lines, gone = _kept(lines, stays)
    gres, _ = _kept(parse_conf(previous_gres), stays)
    partitions: dict[str, tuple[str, ...]] = {}
    closed: list[str] = []
    there = {part.id for part in cluster.partitions}
    for line in lines:
        if line.key.lower() != "partitionname":
            continue
        stay = [name for name in _names(line.get("Nodes") or "") if name in set(gone)]
        if stay and line.value in there:
            partitions[line.value] = tuple(stay)
        elif stay:
            closed.append(_closed(line, stay))
    return Leaving(tuple(gone), tuple(kept_lines), partitions, tuple(closed), tuple(gres))


def rendered_before(folder: Path) -> str:
    """The slurm-flex.conf of an earlier render; empty where there is none, or it isn't ours."""
    return _ours(folder / MAIN_FILE)


def nodes_of(previous: str) -> tuple[str, ...]:
    """The nodes of an earlier slurm-flex.conf."""
    lines = (line for line in parse_conf(previous) if line.key.lower() == "nodename")
    return tuple(name for line in lines for name in _names(line.value))


def nodes_gone(previous: str, cluster: Cluster) -> tuple[str, ...]:
    """Those of them that the cluster file no longer has."""
    return tuple(name for name in nodes_of(previous) if not _is_node(cluster, name))


def leaving_in(folder: Path, cluster: Cluster, running: Collection[str] | None) -> Leaving:
    """The same from the files in slurm.conf's folder; nothing where they aren't there or ours."""
    return leaving_nodes(
        _ours(folder / MAIN_FILE), cluster, running, previous_gres=_ours(folder / GRES_FILE)
    )


def _ours(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text if is_ours(text) else ""


def _kept(lines: Iterable[ConfLine], stays: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """The NodeName lines of the nodes that stay, with no others; and those nodes."""
    kept: list[str] = []
    nodes: list[str] = []
    for line in lines:
        stay = [name for name in _names(line.value) if stays(name)]
        if line.key.lower() == "nodename" and stay:
            nodes += stay
            kept.append(_with_nodes(line, stay))
    return kept, nodes


def _is_node(cluster: Cluster, name: str) -> bool:
    pool = cluster.pool_of(name)
    return pool is not None and not pool.is_login


def _with_nodes(line: ConfLine, stay: Sequence[str]) -> str:
    """The line with these nodes only, and with their ports where each has one of its own."""
    before = _names(line.value)
    pairs = []
    for key, value in line.pairs:
        ports = _names(value) if key.lower() == "port" else ()
        if len(ports) == len(before) > 1:
            value = fold([ports[before.index(name)] for name in stay])  # noqa: PLW2901
        pairs.append(f"{key}={value}")
    return " ".join([f"NodeName={fold(stay)}", *pairs])


def _closed(line: ConfLine, nodes: Iterable[str]) -> str:
    """A partition that takes no new jobs: its running ones end in it."""
    pairs = [
        f"{key}={value}"
        for key, value in line.pairs
        if key.lower() not in ("nodes", "state", "default")
    ]
    return " ".join([f"PartitionName={line.value} Nodes={fold(nodes)}", *pairs, "State=DRAIN"])


def what_follows(
    previous: str, cluster: Cluster, settings: Settings, running: Collection[str] | None = None
) -> Iterator[str]:
    """The change from an earlier slurm-flex.conf to this cluster file, one line each."""
    lines = list(parse_conf(previous))
    before = [
        name for line in lines if line.key.lower() == "nodename" for name in _names(line.value)
    ]
    excluded = [line.value for line in lines if line.key.lower() == "suspendexcnodes"]
    static_before = {name for value in excluded for name in _names(value)}
    static_now = set(static_nodes(cluster))
    now = [name for pool in cluster.compute_pools for name in cluster.node_names(pool)]
    known = set(before)
    yield from _line("+", (n for n in now if n not in known), "new, off until a job wants them")
    yield from _line(
        "~",
        (n for n in now if n in static_now and n not in static_before),
        "static from now on: asked for at once, and kept up",
    )
    yield from _line(
        "~",
        (n for n in now if n not in static_now and n in static_before),
        "dynamic from now on: off once idle for suspend_time",
    )
    leaving = set(leaving_nodes(previous, cluster, running).nodes)
    gone = [name for name in before if not _is_node(cluster, name)]
    yield from _line(
        "-",
        (name for name in gone if name in leaving),
        "leaving: drained, in slurm.conf until they are idle and off; then render again",
    )
    yield from _line("-", (name for name in gone if name not in leaving), "off: taken out")
    yield from _times(lines, cluster, settings)


def _times(lines: Iterable[ConfLine], cluster: Cluster, settings: Settings) -> Iterator[str]:
    before = {line.value: line.get("MaxTime") for line in lines if line.key == "PartitionName"}
    for part in cluster.partitions:
        longest = max_time(cluster, part, settings)
        now = part.config.get("MaxTime") or (slurm_time(longest) if longest is not None else None)
        if part.id not in before:
            yield f"+ partition {part.id}: new"
        elif before[part.id] != now:
            was = before[part.id] or "UNLIMITED"
            yield (
                f"~ partition {part.id}: MaxTime {was} becomes {now or 'UNLIMITED'}; "
                "VMs that run keep the life they were given"
            )
    for name in sorted(before.keys() - {part.id for part in cluster.partitions}):
        yield f"- partition {name}: taken out"


def _line(mark: str, names: Iterable[str], story: str) -> Iterator[str]:
    found = list(names)
    if found:
        yield f"{mark} {fold(found)}: {story}"


def _names(hostlist: str) -> tuple[str, ...]:
    try:
        return expand(hostlist)
    except HostlistError:
        return ()
