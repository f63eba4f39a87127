"""An emulator as a child process, for tests and the demo; stdlib only."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from slurm_flex.emulator.drivers import processes
from slurm_flex.errors import FlexError

MARKER: Final = "SLURM_FLEX_EMULATOR"
"""In the environment of the child, and so of all guests that it starts."""
Json = dict[str, Any]


class Emulator:
    """``with Emulator(knobs={"capacity": "never"}) as emulator:`` and use ``emulator.url``.

    ``arguments`` are further ones of ``python -m slurm_flex.emulator``; ``prefix`` is a command
    that execs it (nsenter, nice). The child listens on a free port of loopback; after ``kill`` or
    ``stop``, ``start`` brings it back on the same port.
    """

    def __init__(
        self,
        *,
        driver: str = "record",
        knobs: Mapping[str, object] | None = None,
        time_scale: float = 1.0,
        state: Path | str | None = None,
        slurmd_argv: Sequence[str] = (),
        slurmd_conf: Path | str | None = None,
        vm_folder: Path | str | None = None,
        seed: int | None = None,
        port: int = 0,
        arguments: Sequence[str] = (),
        prefix: Sequence[str] = (),
        log: Path | str | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="slurm-flex-emulator-")
        self._log_path = Path(log) if log else Path(self._folder.name, "log")
        self._mark = uuid.uuid4().hex
        self._child: subprocess.Popen[bytes] | None = None
        self.port = port
        self.url = ""
        argv = ["--driver", driver, "--time-scale", str(time_scale), *arguments]
        for name, value in (
            ("--state", state), ("--slurmd-conf", slurmd_conf), ("--vm-folder", vm_folder),
            ("--seed", seed), ("--slurmd-argv", json.dumps(slurmd_argv) if slurmd_argv else None),
        ):  # fmt: skip
            if value is not None:
                argv += [name, str(value)]
        for knob, setting in (knobs or {}).items():
            argv += ["--knob", f"{knob}={json.dumps(setting)}"]
        self._argv = argv
        self._prefix = list(prefix)
        self.knobs = Knobs(self)
        self.faults = Faults(self)

    def __enter__(self) -> Emulator:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        """The child's pid; 0 when it doesn't run."""
        return self._child.pid if self._child else 0

    def start(self, within: float = 30.0) -> None:
        """Start the child and wait until it answers. Raises FlexError with its log."""
        port_file = Path(self._folder.name, "port")
        port_file.unlink(missing_ok=True)
        argv = [*self._prefix, sys.executable, "-m", "slurm_flex.emulator", *self._argv,
                "--port", str(self.port), "--port-file", str(port_file)]  # fmt: skip
        with self._log_path.open("ab") as log:
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, MARKER: self._mark},
            )
        deadline = time.monotonic() + within
        while time.monotonic() < deadline and self._child.poll() is None:
            if port_file.exists():
                self.port = int(port_file.read_text())
                self.url = f"http://127.0.0.1:{self.port}"
                with contextlib.suppress(OSError):
                    self.ask("GET", "health", limit=5)
                    return
            time.sleep(0.02)
        self.kill()
        raise FlexError(f"the emulator didn't start:\n{self.log()}", where=str(self._log_path))

    def stop(self, within: float = 10.0) -> None:
        """End the child (SIGTERM) and all guests of its VMs, also after it was killed."""
        if self._child is not None and self._child.poll() is None:
            with contextlib.suppress(OSError, FlexError):
                self.ask("POST", "end-all", {}, limit=within)
        self._end(signal.SIGTERM, within)
        processes.kill({self._mark}, marker=MARKER)

    def terminate(self, within: float = 10.0) -> None:
        """End the child (SIGTERM); with ``--state`` its guests live on."""
        self._end(signal.SIGTERM, within)

    def kill(self) -> None:
        """SIGKILL the child; guests live on."""
        self._end(signal.SIGKILL, 10)

    def log(self) -> str:
        """What the child printed."""
        return self._log_path.read_text("utf-8", "replace") if self._log_path.exists() else ""

    def billing(self) -> Json:
        """VM seconds: ``{"seconds": total, "instances": [{"name", "id", "seconds", ...}]}``."""
        return self.ask("GET", "billing")

    def world(self) -> Json:
        """Groups, requests, instances, members, operations, in the emulator's own words."""
        return self.ask("GET", "world")

    def advance(self, by: float | str) -> None:
        """Let emulated time pass at once: seconds or a duration such as ``"2h"``."""
        self.ask("POST", "advance", {"by": by})

    def ask(self, verb: str, path: str, body: Json | None = None, limit: float = 30.0) -> Json:
        """A call of the owner's side, below ``/emulator/``. Raises FlexError, OSError."""
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(  # noqa: S310 - our own child on loopback
            f"{self.url}/emulator/{path}", data=data, method=verb,
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=limit) as answer:  # noqa: S310
                found: Json = json.loads(answer.read())
                return found
        except urllib.error.HTTPError as error:
            with error:
                told = json.loads(error.read()).get("error", {})
            raise FlexError(
                told.get("what", str(error)), where=told.get("where", path), fix=told.get("fix", "")
            ) from None

    def _end(self, number: int, within: float) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.send_signal(number)
        try:
            child.wait(within)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(10)


class Knobs:
    """``emulator.knobs.set(boot_delay="2s")``, ``emulator.knobs["boot_delay"]``."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    def set(self, **values: object) -> None:
        """Change knobs while it runs. Raises InputErrors as FlexError."""
        self._emulator.ask("PATCH", "knobs", dict(values))

    def __getitem__(self, name: str) -> Any:
        return self._emulator.ask("GET", "knobs")["knobs"][name]


class Faults:
    """``emulator.faults.set("stockout", zone="us-central1-a", times=3)``; ``clear()``."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    def set(self, name: str, **order: object) -> str:
        """Put a fault in force or let an event happen; returns its id ("" for an event).

        ``for`` is a word of Python: pass ``lasting="30s"`` for it, and ``within`` for ``in``."""
        words = {"lasting": "for", "within": "in"}
        body = {"name": name, **{words.get(key, key): value for key, value in order.items()}}
        fault = self._emulator.ask("POST", "faults", body)["fault"]
        return str(fault["id"]) if fault else ""

    def clear(self, name_or_id: str = "") -> int:
        """Lift one condition by id or name, or all; how many there were."""
        return int(self._emulator.ask("DELETE", f"faults/{name_or_id}")["lifted"])

    def __iter__(self) -> Iterator[Json]:
        return iter(self._emulator.ask("GET", "faults")["faults"])
