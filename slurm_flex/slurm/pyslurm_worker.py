"""The child that loads nodes with pyslurm: JSON lines in, JSON lines out.

Run as a program, by its path; it needs nothing but the standard library and pyslurm. It stands
alone because `import pyslurm` may end the process (no slurm.conf), and a call holds the
interpreter while slurmctld is silent: no thread of ours may share a process with it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO, Any


def main() -> int:
    # Modules beside this file are none of pyslurm's.
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    # Whatever the library prints must not stand among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import pyslurm  # noqa: PLC0415

    for line in sys.stdin:
        _answer(json.loads(line), pyslurm, answers)
    return 0


def _answer(question: dict[str, Any], pyslurm: Any, answers: IO[str]) -> None:
    try:
        answer: dict[str, Any] = {"nodes": [_node(node) for node in pyslurm.Nodes.load().values()]}
    except pyslurm.RPCError as error:
        answer = {"error": str(error)}
    json.dump({"id": question["id"], **answer}, answers)
    answers.write("\n")
    answers.flush()


def _node(node: Any) -> dict[str, Any]:
    """Times are seconds since the epoch, None or 0 for never."""
    return {
        "name": node.name,
        "state": node.state,
        "reason": node.reason,
        "reason_time": node.reason_time,
        "reason_user": node.reason_user,
        "boot_time": node.boot_time,
        "comment": node.comment,
    }


if __name__ == "__main__":
    sys.exit(main())
