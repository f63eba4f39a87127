"""init: the two files of a first cluster, and what is still missing around them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from slurm_flex.cli.output import warn
from slurm_flex.errors import FlexError, InputErrors

if TYPE_CHECKING:
    from slurm_flex.cluster.init import NewCluster

_FOLDER: Final = "/etc/slurm-flex"


def init(
    cluster: Annotated[
        str, typer.Argument(help="The cluster's id: a-z, 0-9, ten at most [default: train].")
    ] = "",
    *,
    project: Annotated[str, typer.Option(help="Google Cloud project id.")] = "",
    zone: Annotated[str, typer.Option(help="Zone of the VMs [default: us-central1-b].")] = "",
    machine_type: Annotated[
        str, typer.Option(help="What a node is [default: a3-ultragpu-8g].")
    ] = "",
    max_nodes: Annotated[
        str, typer.Option("--max-nodes", "--nodes", help="Nodes at most [default: 2].")
    ] = "",
    min_nodes: Annotated[
        str, typer.Option(help="Nodes that are kept up, job or no job [default: 0].")
    ] = "",
    duration: Annotated[str, typer.Option(help="How long a VM may live [default: 7d].")] = "",
    home: Annotated[str, typer.Option(help="Filestore or Lustre instance for /home.")] = "",
    image: Annotated[
        str, typer.Option(help="Image with Slurm: projects/P/global/images/family/F.")
    ] = "",
    pool: Annotated[str, typer.Option(help="Name of the pool and its partition.")] = "",
    network: Annotated[str, typer.Option(help="VPC network [default: default].")] = "",
    subnetwork: Annotated[str, typer.Option(help="Subnetwork [default: default].")] = "",
    login_machine_type: Annotated[
        str, typer.Option(help="What the login node is [default: n2-standard-8].")
    ] = "",
    key: Annotated[
        str, typer.Option(help="Where nodes find munge's key: secret:..., nfs:... or metadata:...")
    ] = "",
    folder: Annotated[str, typer.Option(help="Where to.")] = _FOLDER,
    look: Annotated[
        bool, typer.Option("--check/--no-check", help="Run render --check and doctor afterwards.")
    ] = True,
) -> None:
    """Write cluster_config.json and slurm-flex.toml for a first cluster, and say what is missing.

    At a terminal it asks for what isn't given; elsewhere the defaults count. Nothing that is
    there is replaced.

    Examples:

      slurm-flex init

      slurm-flex init train --project my-project --zone us-central1-b --nodes 4 --home home1
      --image projects/my-project/global/images/family/slurm
    """
    from slurm_flex.cluster.init import write_new  # noqa: PLC0415

    given = {
        "cluster": cluster, "project": project, "zone": zone, "machine-type": machine_type,
        "max-nodes": max_nodes, "min-nodes": min_nodes, "duration": duration, "home": home,
        "image": image, "pool": pool, "network": network, "subnetwork": subnetwork,
        "login-machine-type": login_machine_type, "key": key,
    }  # fmt: skip
    place = Path(folder)
    _refuse_to_replace(place)
    for path in write_new(_made(given), place):
        typer.echo(f"written: {path}")
    os.environ["SLURM_FLEX_CONFIG"] = str((place / "slurm-flex.toml").absolute())
    if look:
        _look_around()
    if folder != _FOLDER:
        config = place.absolute() / "slurm-flex.toml"
        typer.echo(
            f"\nfor all further commands: export SLURM_FLEX_CONFIG={config}\n"
            "(slurmctld's programs look beside slurm.conf and in /etc/slurm-flex alone)"
        )


def _refuse_to_replace(folder: Path) -> None:
    """Before anybody answers fourteen questions in vain. Raises InputErrors."""
    from slurm_flex.cluster.init import already_there  # noqa: PLC0415

    there = already_there(folder)
    if there:
        raise InputErrors(there)


def _made(given: dict[str, str]) -> NewCluster:
    """Both files from what was given, and at a terminal from what a person answers.

    Raises InputErrors where there is nobody to put right what is wrong.
    """
    from slurm_flex.cluster.init import new_cluster  # noqa: PLC0415
    from slurm_flex.render.startup import ROOT  # noqa: PLC0415

    if not sys.stdin.isatty():
        return new_cluster(given, install_dir=str(ROOT))
    answers = _asked(given, {})
    while True:
        try:
            return new_cluster(answers, install_dir=str(ROOT))
        except InputErrors as errors:
            for error in errors.errors:
                warn(str(error))
            typer.echo("once more; Enter keeps what you said:")
            answers = _asked(dict.fromkeys(answers, ""), answers)


def _asked(given: dict[str, str], before: dict[str, str]) -> dict[str, str]:
    """What isn't given, from a person; Enter takes what stands in brackets."""
    from slurm_flex.cluster.init import QUESTIONS  # noqa: PLC0415

    answers = dict(given)
    for question in QUESTIONS:
        default = before.get(question.flag) or question.default
        while not answers[question.flag]:
            answers[question.flag] = typer.prompt(
                question.text, default=default, show_default=bool(default)
            ).strip()
            if question.optional:
                break
            if not answers[question.flag]:
                typer.echo("it is needed")
    return answers


def _look_around() -> None:
    """render --check and doctor: what they find is what is left to do, and no failure of init."""
    from slurm_flex.cli.files import installed_release, show_findings  # noqa: PLC0415
    from slurm_flex.cli.provisioning import show_checks  # noqa: PLC0415
    from slurm_flex.cluster.site import load_site  # noqa: PLC0415
    from slurm_flex.render.installed import installed  # noqa: PLC0415

    site = load_site(os.environ)
    typer.echo("\n# slurm-flex render --check")
    here = installed(site.settings, os.environ)
    try:
        show_findings(site, here, installed_release(here))
    except FlexError as error:
        typer.echo(str(error))
    typer.echo("\n# slurm-flex doctor")
    show_checks(site)
    typer.echo(
        "\nnext: slurm-flex render (--full for a fresh controller), slurm-flex apply, "
        "slurm-flex doctor; docs/setup.md has it step by step"
    )
