"""One look at a node: which checks apply, what they find, and what that amounts to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Optional

from slurm_flex.health.catalogue import BUILTINS, judge_command
from slurm_flex.health.checkfile import Check
from slurm_flex.health.node import Node, Occasion
from slurm_flex.health.run import Command, Output, run_all
from slurm_flex.health.sight import Judged, Sight
from slurm_flex.health.state import Cursor
from slurm_flex.health.verdict import Finding, Verdict, skipped, unknown


@dataclass(frozen=True)
class Result:
    """One check and what it found; seconds is how long its command took."""

    check: Check
    finding: Finding
    seconds: float = 0.0

    def fails_the_node(self) -> bool:
        """Whether the node must not take a job. Unknown is not bad, unless the site says so."""
        if self.finding.verdict is Verdict.BAD:
            return self.check.on_fail == "drain"
        return self.finding.verdict is Verdict.UNKNOWN and self.check.on_unknown == "drain"


@dataclass(frozen=True)
class Examination:
    """All results of a look in the order of their files, and where the next look begins."""

    results: tuple[Result, ...] = ()
    cursor: Cursor = field(default_factory=Cursor)

    def failures(self) -> tuple[Result, ...]:
        """The results for which the node is to be drained."""
        return tuple(result for result in self.results if result.fails_the_node())


def examine(
    node: Node,
    occasion: Occasion,
    checks: Iterable[Check],
    cursor: Cursor,
    *,
    environ: Mapping[str, str],
    until: float,
) -> Examination:
    """Make every check that applies.

    until: a reading of time.monotonic() by which all commands have ended. The harmless checks run
    at once; then each exclusive one by itself, as long as the node is still thought well.
    """
    due = [c for c in checks if c.enabled and occasion.context in c.contexts]
    excluded = {check.name: _why_not(check, node, occasion) for check in due}
    harmless = [c for c in due if not excluded[c.name] and not c.exclusive]
    look = Examination(cursor=cursor)
    look = _make(look, harmless, node, environ, until)
    for check in due:
        if excluded[check.name] or not check.exclusive:
            continue
        if look.failures():
            excluded[check.name] = "the node has failed already"
            continue
        look = _make(look, [check], node, environ, until)
    made = {result.check.name: result for result in look.results}
    ordered = tuple(
        made.get(check.name) or Result(check, skipped(excluded[check.name] or "")) for check in due
    )
    return replace(look, results=ordered)


def _why_not(check: Check, node: Node, occasion: Occasion) -> str:
    if check.machine_types:
        if node.machine_type is None:
            return "the machine type is not known, and this check is for some only"
        if not any(fnmatchcase(node.machine_type, pattern) for pattern in check.machine_types):
            return f"not for {node.machine_type}"
    if check.exclusive and not occasion.has_whole_node(node):
        return "the job doesn't have the whole node"
    return ""


def _make(
    look: Examination,
    checks: Sequence[Check],
    node: Node,
    environ: Mapping[str, str],
    until: float,
) -> Examination:
    argvs = {check.name: _command_of(check, node) for check in checks}
    commands = [
        Command(argv, check.timeout) for check in checks if (argv := argvs[check.name]) is not None
    ]
    outputs = run_all(commands, environ, until) if commands else {}
    results, cursor = [], look.cursor
    for check in checks:
        argv = argvs[check.name]
        output = outputs[argv] if argv is not None else None
        if time.monotonic() > until:
            judged = Judged(unknown("no time was left for it"), cursor)
        else:
            judged = _judge(check, Sight(node, output, cursor))
        cursor = judged.cursor
        results.append(Result(check, judged.finding, output.seconds if output else 0.0))
    return Examination((*look.results, *results), cursor)


def _command_of(check: Check, node: Node) -> Optional[tuple[str, ...]]:
    if check.builtin is None:
        return check.command
    return BUILTINS[check.builtin].probe(node, check.options)


def _judge(check: Check, sight: Sight) -> Judged:
    if check.builtin is not None:
        return BUILTINS[check.builtin].judge(sight, check.options)
    output = sight.output or Output(status=None, failure="it was not run")
    return Judged(judge_command(output, check.verdict), sight.cursor)
