"""Slurm's own commands against a test cluster, and waiting for what they show."""

from __future__ import annotations

import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from slurm_flex.demo import slurm_text
from slurm_flex.errors import FlexError

T = TypeVar("T")

COMMAND_LIMIT: Final = 70.0  # seconds; a client gives up on a dead controller after about 60
POLL: Final = 0.2  # seconds between two looks at a condition
LOG_TAIL: Final = 60  # lines of each log that a failure shows


class SlurmFailed(FlexError):
    """A Slurm command or daemon of the test cluster ended badly."""


class NotInTime(FlexError):
    """A condition that was waited for didn't come about."""


class Commands(ABC):
    """What a user or an admin of the cluster types, and what they would wait for.

    env: what a Slurm client needs, outside the cluster's world or inside.
    watched: logs (name -> file) of other programs that a failure shows too.
    """

    folder: Path
    log_dir: Path
    env: dict[str, str]
    watched: dict[str, Path]

    @abstractmethod
    def argv(self, program: str, *args: str) -> list[str]:
        """The argv that runs one of Slurm's programs against this cluster."""

    def scontrol(self, *args: str) -> str:
        return self.run("scontrol", *args)

    def squeue(self, *args: str) -> str:
        return self.run("squeue", *args)

    def sinfo(self, *args: str) -> str:
        return self.run("sinfo", *args)

    def scancel(self, *args: str | int) -> str:
        return self.run("scancel", *map(str, args))

    def sbatch(self, *args: str, script: str | None = None) -> int:
        """Submit a job (``"--wrap=..."``, or ``script``) and return its id; see :meth:`output`."""
        given = ["--parsable", f"--output={self.folder}/jobs/%j.out", "--chdir=/tmp", *args]
        return int(self.run("sbatch", *given, stdin=script).split(";")[0])

    def output(self, job: int) -> str:
        """What a job of :meth:`sbatch` has printed so far."""
        path = self.folder / f"jobs/{job}.out"
        return path.read_text() if path.exists() else ""

    def node(self, name: str) -> dict[str, str]:
        """``scontrol show node`` as a dict, as Slurm spells it."""
        return slurm_text.record(self.scontrol("show", "node", "-o", name))

    def flags(self, name: str) -> frozenset[str]:
        """A node's state: ``{"IDLE", "CLOUD", "POWERED_DOWN"}``."""
        return slurm_text.flags(self.node(name)["State"])

    def job(self, job: int) -> dict[str, str]:
        """``scontrol show job`` as a dict, as Slurm spells it."""
        return slurm_text.record(self.scontrol("show", "job", "-o", str(job)))

    def run(self, program: str, *args: str, stdin: str | None = None) -> str:
        """Run a Slurm program and return what it printed. Raises SlurmFailed."""
        done = self.try_run(program, *args, stdin=stdin)
        if done.returncode != 0:
            raise SlurmFailed(
                f"ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}",
                where=" ".join([program, *args]),
            )
        return done.stdout

    def try_run(
        self, program: str, *args: str, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a Slurm program whatever its exit code will be. Raises SlurmFailed if it hangs."""
        try:
            return subprocess.run(
                self.argv(program, *args),
                env=self.env,
                input=stdin or "",
                capture_output=True,
                text=True,
                timeout=COMMAND_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SlurmFailed(
                f"no answer within {COMMAND_LIMIT:.0f} s", where=" ".join([program, *args])
            ) from error

    def wait_for(self, predicate: Callable[[], T], limit: timedelta, what: str) -> T:
        """Ask until the answer is true, and return it; past ``limit`` show the logs and raise.

        Raises NotInTime; whatever the predicate raises passes through.
        """
        until = time.monotonic() + limit.total_seconds()
        while True:
            answer = predicate()
            if answer:
                return answer
            if time.monotonic() > until:
                self.show_logs()
                raise NotInTime(f"not within {limit.total_seconds():.0f} s: {what}")
            time.sleep(POLL)

    def wait_for_node(
        self, name: str, limit: timedelta, *, has: str = "", lacks: str = ""
    ) -> dict[str, str]:
        """Wait until a node's state has all these flags and none of those (``"IDLE+CLOUD"``)."""
        wanted, unwanted = slurm_text.flags(has), slurm_text.flags(lacks)

        def seen() -> dict[str, str]:
            now = self.node(name)
            state = slurm_text.flags(now["State"])
            return now if wanted <= state and not unwanted & state else {}

        without = f" without {lacks}" if lacks else ""
        return self.wait_for(seen, limit, f"node {name} is {has}{without}")

    def wait_for_job(self, job: int, state: str, limit: timedelta) -> dict[str, str]:
        """Wait until a job is in one of these states (``"RUNNING|COMPLETED"``)."""

        def seen() -> dict[str, str]:
            now = self.job(job)
            return now if now["JobState"] in state.split("|") else {}

        return self.wait_for(seen, limit, f"job {job} is {state}")

    def logs(self) -> dict[str, str]:
        """Every log of the cluster by its file's name, with those that are watched."""
        files = {path.name: path for path in sorted(self.log_dir.iterdir())} | self.watched
        return {
            name: path.read_text(errors="replace") for name, path in files.items() if path.exists()
        }

    def show_logs(self) -> None:
        """Print the end of every log to stderr, where a failed test shows it."""
        logs = self.logs()
        for name, text in logs.items():
            if name.endswith(".out") and logs.get(f"{name[:-4]}.log"):
                continue  # what a daemon says before it has opened its log
            print(f"--- {name} ---", *text.splitlines()[-LOG_TAIL:], sep="\n", file=sys.stderr)
