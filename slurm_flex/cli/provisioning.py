"""apply and doctor: templates and groups in the cloud, and whether everything fits together."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from slurm_flex.cli.output import print_json, utc_now, warn
from slurm_flex.cli.reading import Json
from slurm_flex.errors import FlexError

if TYPE_CHECKING:
    from slurm_flex.cluster.site import Site
    from slurm_flex.compute.provision import ProvisionPlan
    from slurm_flex.compute.workshop import StepResult, Workshop


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
    from slurm_flex.cluster.site import load_site  # noqa: PLC0415

    if destroy and as_json and not (yes or dry_run):
        raise FlexError("with --json nobody is asked", fix="--yes, or --dry-run to see it first")
    site = load_site(os.environ)
    workshop = open_workshop(site)
    plan = workshop.plan_destroy() if destroy else workshop.plan()
    notes = [*site.cluster.warnings, *plan.notes, *_who_else_acts(site, destroy=destroy)]
    follows = [] if destroy else _in_slurm(site)
    for note in notes:
        warn(f"note: {note}")
    if not as_json:
        _tell_change(follows)
    if dry_run or plan.is_done:
        fine = _show_plan(plan, notes, follows, destroy=destroy, as_json=as_json)
    else:
        if destroy and not yes:
            _ask([step.text for step in plan.steps])
        fine = _carry_out(workshop, plan, notes, follows, destroy=destroy, as_json=as_json)
    if not fine:
        raise typer.Exit(1)


def _show_plan(
    plan: ProvisionPlan, notes: list[str], follows: list[str], *, destroy: bool, as_json: bool
) -> bool:
    """Whether nothing stands in the way."""
    steps = [step.text for step in plan.steps]
    if as_json:
        print_json({"steps": steps, "notes": notes, "follows": follows})
        return not plan.obstacles
    for step in steps:
        typer.echo(f"would {step}")
    if plan.is_done and not plan.obstacles:
        typer.echo("nothing is left" if destroy else "all is as the cluster file says")
    return not plan.obstacles


def _carry_out(
    workshop: Workshop, plan: ProvisionPlan, notes: list[str], follows: list[str],
    *, destroy: bool, as_json: bool,
) -> bool:  # fmt: skip
    """Whether all was done, by reading back: what something still uses may stay."""
    from slurm_flex.compute.workshop import Stage  # noqa: PLC0415

    results = workshop.carry_out(plan, lambda result: None if as_json else _tell(result))
    again = workshop.plan_destroy() if destroy else workshop.plan()
    kept = {one.step.text for one in results if one.stage is Stage.KEPT}
    left = [step.text for step in again.steps if step.text not in kept]
    if as_json:
        steps = [
            {"step": one.step.text, "stage": one.stage.value,
             "error": str(one.error) if one.error else None}
            for one in results
        ]  # fmt: skip
        print_json({"steps": steps, "left": left, "notes": notes, "follows": follows})
    if left:
        warn(f"{len(left)} steps are left: {'; '.join(left[:3])}")
    elif not as_json:
        typer.echo("verified by reading back")
    failed = any(one.stage is Stage.FAILED for one in results)
    return not (failed or left or again.obstacles)


def _tell(result: StepResult) -> None:
    error = f": {result.error}" if result.error else ""
    failed = result.stage.value == "failed"
    typer.echo(f"{result.stage.value}: {result.step.text}{error}", err=failed)


def _in_slurm(site: Site) -> list[str]:
    """What the next render changes for the nodes; nothing where nothing was rendered yet."""
    from slurm_flex.render.change import change_here  # noqa: PLC0415
    from slurm_flex.render.installed import installed  # noqa: PLC0415

    here = installed(site.settings, os.environ)
    return list(change_here(site.cluster, site.settings, here, here.folder).follows)


def _tell_change(follows: list[str]) -> None:
    if follows:
        typer.echo("in Slurm, by `slurm-flex render` and `systemctl reload slurm-flex`:")
    for line in follows:
        typer.echo(f"  {line}")


def _who_else_acts(site: Site, *, destroy: bool) -> list[str]:
    """A daemon that is alive makes a group anew for the next job, or for a static node."""
    from slurm_flex.doctor.host import is_alive  # noqa: PLC0415

    if destroy and is_alive(site, utc_now()):
        return ["the daemon runs and makes groups anew: systemctl stop slurm-flex"]
    return []


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
    from slurm_flex.cluster.site import load_site  # noqa: PLC0415

    if not show_checks(load_site(os.environ), as_json=as_json):
        raise typer.Exit(1)


def show_checks(site: Site, *, as_json: bool = False) -> bool:
    """Print what the doctor finds; whether nothing is wrong."""
    from slurm_flex.doctor.examine import examine, is_fine  # noqa: PLC0415  # Google's client
    from slurm_flex.startup_scripts import StartupScripts  # noqa: PLC0415

    checks = examine(site, StartupScripts(site.cluster, site.settings), os.environ, utc_now())
    if as_json:
        print_json([check.as_json() for check in checks])
    else:
        for check in checks:
            typer.echo(f"{check.status!s:<8} {check.name}: {check.text}")
            if check.fix:
                typer.echo(f"         -> {check.fix}")
    return is_fine(checks)
