"""slurm-flex: the commands, and the one place where errors become lines and exit codes.

0: done. 1: something is wrong, and said. 2: called the wrong way. What a command needs is imported
when it runs, so that `slurm-flex --help` and the replay of a snapshot don't wait for Google's
client or for Slurm.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from pathlib import Path
from types import TracebackType
from typing import Annotated

import typer
import typer.main

from slurm_flex.cli import (
    acting,
    beginning,
    explain,
    files,
    others,
    pools,
    provisioning,
    reading,
    replay,
)
from slurm_flex.errors import FlexError
from slurm_flex.folders import give_to_owner
from slurm_flex.hook_site import HookSite

COMPLETION_VARIABLE = "_SLURM_FLEX_COMPLETE"
"""typer's protocol: the shell sets it when it wants completions."""

app = typer.Typer(
    name="slurm-flex",
    help="Slurm power save for Compute Engine Flex-start VMs: no job lost, no VM forgotten, no "
    "wait unexplained.",
    no_args_is_help=True,
    add_completion=COMPLETION_VARIABLE in os.environ,  # two options that nobody needs to see
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

_LOOK = "Look"
_ACT = "Act"
_SETUP = "Set up"
_TRY = "Try out"

for command, panel in (
    (reading.status, _LOOK),
    (reading.nodes, _LOOK),
    (reading.queue, _LOOK),
    (reading.why, _LOOK),
    (reading.events, _LOOK),
    (explain.explain, _LOOK),
    (replay.snapshot, _LOOK),
    (replay.plan, _LOOK),
    (acting.run, _ACT),
    (acting.reconcile, _ACT),
    (pools.pause, _ACT),
    (pools.unpause, _ACT),
    (beginning.init, _SETUP),
    (files.render, _SETUP),
    (provisioning.apply, _SETUP),
    (provisioning.doctor, _SETUP),
    (others.completion, _SETUP),
    (others.demo, _TRY),
):
    app.command(rich_help_panel=panel)(command)
app.command(
    "emulator",
    rich_help_panel=_TRY,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(others.emulator)


@app.callback()
def _everywhere(
    config: Annotated[
        str,
        typer.Option(
            "--config", metavar="FILE", help="The slurm-flex.toml to use (SLURM_FLEX_CONFIG)."
        ),
    ] = "",
) -> None:
    if config:
        os.environ["SLURM_FLEX_CONFIG"] = os.path.abspath(config)  # noqa: PTH100  # no symlinks


def main() -> None:
    """The entry point of the program slurm-flex. Never shows a traceback."""
    sys.excepthook = tell_unforeseen
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """One command; its exit code. What nobody foresaw is raised."""
    try:
        # Not app(): it puts an excepthook of its own in place of ours.
        typer.main.get_command(app)(arguments, prog_name="slurm-flex")
    except FlexError as error:
        typer.echo(_lines(error), err=True)
        return 1
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def tell_unforeseen(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """An excepthook: one line for the reader; the rest into a file that only they can read."""
    details = "".join(traceback.format_exception(kind, error, trace))
    name = _kept(f"slurm-flex {' '.join(sys.argv[1:])}\n{details}")
    said = " ".join(str(error).split())[:200]
    typer.echo(
        f"slurm-flex: unexpected {kind.__name__}: {said} (a defect; details in {name})", err=True
    )


def _lines(error: FlexError) -> str:
    return "\n".join(f"slurm-flex: {line}" for line in str(error).splitlines())


def _kept(text: str) -> str:
    """Where the text lies now: in the state folder, else among temporary files; 0600."""
    state_dir = HookSite(os.environ).state_dir
    for folder in (state_dir, Path(tempfile.gettempdir())):
        try:
            handle, name = tempfile.mkstemp(prefix="error-", suffix=".txt", dir=folder)
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
            give_to_owner(Path(name))
            return name
        except OSError:
            continue
    return "nowhere: no folder could be written"


if __name__ == "__main__":
    main()
