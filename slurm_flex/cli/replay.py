"""snapshot and plan: a moment in a file, and what would be done about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slurm_flex.cli.output import print_json, print_table, warn
from slurm_flex.cli.reading import Json
from slurm_flex.errors import FlexError

if TYPE_CHECKING:
    from slurm_flex.actions import Action
    from slurm_flex.model import Memory, Snapshot


def snapshot(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Write it there; - is stdout.")
    ] = "-",
) -> None:
    """Write what a pass would see right now, with the memory: a bug report in one file.

    It needs the rights of the daemon (Slurm, the cloud, the state folder) and changes nothing.

    Examples:

      slurm-flex snapshot >moment.json

      slurm-flex plan --snapshot moment.json
    """
    import json  # noqa: PLC0415

    from slurm_flex.snapshot import dump_snapshot  # noqa: PLC0415

    seen, memory = _observe_live()
    text = json.dumps(dump_snapshot(seen, memory), indent=1, ensure_ascii=False) + "\n"
    if output == "-":
        typer.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FlexError(error.strerror or str(error), where=output) from error


def plan(
    snapshot_file: Annotated[
        str, typer.Option("--snapshot", metavar="FILE", help="A snapshot to plan for; - is stdin.")
    ] = "",
    as_json: Json = False,
) -> None:
    """What would be done, and why. Nothing is.

    With a snapshot it needs no Slurm, no cloud and no settings: the snapshot has it all. Feed the
    memory that --json prints to the next snapshot to play passes in a row.

    Examples:

      slurm-flex plan

      slurm-flex plan --snapshot moment.json --json

      slurm-flex plan --snapshot - <moment.json
    """
    from slurm_flex.plan import plan as decide  # noqa: PLC0415
    from slurm_flex.snapshot import dump_actions, dump_memory  # noqa: PLC0415

    seen, memory = _replayed(snapshot_file) if snapshot_file else _observe_live()
    actions, after = decide(seen, memory)
    if as_json:
        print_json({"actions": dump_actions(actions), "memory": dump_memory(after)})
    else:
        print_actions(actions)


def print_actions(actions: Sequence[Action]) -> None:
    """A table of actions in the order in which they are applied."""
    from slurm_flex.snapshot import dump_actions  # noqa: PLC0415

    rows = [_row(action) for action in dump_actions(actions)]
    print_table(("DO", "ON", "WITH", "WHY"), rows, empty="nothing to do")


def _row(action: dict[str, Any]) -> tuple[object, ...]:
    whom = action.get("nodes") or action.get("job") or action.get("name") or action.get("pool")
    named = {"do", "why", "nodes" if action.get("nodes") else "job"}
    details = " ".join(
        f"{key}={value}" for key, value in action.items() if key not in named and value is not None
    )
    return action["do"], whom, details, action["why"]


def _replayed(file: str) -> tuple[Snapshot, Memory]:
    from slurm_flex.snapshot import load_snapshot  # noqa: PLC0415

    if file == "-":
        return load_snapshot(sys.stdin.buffer.read(), source="stdin")
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise FlexError(error.strerror or str(error), where=file) from error
    return load_snapshot(content, source=file)


def _observe_live() -> tuple[Snapshot, Memory]:
    """What a pass would see now. Says so if the memory on the disk can't be read by us."""
    from slurm_flex.assembly import look_once  # noqa: PLC0415  # slow to import

    look = look_once(os.environ)
    if look.complaint:
        warn(look.complaint)
    return look.snapshot, look.memory
