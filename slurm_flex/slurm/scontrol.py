"""slurmctld by way of scontrol, squeue and scancel: Slurm 22.05 and later, no library."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

from slurm_flex.cluster.settings import Settings
from slurm_flex.hostlist import HostlistError, fold
from slurm_flex.model import Node, Slurm
from slurm_flex.slurm.changes import change_jobs, change_nodes, idle_nodes, resume_nodes
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.controller import Failure, Failures
from slurm_flex.slurm.draining import drain_nodes
from slurm_flex.slurm.errors import InvalidTarget, NotSupported, ParseError, SlurmError
from slurm_flex.slurm.extra import Extras
from slurm_flex.slurm.records import (
    parse_nodes,
    parse_partitions,
    parse_ping,
    parse_reservations,
    parse_settings_shown,
)
from slurm_flex.slurm.reservations import from_now, reserve, unreserve
from slurm_flex.slurm.squeue import read_jobs
from slurm_flex.slurm.values import parse_config, parse_release
from slurm_flex.text import one_line

_PENDING: Final = re.compile("job is pending execution", re.IGNORECASE)
_STARTED: Final = re.compile("no longer pending execution", re.IGNORECASE)
_FINISHED: Final = re.compile("job has already finished", re.IGNORECASE)
_NOT_RUNNING: Final = re.compile(
    f"presently disabled|job is pending|{_FINISHED.pattern}", re.IGNORECASE
)
_HOW: Final = {"plain": "power_down", "asap": "power_down_asap", "force": "power_down_force"}
_NODES_SHOWN: Final = (23, 2)


class ScontrolController:
    """A SlurmController; every command is one child process with a deadline.

    host: the name of this machine as slurm.conf has it, to know whether slurmctld acts here.
    """

    def __init__(self, commands: SlurmCommands, *, host: str | None = None) -> None:
        self._commands = commands
        self._host = (host or socket.gethostname()).partition(".")[0]
        self._notices: tuple[SlurmError, ...] = ()
        self._extras = Extras(commands)
        self._exact: Mapping[int, str] = {}

    @classmethod
    def from_settings(
        cls, settings: Settings, env: Mapping[str, str] | None = None
    ) -> ScontrolController:
        return cls(SlurmCommands.from_settings(settings, env))

    @property
    def notices(self) -> tuple[SlurmError, ...]:
        return self._notices

    def read(self) -> Slurm:
        """Five commands, a sixth before 24.11: config (with ping), nodes, jobs, the rest.

        One more where a job turns up that would outlast its node: what it said in --extra.
        """
        text = self._scontrol("show", "config")
        config = parse_settings_shown(text)
        version = config.get("SLURM_VERSION")
        release = parse_release(version)
        nodes = self._read_nodes()
        jobs, self._exact = read_jobs(self._commands, release)
        partitions = parse_partitions(self._scontrol("--all", "-o", "show", "partition"))
        reservations = parse_reservations(self._scontrol("-o", "show", "reservation"))
        jobs = self._extras.add_to(jobs, reservations, release)
        try:
            known_config = parse_config(config)
        except ValueError as error:
            raise ParseError(str(error), where="scontrol show config") from error
        slurm = Slurm(
            version=version,
            responding=True,
            primary=self._acts_here(text),
            config=known_config,
            nodes=nodes,
            jobs=jobs,
            partitions=partitions,
            reservations=reservations,
        )
        unread = self._extras.error
        self._notices = (
            *_hidden_nodes(slurm, release, config.get("PrivateData", "")),
            *(() if unread is None else (unread,)),
        )
        return slurm

    def _read_nodes(self) -> tuple[Node, ...]:
        return parse_nodes(self._scontrol("--all", "-o", "show", "node"))

    def node_down(self, nodes: Iterable[str], reason: str) -> Failures:
        return self._update_nodes(nodes, "state=down", _reason(reason))

    def node_drain(self, nodes: Iterable[str], reason: str) -> Failures:
        return drain_nodes(self._commands, nodes, _reason(reason))

    def node_undrain(self, nodes: Iterable[str]) -> Failures:
        return self._update_nodes(nodes, "state=undrain")

    def node_resume(self, nodes: Iterable[str]) -> Failures:
        return resume_nodes(self._commands, nodes)

    def node_idle(self, nodes: Iterable[str]) -> Failures:
        return idle_nodes(self._commands, nodes)

    def node_power_up(self, nodes: Iterable[str]) -> Failures:
        return self._update_nodes(nodes, "state=power_up")

    def node_power_down(
        self, nodes: Iterable[str], how: Literal["plain", "asap", "force"], reason: str
    ) -> Failures:
        return self._update_nodes(nodes, f"state={_HOW[how]}", _reason(reason))

    def node_comment(self, nodes: Iterable[str], text: str) -> Failures:
        return self._update_nodes(nodes, f"comment={_value(text)}")

    def suspend_exclude(self, nodes: Iterable[str]) -> Failures:
        names = list(nodes)
        try:
            self._scontrol("update", f"SuspendExcNodes+={fold(names)}")
        except NotSupported:
            too_old = NotSupported(
                "this release can't change SuspendExcNodes while slurmctld runs",
                fix="write it into slurm.conf, or use Slurm 23.02 or later",
            )
            return tuple(Failure(name, too_old) for name in names)
        except (SlurmError, HostlistError) as error:
            return tuple(Failure(name, _slurm_error(error)) for name in names)
        return ()

    def job_comment(self, jobs: Iterable[int], text: str) -> Failures:
        # A job may end while it is spoken of, and needs no story then.
        return self._update_jobs(jobs, f"admincomment={_value(text)}", done_if=_FINISHED)

    def job_start(self, jobs: Iterable[int], after: timedelta = timedelta(0)) -> Failures:
        return self._update_jobs(jobs, f"starttime={from_now(after)}", done_if=_STARTED)

    def job_requeue(self, jobs: Iterable[int]) -> Failures:
        return self._tell_jobs(jobs, lambda ids: ("scontrol", "requeue", ids), done_if=_PENDING)

    def job_hold(self, jobs: Iterable[int]) -> Failures:
        return self._tell_jobs(jobs, lambda ids: ("scontrol", "hold", ids))

    def job_release(self, jobs: Iterable[int]) -> Failures:
        return self._tell_jobs(jobs, lambda ids: ("scontrol", "release", ids))

    def job_signal(self, jobs: Iterable[int], signal: str) -> Failures:
        # Without --state scancel tries for 95 s to reach a job that is pending (R 22.05, 24.11).
        command = ("scancel", "--batch", "--state=RUNNING", f"--signal={signal.removeprefix('B:')}")
        return self._tell_jobs(jobs, lambda ids: (*command, *ids.split(",")), done_if=_NOT_RUNNING)

    def job_notify(self, jobs: Iterable[int], text: str) -> Failures:
        words = _value(text).lstrip("-") or " "
        return self._tell_jobs(
            jobs,
            lambda ids: ("scontrol", "notify", ids, words),
            done_if=_NOT_RUNNING,
            at_once=1,  # it takes one id only
        )

    def reserve(
        self, name: str, nodes: Iterable[str], start: datetime, end: datetime, now: datetime
    ) -> Failures:
        try:
            reserve(self._commands, name, fold(nodes), start - now, end - now)
        except (SlurmError, HostlistError) as error:
            return (Failure(name, _slurm_error(error)),)
        return ()

    def unreserve(self, names: Iterable[str]) -> Failures:
        failures: list[Failure] = []
        for name in sorted(set(names)):
            try:
                unreserve(self._commands, name)
            except SlurmError as error:
                failures.append(Failure(name, error))
        return tuple(failures)

    def _acts_here(self, text: str) -> bool:
        """A lone controller may be asked from anywhere; of several the first that is up acts."""
        controllers = parse_ping(text)
        acting = next((host for host, is_up in controllers if is_up), None)
        if len(controllers) < 2 or acting is None:
            return True
        return acting.partition(".")[0] == self._host

    def _scontrol(self, *args: str) -> str:
        return self._commands.check("scontrol", *args)

    def _update_nodes(self, nodes: Iterable[str], *pairs: str) -> Failures:
        return change_nodes(self._commands, nodes, *pairs)

    def _update_jobs(
        self, jobs: Iterable[int], pair: str, done_if: re.Pattern[str] | None = None
    ) -> Failures:
        return self._tell_jobs(
            jobs, lambda ids: ("scontrol", "update", f"jobid={ids}", pair), done_if=done_if
        )

    def _tell_jobs(
        self,
        jobs: Iterable[int],
        argv: Callable[[str], tuple[str, ...]],
        done_if: re.Pattern[str] | None = None,
        at_once: int = 200,
    ) -> Failures:
        return change_jobs(
            self._commands, jobs, argv, exact=self._exact, done_if=done_if, at_once=at_once
        )


def _hidden_nodes(
    slurm: Slurm, release: tuple[int, int], private_data: str
) -> tuple[SlurmError, ...]:
    """Before 23.02 a CLOUD node that is off is shown to nobody without PrivateData=cloud."""
    if release >= _NODES_SHOWN or "cloud" in private_data:
        return ()
    shown = {node.name for node in slurm.nodes}
    hidden = {name for part in slurm.partitions for name in part.nodes} - shown
    if not hidden:
        return ()
    return (
        NotSupported(
            f"Slurm {slurm.version} hides nodes that are off: {one_line(fold(hidden))}",
            where="slurm.conf",
            fix="add PrivateData=cloud; until then nothing is done for them",
        ),
    )


def _slurm_error(error: SlurmError | HostlistError) -> SlurmError:
    return error if isinstance(error, SlurmError) else InvalidTarget(error.what)


def _value(text: str) -> str:
    """One harmless line. scontrol strips a double quote from the ends of a reason (R 22.05)."""
    return one_line(text.replace('"', "'"))


def _reason(text: str) -> str:
    return f"reason={_value(text) or 'slurm-flex: no reason given'}"
