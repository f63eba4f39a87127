"""init, render: the cluster file, the settings, and what Slurm's configuration takes from them."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slurm_flex.cli.output import print_json
from slurm_flex.cli.reading import Json
from slurm_flex.errors import FlexError

if TYPE_CHECKING:
    from slurm_flex.cluster.site import Site

_SLURM_CONF = "/etc/slurm/slurm.conf"


def init(
    name: Annotated[str, typer.Argument(help="The cluster's id: a-z, 0-9, ten at most.")],
    *,
    project: Annotated[str, typer.Option(help="Google Cloud project id.")],
    zone: Annotated[str, typer.Option(help="Zone of the VMs, like us-central1-b.")],
    machine_type: Annotated[str, typer.Option(help="What a node is.")] = "a3-ultragpu-8g",
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes at most.")] = 2,
    folder: Annotated[str, typer.Option("--folder", help="Where to.")] = "/etc/slurm-flex",
) -> None:
    """Write a cluster file and the settings to start from; nothing that is there is replaced.

    Examples:

      slurm-flex init demo --project my-project --zone us-central1-b --nodes 4
    """
    from slurm_flex.cli.starters import starter_files  # noqa: PLC0415

    files = starter_files(name, project, zone, machine_type, nodes)
    place = Path(folder)
    taken = [str(place / file) for file in files if (place / file).exists()]
    if taken:
        raise FlexError(f"{', '.join(taken)} exists already", fix="edit it, or use --folder")
    try:
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        for file, text in files.items():
            (place / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FlexError(error.strerror or str(error), where=str(place)) from error
    for file in files:
        typer.echo(f"written: {place / file}")
    typer.echo("next: edit both, then `slurm-flex render`, `slurm-flex apply`, `slurm-flex doctor`")


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

    A file that somebody else wrote is left alone. Slurm takes it in with `scontrol reconfigure`.

    Examples:

      slurm-flex render

      slurm-flex render --check

      slurm-flex render --print --release 24.11

      slurm-flex render --schema >cluster_config.schema.json
    """
    if schema:
        from slurm_flex.render.json_schema import schema_text  # noqa: PLC0415

        typer.echo(schema_text())
        return
    from slurm_flex.cluster.site import load_site  # noqa: PLC0415

    site = load_site(os.environ)
    slurm_conf = Path(site.settings.slurm_conf or os.environ.get("SLURM_CONF") or _SLURM_CONF)
    wanted = release or _installed_release(site)
    if check:
        _check(site, wanted, slurm_conf, as_json)
        return
    files = _rendered(site, wanted, full)
    if as_json:
        print_json(files)
    elif show:
        for name, text in files.items():
            typer.echo(f"# ===== {name} =====\n{text}")
    else:
        from slurm_flex.render.files import write_files  # noqa: PLC0415

        for written in write_files(files, Path(folder) if folder else slurm_conf.parent):
            typer.echo(f"{written.outcome}: {written.path}")


def _rendered(site: Site, release: str, full: bool) -> dict[str, str]:
    from slurm_flex.render.conf import render_slurm_conf  # noqa: PLC0415
    from slurm_flex.render.full import render_full  # noqa: PLC0415

    for warning in site.cluster.warnings:
        typer.echo(f"note: {warning}", err=True)
    if full:
        host = site.settings.conf_server.partition(":")[0] or socket.gethostname().split(".")[0]
        return render_full(site.cluster, site.settings, release, host)
    return render_slurm_conf(site.cluster, site.settings, release)


def _check(site: Site, release: str, slurm_conf: Path, as_json: bool) -> None:
    from slurm_flex.render.site_check import check_site  # noqa: PLC0415

    findings = check_site(site.cluster, site.settings, release, slurm_conf)
    if as_json:
        print_json(
            [
                {"what": one.what, "where": one.where, "line": one.line, "why": one.why,
                 "instead_of": one.instead_of, "needed": one.needed}
                for one in findings
            ]
        )  # fmt: skip
    else:
        for one in findings:
            typer.echo(f"{'must' if one.needed else 'may'} change: {one}")
        if not findings:
            typer.echo(f"{slurm_conf} fits")
    if any(one.needed for one in findings):
        raise typer.Exit(1)


def _installed_release(site: Site) -> str:
    from slurm_flex.render.oracle import installed_release  # noqa: PLC0415

    folder = site.settings.slurm_bin_dir
    try:
        return str(installed_release((f"{folder}/scontrol" if folder else "scontrol",)))
    except FlexError as error:
        fix = "name one: --release 24.11"
        raise FlexError(f"no Slurm is installed here: {error.what}", fix=fix) from error
