"""A rendered slurm.conf.d, made to work on one machine: each of its nodes gets a port."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ClusterShell.NodeSet import NodeSet, NodeSetException

from slurm_flex.demo.layout import CloudNode
from slurm_flex.errors import FlexError

# Files of Slurm's own that lie beside slurm.conf and are never included in it.
BESIDE: Final = frozenset(["gres.conf", "cgroup.conf", "topology.conf", "job_container.conf"])
_RECORDS: Final = frozenset(["nodename", "partitionname", "nodeset", "downnodes", "include"])
_SETTING: Final = re.compile(r"([A-Za-z]\w*)\s*=\s*(.*?)\s*(?:#.*)?\Z")

_GRES: Final = re.compile(r"\sGres=(\S+)", re.IGNORECASE)


class NotRenderable(FlexError):
    """A rendered slurm.conf.d can't be used on one machine as it is."""


@dataclass(frozen=True)
class Rendered:
    """The files, by name. included: for ``Include``; beside: what Slurm finds by itself.

    nodes: name and gres of every node they define; the n-th's port is n above the first port.
    """

    included: dict[str, str] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)
    nodes: tuple[CloudNode, ...] = ()

    def settings(self) -> dict[str, str]:
        """The global keys that the included files set."""
        found: dict[str, str] = {}
        for text in self.included.values():
            for line in text.splitlines():
                match = _SETTING.match(line)
                if match and match.group(1).lower() not in _RECORDS:
                    found[match.group(1)] = match.group(2)
        return found

    def without(self, keys: Iterable[str]) -> Rendered:
        """The same, with these global keys commented out, for slurm.conf itself to set."""
        taken = {key.lower() for key in keys}

        def edit(line: str) -> str:
            match = _SETTING.match(line)
            return f"# {line}" if match and match.group(1).lower() in taken else line

        edited = {
            name: "".join(f"{edit(line)}\n" for line in text.splitlines())
            for name, text in self.included.items()
        }
        return Rendered(edited, self.beside, self.nodes)


def read_rendered(folder: Path, first_port: int) -> Rendered:
    """Read a rendered folder and give its nodes the ports from ``first_port`` on.

    Raises NotRenderable.
    """
    included: dict[str, str] = {}
    beside: dict[str, str] = {}
    nodes: list[CloudNode] = []
    for path in sorted(folder.glob("*.conf")):
        if path.name in BESIDE:
            beside[path.name] = path.read_text()
            continue
        lines = []
        for line in path.read_text().splitlines():
            if not line.lower().startswith("nodename="):
                lines.append(line)
                continue
            names = node_names(line.split()[0].split("=", 1)[1], str(path))
            lines.append(f"{line} Port={_ports(first_port + len(nodes), len(names))}")
            gres = _GRES.search(line)
            nodes.extend(CloudNode(name, gres=gres.group(1) if gres else "") for name in names)
        included[path.name] = "".join(f"{line}\n" for line in lines)
    if not nodes:
        raise NotRenderable("no NodeName line in any *.conf", where=str(folder))
    return Rendered(included, beside, tuple(nodes))


def node_names(hostlist: str, where: str) -> list[str]:
    """The names of a hostlist in Slurm's order for plain ranges. Raises NotRenderable."""
    try:
        return list(NodeSet(hostlist))
    except NodeSetException as error:
        raise NotRenderable(f"NodeName={hostlist}: {error}", where=where) from error


def _ports(first: int, count: int) -> str:
    return str(first) if count == 1 else f"[{first}-{first + count - 1}]"
