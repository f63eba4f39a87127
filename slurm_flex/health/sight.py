"""What a built-in check is given, and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from slurm_flex.health.node import Node
from slurm_flex.health.run import Output
from slurm_flex.health.schema import Field
from slurm_flex.health.state import Cursor
from slurm_flex.health.verdict import Finding

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Sight:
    """What there is to judge by.

    output: what the check's command said; None where it has none, or the tool isn't there.
    cursor: how far the last look got.
    """

    node: Node
    output: Optional[Output] = None
    cursor: Cursor = field(default_factory=Cursor)


@dataclass(frozen=True)
class Judged:
    """A finding, and where the next look begins once this one has been acted on."""

    finding: Finding
    cursor: Cursor


Probe = Callable[[Node, Options], Optional[tuple[str, ...]]]
Judge = Callable[[Sight, Options], Judged]


def no_command(node: Node, options: Options) -> None:
    """The probe of a check that reads files only."""


@dataclass(frozen=True)
class Builtin:
    """A built-in check: the command it needs, if any, and how its output is judged."""

    about: str
    options: Mapping[str, Field]
    judge: Judge
    probe: Probe = no_command


def of_this_moment(judge: Callable[[Sight, Options], Finding]) -> Judge:
    """A check that leaves nothing for the next look."""
    return lambda sight, options: Judged(judge(sight, options), sight.cursor)
