"""What `dcgmi diag -r 1 -j` prints: the shape of DCGM 4, or of 2 and 3."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from slurm_flex.demo.fakegpu.state import FakeNode, this_node

_HANGS_FOR: Final = 600
_EXIT_ON_FAILURE: Final = 226
# Level 1 of DCGM 3.
_SOFTWARE_TESTS: Final = (
    "Denylist",
    "NVML Library",
    "CUDA Main Library",
    "Permissions and OS-related Blocks",
    "Persistence Mode",
    "Environmental Variables",
    "Page Retirement/Row Remap",
    "Graphics Processes",
    "Inforom",
)
_ISOLATE: Final = 2


def main(arguments: Sequence[str], folder: str) -> int:
    """Exit 226 when a test fails, as dcgmi does."""
    _, node = this_node(Path(folder), os.environ)
    if "dcgmi" in node.hanging:
        time.sleep(_HANGS_FOR)
    if list(arguments[:1]) != ["diag"] or "-j" not in arguments:
        sys.stderr.write("PARSE ERROR: this stand-in knows dcgmi diag -r 1 -j only\n")
        return 1
    if not node.driver:
        sys.stdout.write("Error: Unable to complete diagnostic for group 2147483647.\n")
        return 1
    document = _fourth(node) if node.dcgm.startswith("4") else _third(node)
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return _EXIT_ON_FAILURE if node.dcgm_failures else 0


def _warning(text: str) -> dict[str, Any]:
    return {"error_category": 8, "error_id": 45, "error_severity": _ISOLATE, "warning": text}


def _fourth(node: FakeNode) -> dict[str, Any]:
    results = []
    for gpu in node.answering():
        text = node.dcgm_failures.get(str(gpu))
        result = {
            "entity_group": "GPU",
            "entity_group_id": 1,
            "entity_id": gpu,
            "status": "Fail" if text else "Pass",
        }
        results.append({**result, "warnings": [_warning(text)]} if text else result)
    summary = {"status": "Fail" if node.dcgm_failures else "Pass"}
    test = {"name": "software", "results": results, "test_summary": summary}
    entities = [{"device_id": "2330", "entity_id": gpu} for gpu in node.answering()]
    return {
        "DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [test]}]},
        "entity_groups": [{"entities": entities, "entity_group": "GPU", "entity_group_id": 1}],
        "metadata": {"Driver Version Detected": node.driver, "version": node.dcgm},
    }


def _third(node: FakeNode) -> dict[str, Any]:
    everyone = ",".join(str(gpu) for gpu in node.answering())
    tests: list[dict[str, Any]] = [
        {"name": name, "results": [{"gpu_ids": everyone, "status": "Pass"}]}
        for name in _SOFTWARE_TESTS
    ]
    for gpu, text in node.dcgm_failures.items():
        failure = {"gpu_ids": gpu, "status": "Fail", "warnings": [_warning(text)]}
        tests.append({"name": "GPU Memory", "results": [failure]})
    diagnostic = {
        "driver_version": node.driver,
        "test_categories": [{"category": "Deployment", "tests": tests}],
        "version": node.dcgm,
    }
    return {"DCGM GPU Diagnostic": diagnostic}
