"""slurm-flex itself as a child of a demo world: started, ended, killed, reloaded."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from slurm_flex.errors import FlexError

_FIRST_PASS: Final = 60.0  # seconds; importing Google's client takes 2 to 4 on a busy machine
_END: Final = 30.0
_TAIL: Final = 40


class DaemonFailed(FlexError):
    """slurm-flex ended by itself, or didn't do what it was told."""


class FlexDaemon:
    """``slurm-flex run`` with a world's settings. prefix: a command that execs what follows it."""

    def __init__(
        self, *, prefix: Sequence[str], env: Mapping[str, str], log: Path, run_dir: Path
    ) -> None:
        self._argv = [*prefix, *FLEX, "run"]
        self._env = dict(env)
        self._run_dir = run_dir
        self._child: subprocess.Popen[bytes] | None = None
        self.log = log

    @property
    def pid(self) -> int | None:
        """None while it isn't meant to run."""
        return self._child.pid if self._child else None

    def start(self) -> None:
        """Start it and wait for the end of its first pass. Raises DaemonFailed with its log."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._argv,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _FIRST_PASS
        while self.status().get("daemon", {}).get("pid") != self.pid:
            self.check()
            if time.monotonic() > deadline:
                self.kill()
                raise DaemonFailed(f"no pass within {_FIRST_PASS:.0f} s:\n{self._tail()}")
            time.sleep(0.05)

    def stop(self) -> int:
        """End it in order (SIGTERM); its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def reload(self) -> None:
        """Let it read its files again (SIGHUP)."""
        if self._child is not None:
            self._child.send_signal(signal.SIGHUP)

    def forget(self) -> None:
        """It was ended by somebody else: collect it."""
        child, self._child = self._child, None
        if child is not None:
            child.wait(_END)

    def check(self) -> None:
        """Raise DaemonFailed if it has ended by itself."""
        if self._child is not None and self._child.poll() is not None:
            code = self._child.returncode
            raise DaemonFailed(f"slurm-flex ended by itself with {code}:\n{self._tail()}")

    def status(self) -> dict[str, Any]:
        """What it tells the world after each pass; empty before the first."""
        try:
            found: dict[str, Any] = json.loads((self._run_dir / "status.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return found

    def _end(self, number: signal.Signals) -> int:
        child, self._child = self._child, None
        if child is None:
            return 0
        child.send_signal(number)
        try:
            return child.wait(_END)
        except subprocess.TimeoutExpired as error:
            child.kill()
            child.wait()
            raise DaemonFailed(
                f"still there {_END:.0f} s after {number.name}:\n{self._tail()}"
            ) from error

    def _tail(self) -> str:
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-_TAIL:])


def make_folders(folder: Path, user: str) -> None:
    """``state`` and ``run``, as systemd makes them for User= of the unit (StateDirectory=, ...)."""
    for name in ("state", "run"):
        (folder / name).mkdir(mode=0o755, parents=True)
        shutil.chown(folder / name, user)


FLEX: Final = (sys.executable, "-m", "slurm_flex.cli.main")
"""The program slurm-flex of this very tree, whatever is installed."""
