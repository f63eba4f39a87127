"""A look from its beginning to its consequences: what prolog, epilog and the command line share."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Optional

from slurm_flex.health import checkfile
from slurm_flex.health.catalogue import OPTIONS
from slurm_flex.health.checkfile import Check
from slurm_flex.health.drain import Drain, Drained, drain
from slurm_flex.health.events import Event, Reporter, record
from slurm_flex.health.examine import Examination, examine
from slurm_flex.health.node import Node, Occasion, find_node_file, node_name, read_node
from slurm_flex.health.schema import Problem
from slurm_flex.health.state import load_cursor, save_cursor
from slurm_flex.health.verdict import drain_reason


@dataclass(frozen=True)
class Setup:
    """What was read before looking: the node, its checks, and what is wrong with their files."""

    node: Node
    checks: tuple[Check, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Outcome:
    """What a look found and did. drained is None where there was nothing to drain for."""

    examination: Examination
    drained: Optional[Drained] = None
    opted_out: bool = False
    troubles: tuple[str, ...] = ()

    def healthy(self) -> bool:
        """Whether the node may take a job."""
        return not self.examination.failures()


def set_up(
    environ: Mapping[str, str],
    node_file: Optional[Path] = None,
    folders: Optional[Iterable[Path]] = None,
) -> Setup:
    """Read the node's file and the check files: the shipped ones, the site's, the node's own."""
    name = node_name(environ)
    node, problems = read_node(name, node_file or find_node_file(name, environ))
    if folders is None:
        own = [Path(folder) for folder in node.checks]
        folders = [checkfile.SHIPPED_CHECKS, checkfile.SITE_CHECKS, *own]
    checks, more = checkfile.load_checks(folders, OPTIONS)
    return Setup(node, checks, (*problems, *more))


def look(
    setup: Setup,
    occasion: Occasion,
    environ: Mapping[str, str],
    *,
    act: bool = True,
) -> Outcome:
    """Examine the node and act on it.

    act: drain it if it fails, and put down the events and how far the kernel log was read. The
    latter only once a failure has been acted on, so that one whose drain failed is seen again.
    """
    node, reporter = setup.node, Reporter(datetime.now(timezone.utc), setup.node, occasion)
    told = [reporter.event("HEALTH_CONFIG_ERROR", str(problem)) for problem in setup.problems]
    if node.allow_opt_out and occasion.opted_out():
        told.append(reporter.event("HEALTH_OPTED_OUT", "the job asked for no health checks"))
        return Outcome(Examination(), opted_out=True, troubles=_record(act, node, told))
    until = time.monotonic() + node.budgets[occasion.context].total_seconds()
    cursor = load_cursor(node.state, node.name)
    found = examine(node, occasion, setup.checks, cursor, environ=environ, until=until)
    told += reporter.events_of(found)
    drained = _drain(found, node, occasion, environ) if act else None
    if drained is not None and drained.how is not Drain.DONE:
        kind = "HEALTH_NOTE" if drained.how is Drain.ALREADY else "HEALTH_DRAIN_FAILED"
        told.append(reporter.event(kind, drained.text))
    troubles = list(_record(act, node, told))
    acted_on = drained is None or drained.how is not Drain.FAILED
    if act and acted_on and found.cursor != cursor:
        trouble = save_cursor(node.state, node.name, found.cursor)
        troubles += [trouble] if trouble else []
    return Outcome(found, drained, troubles=tuple(troubles))


def _drain(
    found: Examination, node: Node, occasion: Occasion, environ: Mapping[str, str]
) -> Optional[Drained]:
    failures = found.failures()
    if not failures:
        return None
    others = tuple(result.check.name for result in failures[1:])
    first = failures[0]
    is_part = occasion.has_a_part(node)
    about = (first.check.name, first.finding.text, occasion.context)
    reason = drain_reason(*about, others, is_part=is_part)
    return drain(node, reason, environ)


def _record(act: bool, node: Node, told: list[Event]) -> tuple[str, ...]:
    trouble = record(node.state, told) if act else None
    return (trouble,) if trouble else ()


def stop_cleanly() -> None:
    """When slurmd ends us (a cancelled job, a time limit), end what we started.

    Exit 0: being told to stop says nothing about the node.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
