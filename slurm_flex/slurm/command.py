"""Run Slurm's own commands: bounded in time, in one language and one time zone, never a shell."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from slurm_flex.cluster.settings import Settings
from slurm_flex.slurm.errors import (
    CommandMissing,
    ConfigurationBroken,
    SlurmctldTooSlow,
    SlurmctldUnreachable,
    classify,
)

_USUAL_PLACES: Final = ("/usr/bin", "/usr/local/bin", "/opt/slurm/bin")
# A user's variables change what Slurm's commands print; slurmctld's own environment has none.
_UNWANTED: Final = (
    "SLURM_", "SQUEUE_", "SCONTROL_", "SCANCEL_", "SINFO_", "LC_", "LANG", "TZ",
)  # fmt: skip
_REST: Final = 5.0  # seconds for which a slurmctld that didn't answer is left alone
_LAST_WORDS: Final = 2.0  # seconds to collect the output of a killed command


@dataclass(frozen=True)
class Output:
    """What a command printed and its exit code. Text is UTF-8, what isn't is replaced."""

    code: int
    stdout: str
    stderr: str


class SlurmCommands:
    """Runs scontrol, squeue and scancel.

    bin_dir: where they are; empty: on PATH, then in the usual places. slurm_conf: the file they
    use; empty: SLURM_CONF of `env`, or Slurm's built-in path. timeout: for each command.

    After slurmctld has not answered, commands fail at once for a while: each would wait for ten
    seconds or more, and a pass has many. One that was merely too slow is asked once more.
    """

    def __init__(
        self,
        *,
        bin_dir: str = "",
        slurm_conf: str = "",
        timeout: timedelta = timedelta(seconds=20),
        env: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._silence: SlurmctldUnreachable | None = None
        self._silent_until = 0.0
        given = os.environ if env is None else env
        self._slurm_conf = slurm_conf or given.get("SLURM_CONF", "")
        self._timeout = timeout
        path = given.get("PATH", "")
        places = (bin_dir,) if bin_dir else (path, *_USUAL_PLACES)
        self._places = os.pathsep.join(place for place in places if place)
        self._env = {
            **{key: value for key, value in given.items() if not key.startswith(_UNWANTED)},
            "PATH": path or os.pathsep.join((*_USUAL_PLACES, "/bin")),
            "LC_ALL": "C",
            "TZ": "UTC",
        }
        if self._slurm_conf:
            self._env["SLURM_CONF"] = self._slurm_conf

    @classmethod
    def from_settings(
        cls, settings: Settings, env: Mapping[str, str] | None = None
    ) -> SlurmCommands:
        return cls(
            bin_dir=settings.slurm_bin_dir,
            slurm_conf=settings.slurm_conf,
            timeout=settings.slurm_timeout,
            env=env,
        )

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of every child."""
        return self._env

    def run(self, program: str, *args: str, env: Mapping[str, str] | None = None) -> Output:
        """Run one command to its end; a nonzero exit code is the caller's to judge.

        Raises CommandMissing, ConfigurationBroken, and SlurmctldUnreachable.
        """
        if self._silence is not None and self._clock() < self._silent_until:
            raise self._silence
        try:
            output = self._run(program, args, env or {})
            if output.code != 0:
                error = classify(f"{output.stderr}\n{output.stdout}", where=shown(program, args))
                if isinstance(error, SlurmctldUnreachable):
                    raise error
        except SlurmctldUnreachable as error:
            is_first = self._silence is None and isinstance(error, SlurmctldTooSlow)
            self._silence = error
            self._silent_until = self._clock() + (0 if is_first else _REST)
            raise
        self._silence = None
        return output

    def _run(self, program: str, args: tuple[str, ...], env: Mapping[str, str]) -> Output:
        argv = [self.find(program), *args]
        if self._slurm_conf and not Path(self._slurm_conf).is_file():
            # Slurm's commands would look for it for a minute.
            raise ConfigurationBroken(
                "no such file", where=self._slurm_conf, fix="set slurm_conf in slurm-flex.toml"
            )
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**self._env, **env},
                start_new_session=True,
            )
        except OSError as error:
            raise CommandMissing(error.strerror or str(error), where=argv[0]) from error
        try:
            stdout, stderr = child.communicate(timeout=self._timeout.total_seconds())
        except subprocess.TimeoutExpired as error:
            _kill(child)
            raise SlurmctldTooSlow(
                f"no answer within {self._timeout.total_seconds():g} s",
                where=shown(program, args),
                fix="see whether slurmctld runs and is not overloaded: sdiag",
            ) from error
        except BaseException:
            _kill(child)
            raise
        return Output(
            child.returncode,
            stdout.decode("utf-8", "replace"),
            stderr.decode("utf-8", "replace"),
        )

    def check(self, program: str, *args: str, env: Mapping[str, str] | None = None) -> str:
        """Run one command and return what it printed; raise what its failure means."""
        output = self.run(program, *args, env=env)
        if output.code != 0:
            raise classify(output.stderr + "\n" + output.stdout, where=shown(program, args))
        return output.stdout

    def find(self, program: str) -> str:
        """The path of a command. Raises CommandMissing."""
        found = shutil.which(program, path=self._places)
        if found is None:
            raise CommandMissing(
                f"{program} is not in {self._places}",
                fix="install slurm-client, or set slurm_bin_dir in slurm-flex.toml",
            )
        return found


def shown(program: str, args: tuple[str, ...]) -> str:
    """A command as a log line shows it: long hostlists cut short."""
    line = " ".join((program, *args))
    return line if len(line) <= 160 else line[:157] + "..."


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End a command and all it started; a child of its own session could still hold the pipes."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    try:
        child.communicate(timeout=_LAST_WORDS)
    except subprocess.TimeoutExpired:
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        child.wait()
