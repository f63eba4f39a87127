"""scontrol, squeue and scancel that answer what a test wrote down, and note how they were asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.scontrol import ScontrolController

RECORDED = Path(__file__).parents[2] / "data" / "slurm"
MARK = "~MARK~"

_PROGRAM = """#!{python} -I
import json, os, re, sys, time
folder = {folder!r}
name = os.path.basename(sys.argv[0])
line = " ".join([name, *sys.argv[1:]])
with open(folder + "/calls", "a") as calls:
    calls.write(json.dumps({{"argv": [name, *sys.argv[1:]], "env": dict(os.environ)}}) + "\\n")
for pattern, code, out, err, delay in json.load(open(folder + "/answers")):
    if re.search(pattern, line):
        time.sleep(delay)
        format = os.environ.get("SQUEUE_FORMAT2") or os.environ.get("SQUEUE_FORMAT") or ""
        mark = re.search("~[0-9a-f]+~", format)
        sys.stdout.buffer.write(out.replace("~MARK~", mark[0] if mark else "").encode())
        sys.stderr.write(err)
        sys.exit(code)
"""


@dataclass
class Call:
    argv: list[str]
    env: dict[str, str]

    @property
    def line(self) -> str:
        return " ".join(self.argv)


class FakeSlurm:
    """A folder with the three programs. What nobody wrote an answer for succeeds in silence."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self.conf.touch()
        self._answers: list[tuple[str, int, str, str, float]] = []
        self._write()
        program = _PROGRAM.format(python=sys.executable, folder=str(folder))
        for name in ("scontrol", "squeue", "scancel"):
            (folder / name).write_text(program)
            (folder / name).chmod(0o755)

    def answer(
        self, pattern: str, out: str = "", *, code: int = 0, err: str = "", delay: float = 0
    ) -> None:
        """What a command line that matches the pattern prints; the latest answer counts."""
        self._answers.insert(0, (pattern, code, out, err, delay))
        self._write()

    def refuse(self, pattern: str, said: str) -> None:
        self.answer(pattern, code=1, err=said + "\n")

    def replay(self, release: str) -> None:
        """Answer all reads with what a controller of that release printed."""
        folder = RECORDED / release
        for what in ("node", "partition", "reservation"):
            self.answer(f"^scontrol .*show {what}$", (folder / f"{what}s.txt").read_text())
        self.answer("^scontrol show config$", (folder / "config.txt").read_text())
        self.answer("^squeue .*--noconvert$", (folder / "queue.txt").read_text())
        if (folder / "excluded.txt").exists():
            self.answer("^squeue .*--local$", (folder / "excluded.txt").read_text())

    @property
    def calls(self) -> list[Call]:
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [Call(**json.loads(line)) for line in lines]

    @property
    def lines(self) -> list[str]:
        return [call.line for call in self.calls]

    def controller(self, *, host: str = "vm") -> ScontrolController:
        commands = SlurmCommands(bin_dir=str(self.folder), slurm_conf=str(self.conf))
        return ScontrolController(commands, host=host)

    def _write(self) -> None:
        (self.folder / "answers").write_text(json.dumps(self._answers))


def nodes(count: int, first: int = 0) -> Sequence[str]:
    return [f"c1-gx-{index}" for index in range(first, first + count)]
