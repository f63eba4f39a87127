"""`python -m slurm_flex.health`: look at this node by hand, or list the checks."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from slurm_flex.health.catalogue import BUILTINS
from slurm_flex.health.checkfile import Check
from slurm_flex.health.look import Outcome, Setup, look, set_up, stop_cleanly
from slurm_flex.health.node import CONTEXTS, occasion_from
from slurm_flex.health.schema import WrongValueError, duration


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Exit 0: healthy; 1: unfit, or (with --list) a file is wrong; 2: usage."""
    options = _parse(arguments)
    environ = dict(os.environ)
    folders = [Path(folder) for folder in options.checks] if options.checks else None
    setup = set_up(environ, options.node_file, folders)
    if options.only:
        chosen = tuple(check for check in setup.checks if check.name in options.only)
        missing = sorted(set(options.only) - {check.name for check in chosen})
        if missing:
            print(f"no check is named {missing[0]}; see --list", file=sys.stderr)
            return 2
        setup = replace(setup, checks=chosen)
    if options.list:
        _list(setup, as_json=options.json)
        return 1 if setup.problems else 0
    if options.budget:
        budgets = {**setup.node.budgets, options.context: options.budget}
        setup = replace(setup, node=replace(setup.node, budgets=budgets))
    stop_cleanly()
    occasion = occasion_from(options.context, environ, alone=options.whole_node)
    outcome = look(setup, occasion, environ, act=not options.dry_run)
    _tell(setup, options.context, outcome, as_json=options.json)
    return 0 if outcome.healthy() or options.context == "epilog" else 1


def _parse(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m slurm_flex.health",
        description="Check this node, and drain it if it is unfit.",
    )
    parser.add_argument("--context", choices=CONTEXTS, default="periodic")
    parser.add_argument("--dry-run", action="store_true", help="look only: no drain, no events")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--list", action="store_true", help="list the checks and their files")
    parser.add_argument("--only", action="append", metavar="CHECK", help="this check only; repeat")
    parser.add_argument(
        "--whole-node",
        action="store_true",
        help="nobody else is on this node: exclusive checks may run",
    )
    parser.add_argument("--budget", type=_duration, help='time for all checks, e.g. "30s"')
    parser.add_argument("--checks", action="append", metavar="FOLDER", help="check files; repeat")
    parser.add_argument("--node-file", type=Path, help="instead of /etc/slurm-flex/node.json")
    return parser.parse_args(arguments)


def _duration(value: str) -> Any:
    try:
        return duration(value)
    except WrongValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from wrong


def _list(setup: Setup, *, as_json: bool) -> None:
    if as_json:
        listed = [_described(check) for check in setup.checks]
        problems = [str(problem) for problem in setup.problems]
        print(json.dumps({"checks": listed, "problems": problems}, indent=2))
        return
    for check in setup.checks:
        described = _described(check)
        print(f"{check.name}: {described['about']}")
        state = "" if check.enabled else ", turned off"
        print(f"    {', '.join(check.contexts)}; {check.on_fail} on failure{state}; {check.file}")
    for problem in setup.problems:
        print(f"wrong: {problem}", file=sys.stderr)


def _described(check: Check) -> dict[str, Any]:
    about = check.description or (BUILTINS[check.builtin].about if check.builtin else "")
    return {
        "name": check.name,
        "about": about,
        "contexts": list(check.contexts),
        "builtin": check.builtin,
        "command": list(check.command) if check.command else None,
        "timeout_seconds": check.timeout.total_seconds(),
        "on_fail": check.on_fail,
        "on_unknown": check.on_unknown,
        "machine_types": list(check.machine_types),
        "exclusive": check.exclusive,
        "enabled": check.enabled,
        "file": check.file,
    }


def _tell(setup: Setup, context: str, outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_as_json(setup, context, outcome), indent=2))
        return
    if outcome.opted_out:
        print("the job opted out of its checks")
    for result in outcome.examination.results:
        print(f"{result.finding.verdict.value:8}{result.check.name}: {result.finding.text}")
        for note in result.finding.notes:
            print(f"        note: {note}")
    if outcome.drained:
        print(f"{outcome.drained.how.value}: {outcome.drained.text}")
    for trouble in (*map(str, setup.problems), *outcome.troubles):
        print(f"wrong: {trouble}", file=sys.stderr)


def _as_json(setup: Setup, context: str, outcome: Outcome) -> dict[str, Any]:
    drained = outcome.drained
    return {
        "node": setup.node.name,
        "context": context,
        "healthy": outcome.healthy(),
        "opted_out": outcome.opted_out,
        "results": [
            {
                "check": result.check.name,
                "verdict": result.finding.verdict.value,
                "text": result.finding.text,
                "notes": list(result.finding.notes),
                "fails_the_node": result.fails_the_node(),
                "seconds": round(result.seconds, 3),
            }
            for result in outcome.examination.results
        ],
        "drained": {"how": drained.how.name.lower(), "text": drained.text} if drained else None,
        "problems": [*map(str, setup.problems), *outcome.troubles],
    }
