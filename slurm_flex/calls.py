"""What slurmctld asked for through the hooks, as a pass reads it from the spool.

It decides nothing: the pass looks at Slurm itself. It is said, and names that the cluster file
doesn't have are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_flex import spool
from slurm_flex.cluster import Cluster
from slurm_flex.hostlist import HostlistError, expand
from slurm_flex.text import one_line


@dataclass(frozen=True, slots=True)
class Call:
    """One record. `program`: resume, suspend or unpause. `note`: what was odd about it."""

    program: str
    nodes: str = ""
    jobs: Mapping[str, str] | None = None
    note: str = ""
    pool: str = ""


def read_calls(run_dir: Path) -> tuple[list[Call], list[Path]]:
    """The calls that wait, oldest first, and all files to remove once they were heard."""
    records = spool.read(run_dir)
    calls = [_call(record) for _, record in records if record is not None]
    calls += [
        Call("unknown", note=f"{file.name} holds no record") for file, record in records
        if record is None
    ]  # fmt: skip
    return calls, [file for file, _ in records]


def unknown_nodes(call: Call, cluster: Cluster) -> Sequence[str]:
    """Names in the hostlist that the cluster file doesn't have; a bad hostlist is one such name."""
    if not call.nodes:
        return ()
    try:
        names = expand(call.nodes)
    except HostlistError:
        return (one_line(call.nodes, 100),)
    return [one_line(name, 100) for name in names if cluster.locate(name) is None]


def _call(record: Mapping[str, object]) -> Call:
    jobs = record.get("jobs")
    return Call(
        program=one_line(str(record.get("program", "unknown")), 20),
        nodes=str(record.get("nodes", "")),
        jobs=jobs if isinstance(jobs, Mapping) else None,
        note=one_line(str(record.get("note", ""))),
        pool=str(record.get("pool", "")),
    )
