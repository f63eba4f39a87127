"""The example cluster file and ways to change it, for the tests of the cluster file."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster_config.json"
GONE = object()
SLURM = "orchestrator_spec.slurm_spec"
GPU = "node_pools[1]"
LOGIN = "node_pools[0]"
FILESTORE = "projects/example-project/locations/us-central1-b/instances/home"


def example() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(EXAMPLE.read_text())
    return data


def changed(*changes: tuple[str, object], base: dict[str, Any] | None = None) -> dict[str, Any]:
    """The example with values set at paths such as ``node_pools[1].zone``; GONE removes one."""
    data = copy.deepcopy(base) if base else example()
    for path, value in changes:
        steps = [int(b) if b else a for a, b in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)]
        at: Any = data
        for step in steps[:-1]:
            at = at[step] if isinstance(step, int) else at.setdefault(step, {})
        last = steps[-1]
        if value is GONE:
            del at[last]
        elif isinstance(last, int) and last == len(at):
            at.append(copy.deepcopy(value))
        else:
            at[last] = copy.deepcopy(value)
    return data
