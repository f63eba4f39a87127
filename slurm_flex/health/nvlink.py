"""NVLink on every GPU, not on the first one only (a peer's check asked for `-i 0`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Optional

from slurm_flex.health import schema
from slurm_flex.health.node import Node
from slurm_flex.health.schema import Field
from slurm_flex.health.sight import Builtin, Options, Sight, of_this_moment
from slurm_flex.health.verdict import Finding, bad, ok, one_line, skipped, unknown

# Links a GPU: A100 12, H100, H200 and B200 18 (NVIDIA's data sheets).
LINKS: Final = {"a2-*": 12, "a3-*": 18, "a4-highgpu-*": 18}

_GPU: Final = re.compile(r"GPU (\d+): (.*)")
_LINK: Final = re.compile(r"\s+Link (\d+): (.*?)\s*\Z")
_RATE: Final = re.compile(r"[\d.]+ [GT]B/s\Z")


@dataclass(frozen=True)
class Links:
    """One GPU of `nvidia-smi nvlink -s`.

    up, down: the numbers of its links; odd: states that are neither.
    """

    up: list[int] = field(default_factory=list)
    down: list[int] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)


def parse_nvlink(text: str) -> dict[int, Links]:
    """The links of each GPU by its index."""
    gpus: dict[int, Links] = {}
    current: Optional[Links] = None
    for line in text.splitlines():
        gpu, link = _GPU.match(line), _LINK.match(line)
        if gpu:
            current = gpus.setdefault(int(gpu[1]), Links())
        elif link and current is not None:
            if _RATE.match(link[2]):
                current.up.append(int(link[1]))
            elif "inactive" in link[2].lower():
                current.down.append(int(link[1]))
            else:
                current.odd.append(link[2])
    return gpus


def _probe(node: Node, options: Options) -> Optional[tuple[str, ...]]:  # noqa: ARG001
    tool = node.tool("nvidia-smi") if (node.expected_gpus() or 0) > 1 else None
    return (tool, "nvlink", "-s") if tool else None


def _expected(node: Node, options: Options) -> Optional[int]:
    kind = node.machine_type or ""
    found = [n for pattern, n in options["links"].items() if fnmatchcase(kind, pattern)]
    return found[-1] if found else None


def _judge(sight: Sight, options: Options) -> Finding:
    gpus_here = sight.node.expected_gpus()
    if not gpus_here or gpus_here == 1:
        return skipped("fewer than two GPUs are expected here")
    if sight.output is None:
        return unknown("nvidia-smi is missing")
    if sight.output.trouble():
        return unknown(f"nvidia-smi: {sight.output.trouble()}")
    gpus, wanted = parse_nvlink(sight.output.stdout), _expected(sight.node, options)
    if not gpus:
        if sight.output.status == 0 and not wanted:
            return skipped("this node has no NVLink")
        said = one_line(sight.output.first_line(), 100) or "nothing"
        return unknown(f"nvidia-smi nvlink -s says {said}")
    most = max(len(links.up) + len(links.down) + len(links.odd) for links in gpus.values())
    if not most and not wanted:
        return skipped("these GPUs have no NVLink")
    if not wanted and not any(links.up for links in gpus.values()):
        return skipped("no NVLink is up on any GPU, and none is expected")
    troubled = []
    for index, links in sorted(gpus.items()):
        if links.odd:
            return unknown(f"GPU {index}: a link's state reads {one_line(links.odd[0], 60)}")
        if links.down:
            named = ", ".join(map(str, links.down[:6])) + (", ..." if links.down[6:] else "")
            troubled.append(f"GPU {index} link {named} inactive")
        elif len(links.up) < (wanted or most):
            troubled.append(f"GPU {index} has {len(links.up)} of {wanted or most} links")
    if troubled:
        return bad("; ".join(troubled))
    return ok(f"{most} links up on each of {len(gpus)} GPUs")


NVLINK = Builtin(
    about="every NVLink of every GPU is up",
    options={
        "links": Field(
            schema.table_of(schema.integer(0, 64)),
            "links a GPU has, by machine type pattern; elsewhere all GPUs must have as many",
            LINKS,
        )
    },
    probe=_probe,
    judge=of_this_moment(_judge),
)
