"""Nodes by way of pyslurm, everything else by way of scontrol and squeue.

The node list is where the library pays: 28-59 ms for 10,000 nodes against 281 ms for scontrol,
while squeue is faster than it for jobs (R 25.11), and a change is one small command either way.
pyslurm doesn't tell a node's InstanceId. The library lives in a child process with a deadline
(see pyslurm_worker); it must be of slurmctld's own release.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import IO, Any, Final

from slurm_flex.cluster.settings import Settings
from slurm_flex.model import Node
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.errors import CommandMissing, ParseError, SlurmctldUnreachable, classify
from slurm_flex.slurm.scontrol import ScontrolController

_WORKER: Final = Path(__file__).with_name("pyslurm_worker.py")


class PyslurmController(ScontrolController):
    """A SlurmController whose node list comes from pyslurm."""

    def __init__(self, commands: SlurmCommands, loader: NodeLoader, *, host: str | None = None):
        super().__init__(commands, host=host)
        self._loader = loader

    @classmethod
    def from_settings(
        cls, settings: Settings, env: Mapping[str, str] | None = None
    ) -> PyslurmController:
        commands = SlurmCommands.from_settings(settings, env)
        return cls(commands, NodeLoader(commands.env, settings.slurm_timeout))

    def _read_nodes(self) -> tuple[Node, ...]:
        return self._loader.load()


class NodeLoader:
    """Owns the child; starts it when it is needed, and anew after it died or was too slow."""

    def __init__(self, env: Mapping[str, str], timeout: timedelta) -> None:
        self._env = dict(env)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._finish: Callable[[], object] | None = None
        self._words: IO[bytes] | None = None
        self._asked = 0

    def load(self) -> tuple[Node, ...]:
        """Every node. Raises SlurmError; a child that gives no good answer is ended."""
        with self._lock:
            try:
                answer = self._ask()
            except BaseException:
                self.close()
                raise
        if "error" in answer:
            raise classify(str(answer["error"]), where="pyslurm")
        return tuple(_node(node) for node in answer["nodes"])

    def close(self) -> None:
        """End the child."""
        if self._finish is not None:
            self._finish()
        self._child = self._finish = None

    def _ask(self) -> dict[str, Any]:
        child = self._running()
        self._asked += 1
        stdin, stdout = child.stdin, child.stdout
        if stdin is None or stdout is None:
            raise CommandMissing("the child has no pipes", where="pyslurm")
        until = time.monotonic() + self._timeout.total_seconds()
        try:
            stdin.write(json.dumps({"id": self._asked}).encode() + b"\n")
            stdin.flush()
            line = _line(stdout.fileno(), until)
        except BrokenPipeError:
            line = b""
        if not line.endswith(b"\n"):
            raise self._died(child)
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise ParseError(f"no JSON: {line[:80]!r}", where="pyslurm") from error
        if not isinstance(answer, dict) or answer.get("id") != self._asked:
            raise ParseError("an answer to another question", where="pyslurm")
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._words = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the child
            self._child = subprocess.Popen(
                [sys.executable, str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                env=self._env,
                start_new_session=True,
            )
            self._finish = weakref.finalize(self, _end, self._child, self._words)
        return self._child

    def _died(self, child: subprocess.Popen[bytes]) -> CommandMissing:
        """What the child said before it ended by itself, as `import pyslurm` may make it."""
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=1)
        said = b""
        if self._words is not None:
            self._words.seek(0)
            said = self._words.read()
        last = said.decode("utf-8", "replace").strip().splitlines()[-1:] or ["without a word"]
        return CommandMissing(
            f"pyslurm ended with {child.returncode}: {last[0][:200]}",
            fix='pip install "slurm-flex[pyslurm]" for slurmctld\'s release, or backend="scontrol"',
        )


def _line(descriptor: int, until: float) -> bytes:
    """One line, or what came before the other end closed. Raises SlurmctldUnreachable."""
    parts: list[bytes] = []
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while not parts or not parts[-1].endswith(b"\n"):
        wait = until - time.monotonic()
        if wait <= 0 or not poll.poll(wait * 1000):
            raise SlurmctldUnreachable("no answer in time", where="pyslurm")
        part = os.read(descriptor, 1 << 20)
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def _end(child: subprocess.Popen[bytes], words: IO[bytes]) -> None:
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    for pipe in (child.stdin, child.stdout, words):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    child.wait()


def _node(loaded: Mapping[str, Any]) -> Node:
    return Node(
        name=loaded["name"],
        state=loaded["state"],
        reason=loaded["reason"] or None,
        reason_time=_time(loaded["reason_time"]),
        reason_user=loaded["reason_user"] if loaded["reason"] else None,
        boot_time=_time(loaded["boot_time"]),
        comment=loaded["comment"] or None,
    )


def _time(seconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, timezone.utc) if seconds else None
