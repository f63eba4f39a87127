"""apply and doctor: templates and groups in the cloud, and whether everything fits together."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from slurm_flex.cli.output import print_json, warn
from slurm_flex.cli.reading import Json
from slurm_flex.errors import FlexError


def apply(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the difference, change nothing.")
    ] = False,
    destroy: Annotated[
        bool, typer.Option("--destroy", help="Take down all that is ours, VMs included.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --destroy: don't ask.")] = False,
    as_json: Json = False,
) -> None:
    """Make or mend the template and the managed instance group of each pool, and verify them.

    What others made is never touched. No VM of a compute pool is ended, except with --destroy.

    Examples:

      slurm-flex apply --dry-run

      slurm-flex apply

      slurm-flex apply --destroy
    """
    from slurm_flex.assembly import open_workshop  # noqa: PLC0415  # Google's client: slow
    from slurm_flex.compute.workshop import Stage, StepResult  # noqa: PLC0415

    workshop = open_workshop(os.environ)
    plan = workshop.plan_destroy() if destroy else workshop.plan()
    for note in plan.notes:
        warn(note)
    if dry_run or plan.is_done:
        if as_json:
            print_json({"steps": [step.text for step in plan.steps], "notes": list(plan.notes)})
        else:
            for step in plan.steps:
                typer.echo(f"would {step.text}")
            if plan.is_done:
                typer.echo("nothing is left" if destroy else "all is as the cluster file says")
        return
    if destroy and not yes:
        _ask([step.text for step in plan.steps])

    def tell(result: StepResult) -> None:
        if as_json:
            return
        error = f": {result.error}" if result.error else ""
        typer.echo(f"{result.stage.value}: {result.step.text}{error}", err=bool(error))

    results = workshop.carry_out(plan, tell)
    left = workshop.plan_destroy() if destroy else workshop.plan()
    if as_json:
        steps = [
            {"step": one.step.text, "stage": one.stage.value,
             "error": str(one.error) if one.error else None}
            for one in results
        ]  # fmt: skip
        print_json({"steps": steps, "left": [step.text for step in left.steps]})
    failed = any(one.stage is Stage.FAILED for one in results)
    if left.steps:
        warn(f"{len(left.steps)} steps are left: " + "; ".join(s.text for s in left.steps[:3]))
    elif not as_json:
        typer.echo("verified by reading back")
    if failed or left.steps:
        raise typer.Exit(1)


def _ask(steps: list[str]) -> None:
    """Raises typer.Exit unless a person says yes."""
    for step in steps:
        typer.echo(f"will {step}")
    if not sys.stdin.isatty():
        raise FlexError("--destroy asks before it acts, and there is nobody to ask", fix="--yes")
    if not typer.confirm("Jobs on these VMs will be lost. Go on?"):
        raise typer.Exit(1)


def doctor(as_json: Json = False) -> None:
    """Does everything fit together: files, slurm.conf, permissions, quota, groups, the daemon.

    It changes nothing. What can't be looked at with your rights is skipped and said.

    Examples:

      slurm-flex doctor

      slurm-flex doctor --json | jq '.[] | select(.status == "error")'
    """
    from slurm_flex.cli.output import utc_now  # noqa: PLC0415
    from slurm_flex.cluster.site import load_site  # noqa: PLC0415
    from slurm_flex.doctor.examine import examine, is_fine  # noqa: PLC0415  # Google's client
    from slurm_flex.startup_scripts import StartupScripts  # noqa: PLC0415

    site = load_site(os.environ)
    checks = examine(site, StartupScripts(site.cluster, site.settings), os.environ, utc_now())
    if as_json:
        print_json([check.as_json() for check in checks])
    else:
        for check in checks:
            typer.echo(f"{check.status!s:<8} {check.name}: {check.text}")
            if check.fix:
                typer.echo(f"         -> {check.fix}")
    if not is_fine(checks):
        raise typer.Exit(1)
