"""What `scripts/prolog.py`, `scripts/epilog.py` and `scripts/health.py` call."""

from __future__ import annotations

import os
import sys

from slurm_flex.health.look import Outcome, look, set_up, stop_cleanly
from slurm_flex.health.node import occasion_from
from slurm_flex.health.verdict import Verdict


def prolog() -> int:
    """Before a job. 1 on a node that must not have it: Slurm then requeues the job."""
    return 0 if _look("prolog").healthy() else 1


def epilog() -> int:
    """After a job. Always 0: an unfit node has been drained with its reason already, and Slurm
    would add a reason of its own to a failing epilog's node."""
    _look("epilog")
    return 0


def periodic() -> int:
    """Now and then, as HealthCheckProgram. Always 0: slurmd only logs what it exits with."""
    _look("periodic")
    return 0


def _look(context: str) -> Outcome:
    stop_cleanly()
    environ = dict(os.environ)
    outcome = look(set_up(environ), occasion_from(context, environ), environ)
    say(outcome)
    return outcome


def say(outcome: Outcome) -> None:
    """One line on stderr for whatever isn't well: slurmd logs what a failing prolog says."""
    for result in outcome.examination.results:
        if result.finding.verdict in {Verdict.BAD, Verdict.UNKNOWN}:
            verdict = result.finding.verdict.value
            print(f"{result.check.name}: {verdict}: {result.finding.text}", file=sys.stderr)
    if outcome.drained:
        print(f"{outcome.drained.how.value}: {outcome.drained.text}", file=sys.stderr)
    for trouble in outcome.troubles:
        print(trouble, file=sys.stderr)
