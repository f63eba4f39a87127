"""What this node is meant to be, and on whose behalf we look at it.

The startup script writes `/etc/slurm-flex/node.json`; slurmd gives the rest in its environment.
Nothing here asks slurmctld: a prolog runs on every node of a job at once.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, Optional

from slurm_flex.health import schema
from slurm_flex.health.schema import Field, Problem

CONTEXTS: Final = ("prolog", "epilog", "periodic")
NODE_FOLDER: Final = Path("/etc/slurm-flex")
NODE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}\Z")

# slurmd gives its programs no PATH. The last ones are where Compute Engine's images keep drivers.
_TOOL_FOLDERS: Final = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/slurm/bin",
    "/usr/local/slurm/bin",
    "/usr/sbin",
    "/bin",
    "/sbin",
    "/usr/local/nvidia/bin",
    "/var/lib/nvidia/bin",
)

# slurmd kills a HealthCheckProgram after 60 s, the drain included (man slurm.conf).
DEFAULT_BUDGETS: Final = {
    "prolog": timedelta(seconds=30),
    "epilog": timedelta(seconds=60),
    "periodic": timedelta(seconds=45),
}

NODE_FIELDS: Final = {
    "gpus": Field(
        schema.integer(0, 64),
        "how many GPUs Slurm has configured for this node; without it, what the PCI bus shows",
    ),
    "machine_type": Field(schema.text(r"\S{1,63}", "a machine type"), 'e.g. "a3-megagpu-8g"'),
    "mounts": Field(
        schema.list_of(schema.text(r"/.*", "an absolute path")),
        "mount points that must be there",
        (),
    ),
    "tools": Field(
        schema.table_of(schema.text(r"/.*", "an absolute path")),
        "where a tool is (nvidia-smi, dcgmi, scontrol, journalctl, dmesg), if not in a usual place",
        {},
    ),
    "checks": Field(
        schema.list_of(schema.text(r"/.*", "an absolute path")),
        "further folders of check files; a later one replaces a check of the same name",
        (),
    ),
    "allow_opt_out": Field(
        schema.boolean, "whether a job may say health=off in --extra or --comment", False
    ),
    "whole_node_jobs": Field(
        schema.boolean, "whether every job has this node for itself, whatever GPUs it names", False
    ),
    "state": Field(
        schema.text(r"/.*", "an absolute path"),
        "folder for the kernel log cursor and the events",
        "/var/lib/slurm-flex/health",
    ),
    "kernel_log": Field(
        schema.text(r"/.*", "an absolute path"), "kernel log in /dev/kmsg's format", "/dev/kmsg"
    ),
    "slurm_conf": Field(
        schema.text(r"/.*", "an absolute path"),
        "the slurm.conf for scontrol where slurmd names none, which it doesn't to a "
        "HealthCheckProgram; by default scontrol's own",
    ),
    "budgets": Field(
        schema.table_of(schema.duration),
        'time for all checks together, e.g. {"prolog": "30s"}',
        {},
    ),
}


@dataclass(frozen=True)
class Node:
    """What one node is meant to be. root is "/" but for tests."""

    name: str
    gpus: Optional[int] = None
    machine_type: Optional[str] = None
    mounts: tuple[str, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    allow_opt_out: bool = False
    whole_node_jobs: bool = False
    state: Path = Path("/var/lib/slurm-flex/health")
    kernel_log: str = "/dev/kmsg"
    slurm_conf: Optional[str] = None
    budgets: Mapping[str, timedelta] = field(default_factory=lambda: DEFAULT_BUDGETS)
    root: Path = Path("/")

    def tool(self, name: str) -> Optional[str]:
        """The absolute path of a tool, or None where there is none that can be run."""
        named = self.tools.get(name)
        candidates = [named] if named else [f"{folder}/{name}" for folder in _TOOL_FOLDERS]
        return next((path for path in candidates if _is_program(path)), None)

    def expected_gpus(self) -> Optional[int]:
        """How many GPUs should answer; None when nothing tells."""
        if self.gpus is not None:
            return self.gpus
        return pci_gpus(self.root) or None


def _is_program(path: str) -> bool:
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and os.access(path, os.X_OK)


@lru_cache(maxsize=8)  # several checks ask, and the bus stays what it is during a look
def pci_gpus(root: Path) -> int:
    """NVIDIA display and 3D controllers on the PCI bus.

    A GPU that fell off the bus under a running driver stays listed here, so this number catches
    it where nobody wrote down how many there should be.
    """
    count = 0
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            vendor = (device / "vendor").read_text("ascii").strip()
            kind = (device / "class").read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        count += vendor == "0x10de" and kind.startswith("0x03")
    return count


@dataclass(frozen=True)
class Occasion:
    """Why we look: before or after a job, or now and then.

    job_gpus: how many GPUs of this node the job has (SLURM_JOB_GPUS), None when Slurm doesn't say.
    words: what the user wrote in --extra and --comment.
    alone: the caller vouches that no job of another runs here.
    """

    context: str
    job_id: Optional[str] = None
    job_gpus: Optional[int] = None
    words: str = ""
    alone: bool = False

    def opted_out(self) -> bool:
        """Whether the job asked for `health=off`, as a word of its own.

        Cluster Toolkit's word for its prolog's checks means ours too (facts: compute-engine.md).
        """
        words = re.split(r"[\s,;&|\"'{}]+", self.words.lower())
        return "health=off" in words or f"healthchecks_{self.context}=off" in words

    def has_whole_node(self, node: Node) -> bool:
        """Whether nobody else can be on this node's GPUs now.

        Not taken from SLURM_JOB_OVERSUBSCRIBE: since 26.05 it reads NO for a shared job too.
        """
        if self.alone:
            return True
        if self.context == "periodic":
            return False
        if node.whole_node_jobs:
            return True
        expected = node.expected_gpus()
        return bool(expected and self.job_gpus is not None and self.job_gpus >= expected)

    def has_a_part(self, node: Node) -> bool:
        """Whether the job is known to have some of the node's GPUs and not all of them."""
        known = bool(self.job_gpus) and bool(node.expected_gpus())
        return known and self.context != "periodic" and not self.has_whole_node(node)


def occasion_from(context: str, environ: Mapping[str, str], *, alone: bool = False) -> Occasion:
    """Read slurmd's environment for a prolog, an epilog or a HealthCheckProgram."""
    gpus = environ.get("SLURM_JOB_GPUS")
    words = f"{environ.get('SLURM_JOB_EXTRA', '')} {environ.get('SLURM_JOB_COMMENT', '')}"
    return Occasion(
        context=context,
        job_id=environ.get("SLURM_JOB_ID"),
        job_gpus=None if gpus is None else len({gpu for gpu in gpus.split(",") if gpu.strip()}),
        words=words.strip(),
        alone=alone,
    )


def node_name(environ: Mapping[str, str]) -> str:
    """SLURMD_NODENAME, or this host's short name."""
    name = environ.get("SLURMD_NODENAME", "")
    return name if NODE_NAME.match(name) else socket.gethostname().split(".")[0]


def find_node_file(name: str, environ: Mapping[str, str]) -> Optional[Path]:
    """`node-NAME.json` or `node.json`, beside the slurm.conf in use or in /etc/slurm-flex."""
    folders = [NODE_FOLDER]
    if environ.get("SLURM_CONF", "").startswith("/"):
        folders.insert(0, Path(environ["SLURM_CONF"]).parent)
    candidates = (
        folder / file for folder in folders for file in (f"node-{name}.json", "node.json")
    )
    return next((path for path in candidates if path.exists()), None)


def read_node(
    name: str, file: Optional[Path], root: Path = Path("/")
) -> tuple[Node, tuple[Problem, ...]]:
    """The node as its file describes it.

    Without a file, or for each key that is wrong, the defaults hold: a slip in this file costs an
    event, not the node.
    """
    data: object = {}
    problems: list[Problem] = []
    if file is not None:
        data, problem = schema.load_json(file)
        if problem is not None:
            data, problems = {}, [problem]
    values, more = schema.read_object(data, NODE_FIELDS, str(file))
    problems += more
    problems += _unknown_contexts(str(file), values.get("budgets", {}))
    if not values:
        values = {key: spec.default for key, spec in NODE_FIELDS.items()}
    values["state"] = Path(values["state"])
    values["budgets"] = {**DEFAULT_BUDGETS, **values["budgets"]}
    return Node(name=name, root=root, **values), tuple(problems)


def _unknown_contexts(file: str, budgets: Iterable[str]) -> list[Problem]:
    return [
        Problem(file, f"budgets.{context}", "unknown context", f"known ones: {', '.join(CONTEXTS)}")
        for context in budgets
        if context not in CONTEXTS
    ]
