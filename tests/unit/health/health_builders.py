"""Builders: a node, a sight of it, an output, and a stand-in scontrol."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_flex.health.catalogue import BUILTINS
from slurm_flex.health.node import Node
from slurm_flex.health.run import Output
from slurm_flex.health.sight import Judged, Sight
from slurm_flex.health.state import Cursor


def judged(
    builtin: str,
    output: Output | None = None,
    *,
    node: Node | None = None,
    cursor: Cursor | None = None,
    **options: Any,
) -> Judged:
    """What a built-in check makes of an output, with its default options but for those given."""
    check = BUILTINS[builtin]
    values = {key: field.default for key, field in check.options.items()}
    sight = Sight(node or Node("n", gpus=8), output, cursor or Cursor())
    return check.judge(sight, {**values, **options})


def finding(builtin: str, output: Output | None = None, **more: Any) -> tuple[str, str]:
    """The verdict's word and its line."""
    found = judged(builtin, output, **more).finding
    return found.verdict.value, found.text


def program(path: Path, text: str) -> Path:
    """An executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


SCONTROL = """#!{python} -IS
import json, os, sys, time
here = {folder!r}
with open(here + "/calls", "a") as calls:
    calls.write(json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ)}}) + "\\n")
plan = json.load(open(here + "/plan"))
time.sleep(plan["sleep"])
if "show" in sys.argv:
    print(plan["show"])
sys.exit(plan["exit"])
"""


class FakeScontrol:
    """A scontrol that writes down how it is called and answers as it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.path = program(
            folder / "scontrol", SCONTROL.format(python="/usr/bin/python3", folder=str(folder))
        )
        self.answers()

    def answers(self, state: str = "IDLE+CLOUD", status: int = 0, sleep: float = 0) -> None:
        show = f"NodeName=n Arch=x86_64 State={state} ThreadsPerCore=1 Reason=(null)"
        plan = {"show": show, "exit": status, "sleep": sleep}
        (self.folder / "plan").write_text(json.dumps(plan))

    def calls(self) -> list[list[str]]:
        return [call["argv"] for call in self._calls()]

    def environments(self) -> list[Mapping[str, str]]:
        return [call["env"] for call in self._calls()]

    def reasons(self) -> list[str]:
        """The reasons of the drains that were asked for."""
        updates = [argv for argv in self.calls() if argv[0] == "update"]
        return [argv[-1].removeprefix("reason=") for argv in updates]

    def _calls(self) -> list[dict[str, Any]]:
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie doesn't)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def with_os_environ(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **more}
