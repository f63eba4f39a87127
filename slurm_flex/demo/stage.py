"""Where the demo is played: what it says, what it shows, and what it expects to come about."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import zip_longest
from typing import Final, TextIO

from slurm_flex.demo.cloud_view import CloudView
from slurm_flex.demo.commands import SlurmFailed
from slurm_flex.demo.flex_daemon import DaemonFailed
from slurm_flex.demo.world import World
from slurm_flex.durations import humanize
from slurm_flex.hostlist import fold

_POLL: Final = 0.4  # seconds
_SLURM_WIDTH: Final = 47
_SINFO: Final = ("-o", "%9P %.5D %.7t %N")
_SQUEUE: Final = ("-o", "%.5i %.8j %.3t %.5M %.5D %R")


class StoryEnds(Exception):
    """Something expected didn't come about, and without it the rest makes no sense."""


@dataclass(frozen=True)
class Verdict:
    """One expectation and what came of it."""

    what: str
    held: bool
    after: timedelta
    why: str = ""


class Stage:
    """Narrates to ``out``; every line has the time since the beginning."""

    def __init__(self, world: World, began: float, out: TextIO = sys.stdout) -> None:
        self.world = world
        self.verdicts: list[Verdict] = []
        self._began = began
        self._out = out
        self._seen = ""

    def act(self, title: str, text: str) -> None:
        """A new act begins."""
        self._print("")
        self._print(f"=== {title} ===")
        self.say(text)

    def say(self, text: str) -> None:
        """A paragraph."""
        for line in textwrap.wrap(text, 96):
            self._print(f"[{self._clock()}] {line}")

    def typed(self, *words: str) -> None:
        """What somebody types."""
        self._print(f"[{self._clock()}]   $ {' '.join(words)}")

    def shown(self, text: str) -> None:
        """What a command answered."""
        for line in text.splitlines():
            self._print(f"          {line}")

    def show(self) -> None:
        """sinfo and squeue as they are, beside what the cloud holds."""
        cloud = self.world.cloud()
        sinfo = ["$ sinfo", *self.world.slurm.sinfo(*_SINFO).splitlines()]
        squeue = ["$ squeue", *self.world.slurm.squeue(*_SQUEUE).splitlines()]
        held = list(_held(cloud))
        height = max(len(sinfo), len(held) - len(squeue))
        left = [*sinfo, *[""] * (height - len(sinfo)), *squeue]
        self._print("")
        for mine, theirs in zip_longest(left, held, fillvalue=""):
            mine_ = mine.rstrip().replace("\t", " ")
            self._print(f"    {mine_:<{_SLURM_WIDTH}} | {theirs}".rstrip())
        self._print("")

    def expect(
        self, what: str, holds: Callable[[], object], *, within: float, vital: bool = True
    ) -> bool:
        """Wait until it holds, ``within`` seconds, telling what changes meanwhile.

        Raises StoryEnds where it doesn't and it is ``vital``.
        """
        began = time.monotonic()
        why = ""
        held = False
        while not held:
            try:
                self.world.daemon.check()
                held = bool(holds())
            except (SlurmFailed, OSError) as error:
                why = str(error)
            except DaemonFailed as error:
                why = str(error)
                break
            self._tell_what_changed()
            if held or time.monotonic() - began > within:
                break
            time.sleep(_POLL)
        after = timedelta(seconds=time.monotonic() - began)
        self.verdicts.append(Verdict(what, held, after, "" if held else why))
        mark = "ok" if held else "FAILED"
        self._print(f"[{self._clock()}]   {mark:<6} {what} ({after.total_seconds():.1f} s)")
        if not held and vital:
            raise StoryEnds(what)
        return held

    def verdict(self) -> bool:
        """Print what was expected and what came of it. True if all of it held."""
        self._print("")
        self._print("=== Verdict ===")
        for one in self.verdicts:
            self._print(f"  {'ok' if one.held else 'FAILED':<6} {one.what}")
            if one.why:
                self._print(f"         {one.why}")
        failed = sum(not one.held for one in self.verdicts)
        took = humanize(timedelta(seconds=time.monotonic() - self._began))
        if failed:
            self._print(f"{failed} of {len(self.verdicts)} expectations failed, after {took}.")
        else:
            self._print(f"All {len(self.verdicts)} expectations held, in {took}.")
        return not failed

    def _tell_what_changed(self) -> None:
        """One line when a node's state or a VM's has changed since the last look."""
        try:
            nodes = self.world.slurm.sinfo("-h", "-o", "%t %N").splitlines()
            cloud = self.world.cloud()
        except (SlurmFailed, OSError):
            return
        states = ", ".join(f"{line.split()[1]} {line.split()[0]}" for line in sorted(nodes))
        seen = f"{states}  |  {_in_short(cloud)}"
        if seen != self._seen:
            self._seen = seen
            self._print(f"[{self._clock()}]   . {seen}")

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60}:{seconds % 60:02}"

    def _print(self, line: str) -> None:
        print(line, file=self._out, flush=True)


def _in_short(cloud: CloudView) -> str:
    parts = [f"request {name} {cloud.requests[name].state}" for name in cloud.live_requests]
    by_status: dict[str, list[str]] = {}
    for vm in cloud.vms.values():
        by_status.setdefault(vm.status, []).append(vm.name)
    parts += [f"VM {fold(names)} {status}" for status, names in sorted(by_status.items())]
    return ", ".join(parts) or "no VM, no request"


def _held(cloud: CloudView) -> Iterator[str]:
    yield "Compute Engine holds"
    for ask in sorted(cloud.requests.values(), key=lambda ask: ask.name):
        answer = f", last answer {ask.last_attempt}" if ask.last_attempt and ask.is_live else ""
        yield f"request {ask.name} {ask.state} for {fold(ask.nodes)}{answer}"
    for vm in sorted(cloud.vms.values(), key=lambda vm: vm.name):
        ends = ""
        if vm.terminates is not None:
            ends = f", ends in {humanize(vm.terminates - datetime.now(timezone.utc))}"
        yield f"VM {vm.name} {vm.status} (id ..{vm.id[-5:]}){ends}"
    if not cloud.vms:
        yield "no VM"
    yield f"bill so far: {cloud.seconds:.0f} VM seconds"
