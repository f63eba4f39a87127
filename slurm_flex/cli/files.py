"""render: what Slurm's configuration takes from the cluster file and the settings."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slurm_flex.cli.output import print_json, warn
from slurm_flex.cli.reading import Json
from slurm_flex.errors import FlexError

if TYPE_CHECKING:
    from slurm_flex.cluster.site import Site
    from slurm_flex.render.change import Change
    from slurm_flex.render.files import Written
    from slurm_flex.render.installed import Installed


def render(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Only say what in slurm.conf doesn't fit.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="A whole slurm.conf as well, for a fresh controller.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of the cluster file.")
    ] = False,
    show: Annotated[bool, typer.Option("--print", help="Print it, write nothing.")] = False,
    release: Annotated[
        str, typer.Option(help="For this release of Slurm; empty: the one installed here.")
    ] = "",
    folder: Annotated[str, typer.Option(help="Where to; empty: the folder of slurm.conf.")] = "",
    as_json: Json = False,
) -> None:
    """Write slurm.conf's part of the cluster file: nodes, partitions, power saving.

    It says what follows for the nodes. A node that runs is never taken out of slurm.conf, and a
    file that somebody else wrote is left alone.

    Examples:

      slurm-flex render

      slurm-flex render --check

      slurm-flex render --print --release 24.11

      slurm-flex render --schema >cluster_config.schema.json
    """
    if schema:
        from slurm_flex.render.json_schema import schema_text  # noqa: PLC0415

        typer.echo(schema_text(), nl=False)
        return
    from slurm_flex.cluster.site import load_site  # noqa: PLC0415
    from slurm_flex.render.change import change_here  # noqa: PLC0415
    from slurm_flex.render.installed import installed  # noqa: PLC0415

    site = load_site(os.environ)
    here = installed(site.settings, os.environ)
    wanted = release or installed_release(here)
    if check:
        findings = show_findings(site, here, wanted, as_json=as_json)
        if findings:
            raise typer.Exit(1)
        return
    place = Path(folder) if folder else here.folder
    change = change_here(site.cluster, site.settings, here, place)
    notes = [*site.cluster.warnings, *change.notes]
    for note in notes:
        warn(f"note: {note}")
    files = _rendered(site, wanted, change, full=full)
    if show:
        _print_files(files, change, as_json=as_json)
        return
    if not as_json:
        for line in change.follows:
            typer.echo(line)
    from slurm_flex.render.files import write_files  # noqa: PLC0415

    written = write_files(files, place)
    steps = list(_next_steps(written, here, wanted, change)) if place == here.folder else []
    if as_json:
        paths = [{"path": str(one.path), "outcome": one.outcome} for one in written]
        follows = list(change.follows)
        print_json({"files": paths, "follows": follows, "notes": notes, "next": steps})
        return
    for one in written:
        typer.echo(f"{one.outcome}: {one.path}{_why_left(one)}")
    for step in steps:
        typer.echo(f"next: {step}")


def _rendered(site: Site, release: str, change: Change, *, full: bool) -> dict[str, str]:
    from slurm_flex.render.conf import render_slurm_conf  # noqa: PLC0415
    from slurm_flex.render.full import render_full  # noqa: PLC0415

    if full:
        host = socket.gethostname().split(".")[0]
        return render_full(site.cluster, site.settings, release, host, change.leaving)
    return render_slurm_conf(site.cluster, site.settings, release, change.leaving)


def _print_files(files: dict[str, str], change: Change, *, as_json: bool) -> None:
    if as_json:
        print_json(files)
        return
    for line in change.follows:
        typer.echo(line, err=True)
    for name, text in files.items():
        typer.echo(f"# ===== {name} =====\n{text}")


def _why_left(one: Written) -> str:
    if one.outcome != "left alone":
        return ""
    return " (it isn't slurm-flex's; `slurm-flex render --check` says what it lacks)"


def _next_steps(
    written: list[Written], here: Installed, release: str, change: Change
) -> Iterator[str]:
    """What is left to do on this host; nothing where nothing was written."""
    from slurm_flex.cluster.slurm_keys import parse_release  # noqa: PLC0415
    from slurm_flex.render.change import how_to_take_in  # noqa: PLC0415
    from slurm_flex.render.names import MAIN_FILE  # noqa: PLC0415
    from slurm_flex.render.site_check import includes_ours  # noqa: PLC0415

    new = {one.path for one in written if one.outcome == "written"}
    if not new:
        return
    included = includes_ours(here.slurm_conf)
    if not included:
        yield f"write `Include {MAIN_FILE}` into {here.slurm_conf}"
    yield "slurm-flex render --check"
    if here.slurm_conf in new:
        yield "systemctl restart slurmctld"
    else:
        change_of_nodes = change.nodes_change or not included
        yield how_to_take_in(parse_release(release), nodes_change=change_of_nodes)
    if change.follows:
        yield "systemctl reload slurm-flex"


def show_findings(site: Site, here: Installed, release: str, *, as_json: bool = False) -> bool:
    """Print what `render --check` finds; whether any of it must change."""
    from slurm_flex.render.site_check import check_here  # noqa: PLC0415

    findings = check_here(site.cluster, site.settings, here, release)
    if as_json:
        print_json(
            [
                {"what": one.what, "where": one.where, "line": one.line, "why": one.why,
                 "instead_of": one.instead_of, "needed": one.needed}
                for one in findings
            ]
        )  # fmt: skip
    else:
        for note in site.cluster.warnings:
            warn(f"note: {note}")
        for one in findings:
            typer.echo(f"{'must' if one.needed else 'may'} change: {one}")
        if not findings:
            typer.echo(f"{here.slurm_conf} fits")
    return any(one.needed for one in findings)


def installed_release(here: Installed) -> str:
    """The release of the scontrol of this host. Raises FlexError that says what to do without."""
    try:
        return str(here.release())
    except FlexError as error:
        fix = "name one: --release 24.11"
        raise FlexError(f"no Slurm is installed here: {error.what}", fix=fix) from error
