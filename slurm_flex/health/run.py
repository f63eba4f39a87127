"""Run the tools, all at once, none longer than it may.

A tool that hangs is told to stop (dcgmi then calls its diagnostic off), and killed a second later
with everything it started: its process group, and whatever left the group but still carries the
mark that we put into its environment. One that can't even be killed (a driver stuck in the
kernel) is left behind: the job must not wait for it.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, Optional

GRACE: Final = timedelta(seconds=1)
LARGEST_OUTPUT: Final = 4 * 1024 * 1024
_MARK: Final = "SLURM_FLEX_HEALTH_RUN"
_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"

# What a tool may know of the job. Comment, extra, paths and the like are the user's own words.
_PASSED_ON: Final = (
    "SLURMD_NODENAME",
    "SLURM_CONF",
    "SLURM_CLUSTER_NAME",
    "SLURM_JOB_ID",
    "SLURM_JOB_UID",
    "SLURM_JOB_GPUS",
    "SLURM_JOB_PARTITION",
)


@dataclass(frozen=True)
class Command:
    """A program with its arguments, and how long it may take."""

    argv: tuple[str, ...]
    timeout: timedelta


@dataclass(frozen=True)
class Output:
    """How a command ended and what it said.

    status: its exit code, negative for the signal that ended it, None if it never started or was
    left behind. hung: it was stopped for taking too long. failure: why it never started.
    """

    status: Optional[int] = 0
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    hung: bool = False
    failure: str = ""
    truncated: bool = False

    def first_line(self) -> str:
        """The first line that says something."""
        for stream in (self.stderr, self.stdout):
            for line in stream.splitlines():
                if line.strip():
                    return line.strip()
        return ""

    def trouble(self) -> str:
        """Why there is no answer to read, in a few words; empty if there may be one."""
        if self.failure:
            return self.failure
        if self.hung:
            return f"no answer within {self.seconds:.0f} s"
        if self.truncated:
            return f"printed more than {LARGEST_OUTPUT // 1024 // 1024} MiB"
        if self.status is not None and self.status < 0:
            return f"ended by signal {-self.status}"
        return ""


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a tool: a PATH, a plain locale, and which node and job it is about."""
    passed = {key: environ[key] for key in _PASSED_ON if key in environ}
    return {"PATH": _PATH, "LC_ALL": "C", "TZ": "UTC", "HOME": "/root", **passed}


def run_all(
    commands: Iterable[Command], environ: Mapping[str, str], until: float
) -> dict[tuple[str, ...], Output]:
    """Run every command at once; each argv runs once.

    until: a reading of time.monotonic() by which everything has ended, killed if need be.
    """
    longest: dict[tuple[str, ...], timedelta] = {}
    for command in commands:
        longest[command.argv] = max(command.timeout, longest.get(command.argv, timedelta()))
    environment = child_environment(environ)
    last_start_of_kill = until - 2 * GRACE.total_seconds()
    outputs: dict[tuple[str, ...], Output] = {}
    children: list[_Child] = []
    with selectors.DefaultSelector() as selector:
        try:
            for argv, timeout in longest.items():
                now = time.monotonic()
                deadline = min(now + timeout.total_seconds(), last_start_of_kill)
                if deadline <= now:
                    outputs[argv] = Output(status=None, failure="no time was left for it")
                    continue
                try:
                    children.append(_Child(argv, environment, deadline, selector))
                except (OSError, ValueError) as error:
                    why = getattr(error, "strerror", None) or str(error)
                    outputs[argv] = Output(status=None, failure=f"can't be run: {why}")
            running = list(children)
            while running:
                _read(selector, max(0.0, min(child.wakes_at() for child in running)))
                running = [child for child in running if not child.move_on(time.monotonic())]
        finally:
            for child in children:
                child.close()
    outputs.update((child.argv, child.output()) for child in children)
    return outputs


def run(command: Command, environ: Mapping[str, str], until: float) -> Output:
    """Run one command."""
    return run_all([command], environ, until)[command.argv]


def _read(selector: selectors.BaseSelector, at: float) -> None:
    for key, _ in selector.select(max(0.0, at - time.monotonic())):
        stream: _Stream = key.data
        if stream.read() is False:
            selector.unregister(key.fileobj)


class _Stream:
    """One end of a pipe and what came through it, up to a limit."""

    def __init__(self, handle: int) -> None:
        os.set_blocking(handle, False)
        self.handle = handle
        self.data = bytearray()
        self.open = True
        self.truncated = False

    def read(self) -> bool:
        """Take what is there now; False once the other end is closed."""
        try:
            chunk = os.read(self.handle, 65536)
        except BlockingIOError:
            return True
        room = LARGEST_OUTPUT - len(self.data)
        self.data += chunk[:room]
        self.truncated = self.truncated or len(chunk) > room
        self.open = bool(chunk)
        return self.open

    def read_the_rest(self) -> None:
        """What a command wrote before it ended; a daemon that holds the pipe isn't waited for."""
        for _ in range(64):
            before = len(self.data)
            if not self.open or not self.read() or len(self.data) == before:
                return

    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class _Child:
    """A running command, from its start until it is reaped or left behind."""

    def __init__(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        deadline: float,
        selector: selectors.BaseSelector,
    ) -> None:
        self.argv = argv
        self._mark = os.urandom(16).hex()
        self._selector = selector
        self._began = time.monotonic()
        self._deadline = deadline
        self._stage = "running"  # then stopping, killed, ended
        self._hung = False
        self._ended_after = 0.0
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, _MARK: self._mark},
            cwd="/",
            start_new_session=True,
        )
        streams = (self._process.stdout, self._process.stderr)
        self._streams = [_Stream(stream.fileno()) for stream in streams if stream is not None]
        for stream in self._streams:
            selector.register(stream.handle, selectors.EVENT_READ, stream)

    def wakes_at(self) -> float:
        """When to look again though nothing is written: soon once its pipes are closed."""
        pause = 0.02 if any(stream.open for stream in self._streams) else 0.002
        return min(self._deadline, time.monotonic() + pause)

    def move_on(self, now: float) -> bool:
        """Go on to the next stage if it is time; True when this child needs no more attention."""
        # WNOWAIT: a zombie keeps its process group's number from being given to another.
        if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            for stream in self._streams:
                stream.read_the_rest()
            self._signal_group(signal.SIGKILL)
            if self._hung:
                self._kill_marked()
            self._ended(now)
            self._process.wait()
        elif now < self._deadline:
            pass
        elif self._stage == "running":
            self._hung = True
            self._signal_group(signal.SIGTERM)
            self._next("stopping", now)
        elif self._stage == "stopping":
            self._signal_group(signal.SIGKILL)
            self._kill_marked()
            self._next("killed", now)
        else:
            self._ended(now)
        return self._stage == "ended"

    def close(self) -> None:
        """Let go: an exception on the way leaves nothing running."""
        if self._stage != "ended":
            self._hung = True
            self._signal_group(signal.SIGKILL)
            self._kill_marked()
            self._ended(time.monotonic())
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        if self._process.poll() is None:
            self._process.returncode = -signal.SIGKILL  # left behind: nobody is to wait for it

    def output(self) -> Output:
        stdout, stderr = self._streams
        return Output(
            status=None if self._hung else self._process.returncode,
            stdout=stdout.text(),
            stderr=stderr.text(),
            seconds=self._ended_after,
            hung=self._hung,
            truncated=stdout.truncated,
        )

    def _next(self, stage: str, now: float) -> None:
        self._stage = stage
        self._ended_after = self._ended_after or now - self._began
        self._deadline = now + GRACE.total_seconds()

    def _ended(self, now: float) -> None:
        self._stage = "ended"
        self._ended_after = self._ended_after or now - self._began
        for stream in self._streams:
            if stream.handle in self._selector.get_map():
                self._selector.unregister(stream.handle)

    def _signal_group(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def _kill_marked(self) -> None:
        """Kill what left the group (setsid) and still has our mark in its environment."""
        for _ in range(3):  # one of them may be forking just now
            mark = f"{_MARK}={self._mark}".encode()
            marked = [pid for pid in _processes() if mark in _environment(pid)]
            for pid in marked:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue
            if not marked:
                return


def _processes() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
