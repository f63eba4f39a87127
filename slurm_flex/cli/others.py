"""Commands that hand over to another program of the project: emulator, demo, completion."""

from __future__ import annotations

import os
import sys
from enum import Enum
from typing import Annotated

import typer

from slurm_flex.errors import FlexError


class Shell(str, Enum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def emulator(context: typer.Context) -> None:
    """Serve Compute Engine on loopback, for tests and trials (`slurm-flex emulator --help`)."""
    from slurm_flex.emulator.__main__ import main as serve  # noqa: PLC0415

    _end_with(serve(list(context.args)))


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster up at the end.")] = False,
    release: Annotated[
        str, typer.Option(help="Of Slurm, like 24.11; empty: the one installed here.")
    ] = "",
) -> None:
    """Play the whole life of a cluster on this machine: a real slurmctld, an emulated cloud.

    Needs root (namespaces of its own) and the packages that `make install` installs.

    Examples:

      make demo

      slurm-flex demo --keep --release 24.11
    """
    from slurm_flex.demo.play import main as play  # noqa: PLC0415

    chosen = [f"--release={release}"] if release else []
    _end_with(play([*chosen, *(["--keep"] if keep else [])]))


def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print what makes the shell complete slurm-flex.

    Examples:

      slurm-flex completion bash >/etc/bash_completion.d/slurm-flex
    """
    os.environ["_SLURM_FLEX_COMPLETE"] = f"source_{shell.value}"
    try:
        os.execv(sys.argv[0], [sys.argv[0]])  # noqa: S606  # this very program, without a shell
    except OSError as error:
        raise FlexError(error.strerror or str(error), where=sys.argv[0]) from error


def _end_with(code: object) -> None:
    if isinstance(code, int) and code:
        raise typer.Exit(code)
