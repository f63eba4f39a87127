"""pause and unpause: stop asking for VMs of a pool, and go on."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Annotated

import typer

from slurm_flex.errors import FlexError

Pool = Annotated[str, typer.Argument(metavar="POOL", help="A node pool of the cluster file.")]


def pause(
    pool: Pool,
    why: Annotated[str, typer.Option(help="For whoever finds it paused.")] = "",
) -> None:
    """Ask for no more VMs of a pool. What is up stays, what goes down goes.

    Examples:

      slurm-flex pause a3u --why "quota is being raised, ticket 4711"
    """
    from slurm_flex.pause import pause as write_pause  # noqa: PLC0415

    settings = _known(pool)
    file = write_pause(settings, pool, f"{getpass.getuser()}: {why or 'no reason given'}")
    _wake()
    typer.echo(f"{pool} is paused ({file}); end it with: slurm-flex unpause {pool}")


def unpause(pool: Pool) -> None:
    """End a pause, and close the pool's breaker if it is open: ask again at once.

    Examples:

      slurm-flex unpause a3u
    """
    from slurm_flex import spool  # noqa: PLC0415
    from slurm_flex.hook_site import HookSite  # noqa: PLC0415
    from slurm_flex.pause import unpause as remove_pause  # noqa: PLC0415

    settings = _known(pool)
    remove_pause(settings, pool)
    run_dir = HookSite(os.environ).run_dir
    try:
        spool.put(run_dir, {"program": "unpause", "pool": pool})
    except OSError as error:
        where = str(run_dir / spool.FOLDER_NAME)
        raise FlexError(
            f"the pause is over, but an open breaker stays open: {error.strerror or error}",
            where=where,
            fix="run it as root, or as the owner of that folder",
        ) from error
    _wake()
    typer.echo(f"{pool} is open; its breaker is closed in the next pass")


def _known(pool: str) -> Path | None:
    """The settings file. Raises FlexError for a pool that the cluster file doesn't have."""
    from slurm_flex.cluster.site import load_site  # noqa: PLC0415

    site = load_site(os.environ)
    if pool not in {one.id for one in site.cluster.compute_pools}:
        known = ", ".join(one.id for one in site.cluster.compute_pools) or "none"
        raise FlexError(f"there is no pool {pool}", fix=f"the pools are {known}")
    return site.settings_path


def _wake() -> None:
    from slurm_flex.hook_site import HookSite  # noqa: PLC0415
    from slurm_flex.wake import poke  # noqa: PLC0415

    poke(HookSite(os.environ).run_dir)
