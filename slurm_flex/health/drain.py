"""Take the node out of service: scontrol, once, by its absolute path, with a deadline."""

from __future__ import annotations

import enum
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from slurm_flex.health.node import NODE_NAME, Node
from slurm_flex.health.run import Command, run
from slurm_flex.health.verdict import one_line

DEADLINE: Final = timedelta(seconds=10)

_STATE: Final = re.compile(r"(?:^|\s)State=(\S+)")
_OUT_OF_SERVICE: Final = {"DRAIN", "DRAINING", "DRAINED", "DOWN", "FAIL", "FAILING"}


class Drain(enum.Enum):
    """What became of it."""

    DONE = "drained"
    ALREADY = "already out of service"
    FAILED = "the drain failed"


@dataclass(frozen=True)
class Drained:
    """What became of a drain, in a word and a line."""

    how: Drain
    text: str


def drain(node: Node, reason: str, environ: Mapping[str, str]) -> Drained:
    """Drain the node, unless it is out of service already.

    Setting a reason replaces the one that is there. An admin's must stay, so the state is looked
    at before, within the same deadline; a node that can't be looked at isn't touched. (Slurm
    drains it by itself when the prolog fails.)
    """
    scontrol = node.tool("scontrol")
    if scontrol is None:
        return Drained(Drain.FAILED, "there is no scontrol")
    if not NODE_NAME.match(node.name):
        return Drained(Drain.FAILED, f"{node.name!r:.80} is no node name")
    if node.slurm_conf:
        environ = {"SLURM_CONF": node.slurm_conf, **environ}
    until = time.monotonic() + DEADLINE.total_seconds()
    show = Command((scontrol, "--oneliner", "show", "node", node.name), DEADLINE / 2)
    shown = run(show, environ, until)
    if shown.trouble() or shown.status != 0:
        why = shown.trouble() or shown.first_line() or f"exit {shown.status}"
        return Drained(Drain.FAILED, f"scontrol show node: {one_line(why, 120)}")
    match = _STATE.search(shown.stdout)
    flags = set(re.split(r"[^A-Z_]+", match[1].upper())) if match else set()
    if flags & _OUT_OF_SERVICE and match is not None:
        return Drained(Drain.ALREADY, f"it is {match[1]}, and keeps its reason")
    argv = (scontrol, "update", f"nodename={node.name}", "state=drain", f"reason={reason}")
    updated = run(Command(argv, DEADLINE), environ, until)
    if updated.trouble() or updated.status != 0:
        why = updated.trouble() or updated.first_line() or f"exit {updated.status}"
        return Drained(Drain.FAILED, f"scontrol update: {one_line(why, 120)}")
    return Drained(Drain.DONE, reason)
