"""run and reconcile: pass after pass, or a few of them."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slurm_flex.cli.output import print_json, utc_now, warn
from slurm_flex.cli.reading import Json

if TYPE_CHECKING:
    from slurm_flex.cluster.settings import Settings
    from slurm_flex.cycle import Report

_PATIENCE: Final = timedelta(minutes=5)
"""How long a one-shot waits for another one; a daemon is not waited for."""
_DAEMONS_PATIENCE: Final = timedelta(minutes=1)
"""How long a daemon that starts waits for the pass of a one-shot."""


def run() -> None:
    """The daemon: look, decide, act, until SIGTERM. systemd runs it (etc/systemd).

    SIGHUP reads both files again. Logs go to stderr.

    Examples:

      systemctl start slurm-flex

      sudo -u slurm slurm-flex run
    """
    from slurm_flex.acting import check_user, take_lock  # noqa: PLC0415  # slow to import, all
    from slurm_flex.assembly import load_outside, memory_opener  # noqa: PLC0415
    from slurm_flex.cluster.site import load_site  # noqa: PLC0415
    from slurm_flex.cycle import Cycle  # noqa: PLC0415
    from slurm_flex.daemon import Daemon, told_to_end  # noqa: PLC0415
    from slurm_flex.logs import set_up  # noqa: PLC0415
    from slurm_flex.metrics import Metrics  # noqa: PLC0415
    from slurm_flex.publish import Publisher  # noqa: PLC0415
    from slurm_flex.sdnotify import Notifier  # noqa: PLC0415
    from slurm_flex.wake import Ear, poke  # noqa: PLC0415

    settings = load_site(os.environ).settings
    set_up(settings.log_level)
    check_user(settings, os.environ)
    run_dir = Path(settings.run_dir)

    def waits(holder: str) -> None:
        typer.echo(f"slurm-flex: waits for the pass of another one (pid {holder})", err=True)

    patience = timedelta(0) if poke(run_dir) else _DAEMONS_PATIENCE
    with take_lock(run_dir, patience=patience, told=waits), Ear(run_dir) as ear:
        metrics = Metrics() if settings.metrics_port else None
        if metrics is not None:
            metrics.serve(settings.metrics_port)
        notifier = Notifier(os.environ)

        def shall_end() -> bool:
            notifier.still_alive()
            return told_to_end(ear)

        outside = load_outside(os.environ)
        cycle = Cycle(outside, memory_opener(settings), utc_now, shall_end)
        publisher = Publisher(utc_now(), metrics)
        try:
            Daemon(cycle, ear, publisher, notifier, lambda: load_outside(os.environ)).run()
        finally:
            cycle.close()


def reconcile(
    once: Annotated[bool, typer.Option("--once", help="One pass, whatever it finds.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
    as_json: Json = False,
) -> None:
    """Pass after pass until nothing is left to do or on its way; without a daemon.

    Where the daemon runs it is woken instead. Run it as SlurmUser.

    Examples:

      slurm-flex reconcile --dry-run

      sudo -u slurm slurm-flex reconcile --once --json
    """
    if dry_run:
        from slurm_flex.cli.replay import plan  # noqa: PLC0415

        plan(snapshot_file="", as_json=as_json)
        return
    from slurm_flex.acting import check_user  # noqa: PLC0415
    from slurm_flex.cluster.site import load_site  # noqa: PLC0415
    from slurm_flex.logs import set_up  # noqa: PLC0415

    settings = load_site(os.environ).settings
    set_up(settings.log_level)
    check_user(settings, os.environ)
    report = _passes(settings, once)
    if report is None:
        typer.echo("the daemon runs: it was woken and does it", err=True)
        return
    if as_json:
        from slurm_flex.snapshot import dump_actions  # noqa: PLC0415

        print_json(
            {
                "actions": [
                    {**written, "error": result.error or None}
                    for result in report.results
                    for written in dump_actions([result.action])
                ],
                "errors": list(report.errors),
            }
        )
    for error in report.errors:
        warn(error)
    if report.errors:
        raise typer.Exit(1)


def _passes(settings: Settings, once: bool) -> Report | None:
    """None: the daemon runs and was woken, and nothing else had to be opened."""
    from slurm_flex.cycle import Cycle  # noqa: PLC0415
    from slurm_flex.publish import Publisher  # noqa: PLC0415
    from slurm_flex.reconcile import passes  # noqa: PLC0415

    def open_cycle() -> Cycle:
        from slurm_flex.assembly import load_outside, memory_opener  # noqa: PLC0415

        return Cycle(load_outside(os.environ), memory_opener(settings), utc_now)

    publisher = Publisher(utc_now())
    return passes(settings, open_cycle, publisher, time.sleep, once=once, patience=_PATIENCE)
