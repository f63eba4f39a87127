"""A RUNNING instance is a real slurmd in its own session; when the VM ends, it and all that it
started are killed without a goodbye."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from slurm_flex.emulator.core.records import Instance
from slurm_flex.emulator.drivers import processes
from slurm_flex.emulator.drivers.base import boot_text
from slurm_flex.errors import FlexError

DEFAULT_ARGV: Final = ("/usr/sbin/slurmd", "-D", "-b", "-N", "{name}")
_TAIL: Final = 64 * 1024
WORDS: Final = ("{name}", "{conf}", "{id}", "{zone}", "{project}", "{address}")


class SlurmdDriver:
    """Starts ``argv`` for each VM, with these words replaced: {name}, {conf} (the file that was
    given), {id}, {zone}, {project}, {address}. The process must stay in the foreground (``-D``).
    Its output is the VM's serial console, kept in ``folder``."""

    def __init__(
        self, folder: Path, *, argv: Sequence[str] = DEFAULT_ARGV, conf: str = "",
        environment: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        if not argv:
            raise FlexError("the slurmd command is empty", fix='a JSON list such as ["slurmd"]')
        self._folder = folder
        self._argv = list(argv)
        self._conf = conf
        self._environment = environment or {}
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def start(self, instance: Instance) -> None:
        """Start the VM's slurmd, unless it runs. A command that can't be run is on its console."""
        child = self._children.get(instance.id)
        if child and child.poll() is None:
            return
        with self._log(instance).open("ab") as log:
            log.write(boot_text(instance).encode())
            log.flush()
            try:
                self._children[instance.id] = subprocess.Popen(
                    self.command(instance),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env=self._env(instance),
                )
            except OSError as error:
                log.write(f"startup failed: {error}\n".encode())

    def command(self, instance: Instance) -> list[str]:
        """The argv for this VM."""
        words = {
            "name": instance.name,
            "conf": self._conf,
            "id": instance.id,
            "zone": instance.zone,
            "project": instance.project,
            "address": instance.address,
        }
        command = []
        for part in self._argv:
            for word, value in words.items():
                part = part.replace("{" + word + "}", value)  # noqa: PLW2901
            command.append(part)
        return command

    def end(self, instances: Sequence[Instance]) -> None:
        """Kill all processes of these VMs. Those that are dead already are fine."""
        ids = {instance.id for instance in instances}
        roots = {c.pid: i for i, c in self._children.items() if i in ids and c.poll() is None}
        dead = processes.kill(ids, roots)
        for id_ in ids:
            child = self._children.pop(id_, None)
            if child is not None:
                child.wait(timeout=5)
        if not dead:
            raise FlexError("processes of ended VMs can't be killed", where=", ".join(sorted(ids)))

    def console(self, instance: Instance) -> str:
        """The last 64 KB of what slurmd and the commands before it printed."""
        try:
            with self._log(instance).open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - _TAIL))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return boot_text(instance)

    def adopt(self, instances: Sequence[Instance], over: Collection[str]) -> None:
        """Start the guests that are not there; those that are, are found by their environment."""
        processes.kill(over)
        running = set(processes.find({instance.id for instance in instances}).values())
        for instance in instances:
            if instance.id not in running:
                self.start(instance)

    def _log(self, instance: Instance) -> Path:
        return self._folder / f"{instance.name}-{instance.id}.console"

    def _env(self, instance: Instance) -> dict[str, str]:
        return {
            **os.environ,
            **self._environment,
            processes.MARKER: instance.id,
            "SLURM_FLEX_VM_NAME": instance.name,
        }
