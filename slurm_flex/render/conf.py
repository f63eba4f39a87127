"""The files for slurm.conf's folder: slurm-flex.conf, and gres.conf where there are GPUs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TypeVar

from slurm_flex.cluster.model import Cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.slurm_keys import Release, parse_release
from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.render.conf_lines import parse_conf
from slurm_flex.render.gres import gres_lines
from slurm_flex.render.names import GRES_FILE, MAIN_FILE, header
from slurm_flex.render.nodes import pool_lines
from slurm_flex.render.partitions import partition_lines
from slurm_flex.render.power import Setting, power_settings, program_settings, site_settings
from slurm_flex.render.resize import Leaving
from slurm_flex.render.validate import find_faults

_T = TypeVar("_T")
_ABOUT_PARTITIONS = (
    "# SuspendTime: how long a node may be idle. It stands here and not above, so that nodes that",
    "# aren't slurm-flex's are never powered down. MaxTime: what a fresh Flex-start node can keep.",
)


def render_slurm_conf(
    cluster: Cluster, settings: Settings, release: str, leaving: Leaving | None = None
) -> dict[str, str]:
    """File name -> text, for the folder of slurm.conf; only keys that the release knows.

    leaving: nodes of an earlier render that must stay for now.
    Raises FlexError for a release that isn't supported and InputErrors for what can't be
    rendered (all of it).
    """
    known = parse_release(release)
    stay = leaving or Leaving()
    errors: list[FlexError] = []
    nodes = [
        line
        for position, pool in enumerate(cluster.compute_pools, 1)
        for line in _collect(pool_lines(cluster, settings, pool, position, known), errors)
    ]
    partitions = [
        line
        for part in cluster.partitions
        for line in _collect(
            partition_lines(cluster, settings, part, known, stay.partitions.get(part.id, ())),
            errors,
        )
    ]
    if stay.lines:
        nodes += ["# No longer in the cluster file: here until they are idle and off.", *stay.lines]
    sections = (
        ("Power saving", _written(power_settings(cluster, settings, known), errors)),
        ("Programs on the nodes", _written(program_settings(cluster, settings), errors)),
        ("From the cluster file", _written(site_settings(cluster, known), errors)),
        ("Nodes", nodes),
        ("Partitions", [*_ABOUT_PARTITIONS, *partitions, *stay.closed] if partitions else []),
    )
    if errors:
        raise InputErrors(errors)
    about = (f"slurm.conf takes it in by the line: Include {MAIN_FILE}",)
    lines = header(known, *about)
    for title, body in sections:
        if body:
            lines += ["", f"# ---- {title} ----", *body]
    files = {MAIN_FILE: "\n".join(lines) + "\n"}
    gres = [*gres_lines(cluster, settings), *stay.gres]
    if gres:
        lines = header(known, "Where slurmd finds the GPUs.")
        files[GRES_FILE] = "\n".join([*lines, "", *gres]) + "\n"
    _check(files[MAIN_FILE], known)
    return files


def _check(text: str, release: Release) -> None:
    """What we write must stand our own checks, whatever the cluster file had in its config."""
    faults = find_faults(parse_conf(text, file=MAIN_FILE), release)
    if faults:
        raise InputErrors(faults)


def _written(found: Iterator[Setting], errors: list[FlexError]) -> list[str]:
    lines: list[str] = []
    for setting in _collect(found, errors):
        lines += textwrap.wrap(setting.why, 96, initial_indent="# ", subsequent_indent="# ")
        lines.append(f"{setting.key}={setting.value}")
    return lines


def _collect(found: Iterator[_T], errors: list[FlexError]) -> list[_T]:
    """What comes until the first error, which is kept."""
    kept: list[_T] = []
    try:
        kept.extend(found)
    except FlexError as error:
        errors.append(error)
    return kept
