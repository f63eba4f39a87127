"""What a test cluster consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path


@dataclass(frozen=True)
class CloudNode:
    """A node that is off until Slurm powers it up. memory_mb is what slurm.conf says it has."""

    name: str
    gres: str = ""
    features: str = ""
    cpus: int = 2
    memory_mb: int = 1000


@dataclass(frozen=True)
class Partition:
    """A partition over a hostlist; ``options`` is further slurm.conf text (``MaxTime=1:00:00``)."""

    name: str
    nodes: str
    options: str = ""


@dataclass(frozen=True)
class Programs:
    """What slurmctld and slurmd call; None leaves the key out, a relative path is the cluster's."""

    resume: Path | None = None
    suspend: Path | None = None
    resume_fail: Path | None = None
    prolog: Path | None = None
    epilog: Path | None = None
    health_check: Path | None = None

    def settings(self, folder: Path) -> dict[str, str]:
        named = {
            "ResumeProgram": self.resume,
            "SuspendProgram": self.suspend,
            "ResumeFailProgram": self.resume_fail,
            "Prolog": self.prolog,
            "Epilog": self.epilog,
            "HealthCheckProgram": self.health_check,
        }
        return {key: str(folder / path) for key, path in named.items() if path is not None}


@dataclass(frozen=True)
class Timeouts:
    """ResumeTimeout, SuspendTimeout, and how long a node idles before it is suspended."""

    resume: timedelta = timedelta(seconds=60)
    suspend: timedelta = timedelta(seconds=5)
    idle: timedelta = timedelta(seconds=10)

    def settings(self) -> dict[str, str]:
        return {
            "ResumeTimeout": f"{self.resume.total_seconds():.0f}",
            "SuspendTimeout": f"{self.suspend.total_seconds():.0f}",
            "SuspendTime": f"{self.idle.total_seconds():.0f}",
        }


@dataclass(frozen=True)
class Layout:
    """A cluster: nodes and partitions, or a rendered slurm.conf.d, and what is set on top.

    nodes, partitions: written into slurm.conf. include: a rendered folder that defines them and
    whatever else; it is used as it is but for the nodes' ports. timeouts: None leaves them to
    ``include``. settings: global keys on top of everything; list values (SchedulerParameters,
    ...) are joined with what is there. lines: further slurm.conf text. files: further files
    beside slurm.conf, name -> text (``gres.conf``). slurm_user: who slurmctld runs as; slurmds
    are root's always.
    """

    nodes: Sequence[CloudNode] = ()
    partitions: Sequence[Partition] = ()
    programs: Programs = field(default_factory=Programs)
    timeouts: Timeouts | None = field(default_factory=Timeouts)
    settings: Mapping[str, str] = field(default_factory=dict)
    lines: Sequence[str] = ()
    include: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    slurm_user: str = "root"
