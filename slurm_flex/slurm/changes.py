"""Change many things with few commands, and find out exactly which of them failed.

Slurm takes a list of nodes as one thing: a bad name fails the whole command, though the others may
have been changed. So a list that failed is halved until the bad ones stand alone; every change may
be repeated. A list of jobs is taken one by one, and each error names its job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from slurm_flex.hostlist import HostlistError, fold, natural_order
from slurm_flex.slurm.command import SlurmCommands, shown
from slurm_flex.slurm.controller import Failure, Failures
from slurm_flex.slurm.errors import (
    CommandMissing,
    ConfigurationBroken,
    InvalidTarget,
    NotSupported,
    PermissionDenied,
    SlurmctldTooSlow,
    SlurmctldUnreachable,
    SlurmError,
    SlurmRefused,
    classify,
)

MOST_AT_ONCE: Final = 500
"""Nodes or jobs in one command: names of 63 characters stay far below the kernel's 128 kB for
one argument, and one command holds slurmctld's locks for a moment only."""
# These say nothing about a single target: asking again with fewer gives the same answer.
_FOR_ALL: Final = (
    SlurmctldUnreachable, PermissionDenied, CommandMissing, ConfigurationBroken, NotSupported,
)  # fmt: skip
# "Invalid job id specified for job 999", "13_1-2: Job is no longer pending execution",
# "Kill job error on job id 3_[1-5%2]: Job can not be altered now, try again later"
_JOB_ERRORS: Final = (
    re.compile(r"(?P<said>.*\S) for job (?P<job>\d+)\S*"),
    re.compile(r"(?:.* on job id )?(?P<job>\d+)(?:[_+]\S+)?: (?P<said>.+)"),
)
_INVALID_STATE: Final = re.compile("invalid node state", re.IGNORECASE)


def change_nodes(
    commands: SlurmCommands,
    nodes: Iterable[str],
    *pairs: str,
    done_if: re.Pattern[str] | None = None,
) -> Failures:
    """``scontrol update nodename=... KEY=VALUE ...`` for all nodes.

    done_if: a refusal in these words means that it is so already.
    """

    def update(names: Sequence[str]) -> None:
        commands.check("scontrol", "update", f"nodename={fold(names)}", *pairs)

    return in_halves(nodes, update, done_if)


def resume_nodes(commands: SlurmCommands, nodes: Iterable[str]) -> Failures:
    """state=resume; slurmctld refuses a node that is neither down nor drained, which is fine."""
    return change_nodes(commands, nodes, "state=resume", done_if=_INVALID_STATE)


def idle_nodes(commands: SlurmCommands, nodes: Iterable[str]) -> Failures:
    """state=idle; slurmctld refuses it for a node that has got a job meanwhile, which is fine."""
    failures = change_nodes(commands, nodes, "state=idle")
    return tuple(one for one in failures if not _is_fine(one.error, _INVALID_STATE))


def in_halves(
    nodes: Iterable[str],
    update: Callable[[Sequence[str]], None],
    done_if: re.Pattern[str] | None = None,
) -> Failures:
    """Update chunks of nodes, and parts of a chunk that failed, until the bad ones stand alone."""
    names, failures = _usable(nodes)
    waiting = [names[start : start + MOST_AT_ONCE] for start in range(0, len(names), MOST_AT_ONCE)]
    while waiting:
        some = waiting.pop(0)
        try:
            update(some)
        except SlurmError as error:
            if done_if is not None and done_if.search(error.what):
                continue
            if isinstance(error, SlurmctldTooSlow):
                failures += [Failure(name, error) for name in some]
                continue
            if isinstance(error, _FOR_ALL):
                some = [*some, *(name for more in waiting for name in more)]
                return (*failures, *(Failure(name, error) for name in some))
            if len(some) == 1:
                failures.append(Failure(some[0], error))
            else:
                middle = len(some) // 2
                waiting[:0] = [some[:middle], some[middle:]]
    return tuple(failures)


def _usable(nodes: Iterable[str]) -> tuple[list[str], list[Failure]]:
    """Each name once, in natural order, and those that can't stand in a command."""
    names: list[str] = []
    failures: list[Failure] = []
    for name in sorted(set(nodes), key=natural_order):
        try:
            fold((name,))
            names.append(name)
        except HostlistError as error:
            failures.append(Failure(name, InvalidTarget(error.what)))
    return names, failures


def change_jobs(
    commands: SlurmCommands,
    jobs: Iterable[int],
    argv: Callable[[str], Sequence[str]],
    *,
    exact: Mapping[int, str],
    done_if: re.Pattern[str] | None = None,
    at_once: int = MOST_AT_ONCE,
) -> Failures:
    """One command for each chunk of jobs. argv gets their ids, joined by commas.

    exact: names to use for ids that mean more than the job (see read_jobs).
    """
    ids = sorted(set(jobs))
    failures: list[Failure] = []
    waiting = [ids[start : start + at_once] for start in range(0, len(ids), at_once)]
    while waiting:
        some = waiting.pop(0)
        try:
            program, *args = argv(",".join(exact.get(job, str(job)) for job in some))
            output = commands.run(program, *args)
        except SlurmctldTooSlow as error:
            failures += [Failure(str(job), error) for job in some]
            continue
        except SlurmError as error:
            some = [*some, *(job for more in waiting for job in more)]
            return (*failures, *(Failure(str(job), error) for job in some))
        if output.code == 0:
            continue
        said = f"{output.stderr}\n{output.stdout}"
        errors = list(_by_job(said, some, shown(program, tuple(args))))
        if errors:
            failures += [one for one in errors if not _is_fine(one.error, done_if)]
            continue
        whole = classify(said, where=shown(program, tuple(args)))
        if _is_fine(whole, done_if):
            continue
        if len(some) == 1:
            failures.append(Failure(str(some[0]), whole))
        else:
            waiting[:0] = [[job] for job in some]
    return tuple(failures)


def _by_job(said: str, jobs: Sequence[int], where: str) -> Iterator[Failure]:
    """The errors that name one of the jobs; an id of ours may stand for an array's tasks."""
    for line in said.splitlines():
        match = next(filter(None, (form.fullmatch(line.strip()) for form in _JOB_ERRORS)), None)
        if match is not None and int(match["job"]) in jobs:
            yield Failure(match["job"], classify(match["said"], where=where))


def _is_fine(error: SlurmError, done_if: re.Pattern[str] | None) -> bool:
    return (
        done_if is not None
        and isinstance(error, SlurmRefused)
        and done_if.search(error.what) is not None
    )
