"""`dcgmi diag -r 1 -j`, the quick level, read as JSON and never as text.

Its shape over the releases. 2 and 3: "DCGM GPU Diagnostic", results by "gpu_ids" or "gpu_id",
status PASS, FAIL, WARN, SKIP or Pass, Fail, ..., warnings as texts, later as objects. 4: "DCGM
Diagnostic", results by "entity_id", and a "test_summary". A test may be null (NVIDIA/DCGM,
nvvs/tests/JsonResultTests.cpp), and text may come before the first brace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Optional

from slurm_flex.health.node import Node
from slurm_flex.health.run import Output
from slurm_flex.health.sight import Builtin, Options, Sight, of_this_moment
from slurm_flex.health.verdict import Finding, bad, ok, one_line, skipped, unknown

_ROOTS: Final = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
# dcgm_errors.h: 1 "can perform workload, but needs to be monitored", 5 "can be configured"
# (persistence mode off, a variable set). Neither makes a GPU unfit.
_NOT_THE_HARDWARE: Final = frozenset({1, 5})
_NOT_NOW: Final = ("already running", "in use", "mig", "not supported", "unsupported")


@dataclass(frozen=True)
class Outcome:
    """One test on one GPU (or all): its status in lower case, and what was said about it."""

    test: str
    where: str
    status: str
    texts: tuple[str, ...]
    severities: tuple[Optional[int], ...]

    def __str__(self) -> str:
        said = f": {self.texts[0]}" if self.texts else ""
        return f"{self.test}{f' on GPU {self.where}' if self.where else ''}{said}"

    def is_failure(self) -> bool:
        """A failure that no setting of the node's explains."""
        explained = self.severities and set(self.severities) <= _NOT_THE_HARDWARE
        return self.status.startswith("fail") and not explained


def parse_diag(text: str) -> Optional[tuple[list[Outcome], str]]:
    """The outcomes and the runtime error of a diagnostic; None if this isn't one."""
    try:
        data, _ = json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))
    except (ValueError, RecursionError):
        return None
    root = next((data[key] for key in _ROOTS if key in data), None) if _is(data, dict) else None
    if not isinstance(root, dict):
        return None
    error = root.get("runtime_error") or root.get("error") or ""
    return list(_outcomes(root)), one_line(str(error), 120)


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind)


def _items(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _outcomes(root: dict[str, Any]) -> Iterator[Outcome]:
    for category in _items(root.get("test_categories")):
        for test in _items(category.get("tests")):
            name = one_line(str(test.get("name", "a test")), 40)
            results = _items(test.get("results"))
            summary = test.get("test_summary")
            if isinstance(summary, dict) and not any(_status(r) == "fail" for r in results):
                results = [*results, summary]
            for result in results:
                texts, severities = _warnings(result.get("warnings"))
                yield Outcome(name, _where(result), _status(result), texts, severities)


def _status(result: dict[str, Any]) -> str:
    return str(result.get("status", "")).strip().lower()


def _where(result: dict[str, Any]) -> str:
    for key in ("entity_id", "gpu_id", "gpu_ids"):
        if isinstance(result.get(key), (int, str)) and str(result[key]).count(",") < 1:
            return one_line(str(result[key]), 10)
    return ""


def _warnings(value: object) -> tuple[tuple[str, ...], tuple[Optional[int], ...]]:
    texts, severities = [], []
    for warning in value if isinstance(value, list) else [value] if value else []:
        if isinstance(warning, dict):
            severity = warning.get("error_severity")
            texts.append(one_line(str(warning.get("warning", "")), 120))
            severities.append(severity if isinstance(severity, int) else None)
        else:
            texts.append(one_line(str(warning), 120))
            severities.append(None)
    return tuple(filter(None, texts)), tuple(severities)


def judge_diag(output: Output) -> Finding:
    """What a diagnostic says of the node."""
    if output.trouble():
        return unknown(f"dcgmi: {output.trouble()}")
    parsed = parse_diag(output.stdout)
    if parsed is None:
        said = one_line(output.first_line(), 120) or f"exit {output.status}, and nothing said"
        return unknown(f"dcgmi gave no result: {said}")
    outcomes, error = parsed
    failures = [outcome for outcome in outcomes if outcome.is_failure()]
    notes = [
        f"{outcome} ({outcome.status})"
        for outcome in outcomes
        if outcome.status.startswith(("fail", "warn")) and not outcome.is_failure()
    ][:20]
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        return bad(f"{failures[0]}{more}", *notes)
    if error:
        how = skipped if any(word in error.lower() for word in _NOT_NOW) else unknown
        return how(f"dcgmi: {error}", *notes)
    statuses = {outcome.status for outcome in outcomes}
    if statuses <= {"skip", "skipped", "not run", ""}:
        return unknown("dcgmi ran no test", *notes)
    if output.status != 0 and not notes:
        return unknown(f"dcgmi reports no failure, but exits {output.status}")
    return ok("the quick diagnostic passes", *notes)


def _probe(node: Node, options: Options) -> Optional[tuple[str, ...]]:  # noqa: ARG001
    tool = node.tool("dcgmi")
    return (tool, "diag", "-r", "1", "-j") if tool and node.expected_gpus() else None


def _judge(sight: Sight, options: Options) -> Finding:  # noqa: ARG001
    if not sight.node.expected_gpus():
        return skipped("no GPU is expected here")
    return judge_diag(sight.output) if sight.output else skipped("dcgmi is not installed")


DCGM = Builtin(
    about="DCGM's quick diagnostic passes, where dcgmi is installed",
    options={},
    probe=_probe,
    judge=of_this_moment(_judge),
)
