"""Slurm's side: slurm.conf as it lies there, and slurmctld as it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from slurm_flex.cluster.site import Site
from slurm_flex.cluster.slurm_keys import Release, parse_release
from slurm_flex.doctor.check import Check, error, ok, skipped, warn
from slurm_flex.doctor.hooks import PROGRAMS, hooks
from slurm_flex.hostlist import HostlistError, expand, fold
from slurm_flex.render.change import how_to_take_in
from slurm_flex.render.installed import Installed
from slurm_flex.render.power import power_settings, program_settings, static_nodes
from slurm_flex.render.requirements import requirements
from slurm_flex.render.site_check import Finding, check_here
from slurm_flex.slurm.records import parse_nodes, parse_settings_shown

CONF: Final = "slurm.conf"
RUNNING: Final = "slurmctld"

_TIMES: Final = ("ResumeTimeout", "SuspendTimeout")
_RECONFIGURE: Final = "scontrol reconfigure"
_RESTART: Final = "systemctl restart slurmctld"
_AT_START: Final = frozenset({"SelectType", "GresTypes"})
"""What slurmctld reads when it starts, and at no reconfigure (man slurm.conf)."""
_SHOW_NODES: Final = ("scontrol", "show", "node", "-o")


def slurm_conf(site: Site, here: Installed) -> Iterator[Check]:
    """What `render --check` says, a check each. Raises FlexError."""
    release = here.release()
    findings = check_here(site.cluster, site.settings, here, str(release))
    for finding in findings:
        yield _as_check(finding)
    if not findings:
        yield ok(CONF, f"fits Slurm {release} and what slurm-flex needs")


def _as_check(finding: Finding) -> Check:
    text = f"{finding.where}: {finding.what}" + (f" ({finding.why})" if finding.why else "")
    fix = finding.line
    if finding.line and finding.instead_of:
        fix = f"{finding.line}    (instead of {finding.instead_of})"
    return (error if finding.needed else warn)(CONF, text, fix)


def running_config(site: Site, here: Installed) -> Iterator[Check]:
    """What slurmctld itself goes by, which a file that was changed later doesn't show.

    Raises SlurmError if it doesn't answer.
    """
    if not here.slurm_conf.exists():
        yield skipped(RUNNING, f"not asked, since there is no {here.slurm_conf} yet")
        return
    shown = parse_settings_shown(here.commands.check("scontrol", "show", "config"))
    values = {key: value for key, value in shown.items() if value != "(null)"}
    release = parse_release(shown.get("SLURM_VERSION", ""))
    found = [
        *_unmet(site, release, values),
        *_power_saving(site, release, values),
        *_programs(site, values),
        *_unknown_nodes(site, here, release, values),
    ]
    yield from found
    if not found:
        yield ok(RUNNING, f"Slurm {shown['SLURM_VERSION']} runs with all that slurm-flex needs")
    yield from hooks(site, here, values)


def _unmet(site: Site, release: Release, values: Mapping[str, str]) -> Iterator[Check]:
    """One check a key, with one line that has all that is needed of it."""
    lines: dict[str, str] = {}
    whys: dict[str, list[str]] = {}
    needed: set[str] = set()
    for one in requirements(site.cluster, site.settings, release):
        value = lines[one.key].partition("=")[2] if one.key in lines else values.get(one.key)
        if one.is_met_by(value):
            continue
        lines[one.key] = one.line(value)
        whys.setdefault(one.key, []).append(one.why)
        needed |= {one.key} if one.needed else set()
    for key, line in lines.items():
        text = f"{key} is {values.get(key) or 'not set'}: {'; '.join(whys[key])}"
        fix = f"write {line} into slurm.conf, then {_RESTART if key in _AT_START else _RECONFIGURE}"
        yield (error if key in needed else warn)(RUNNING, text, fix)


def _programs(site: Site, values: Mapping[str, str]) -> Iterator[Check]:
    """Whether nodes are checked: without it a broken GPU takes one job after the other."""
    fix = f"slurm-flex render, then {_RECONFIGURE}"
    for one in program_settings(site.cluster, site.settings):
        if not one.value.startswith("/"):
            continue
        # Since 23.11 there may be several, and `show config` numbers them.
        have = [value for key, value in values.items() if key.partition("[")[0] == one.key]
        if one.value not in have:
            text = f"{one.key} is {', '.join(have) or 'not set'}, not {one.value}"
            yield warn(RUNNING, text, fix)


def _unknown_nodes(
    site: Site, here: Installed, release: Release, values: Mapping[str, str]
) -> Iterator[Check]:
    """Nodes of the cluster file that slurmctld hasn't taken in."""
    hides = release < Release(23, 2) and "cloud" not in values.get("PrivateData", "").split(",")
    if hides:
        return
    known = {node.name for node in parse_nodes(here.commands.check(*_SHOW_NODES))}
    cluster = site.cluster
    names = [name for pool in cluster.compute_pools for name in cluster.node_names(pool)]
    lacking = [name for name in names if name not in known]
    if lacking:
        fix = f"slurm-flex render, then {how_to_take_in(release, nodes_change=True)}"
        yield error(RUNNING, f"slurmctld doesn't know {fold(lacking)} of the cluster file", fix)


def _power_saving(site: Site, release: Release, values: Mapping[str, str]) -> Iterator[Check]:
    wanted = {one.key: one.value for one in power_settings(site.cluster, site.settings, release)}
    fix = f"slurm-flex render, then {_RECONFIGURE}"
    for key in PROGRAMS:
        if values.get(key) != wanted[key]:
            text = f"{key} is {values.get(key) or 'not set'}, not {wanted[key]}"
            yield error(RUNNING, text, fix)
    for key in _TIMES:
        have = values.get(key, "").partition(" ")[0]
        if have != wanted[key]:
            yield warn(RUNNING, f"{key} is {have or 'not set'} s, not {wanted[key]} s", fix)
    lacking = _not_excluded(site, values.get("SuspendExcNodes", ""))
    if lacking:
        text = f"SuspendExcNodes lacks {', '.join(lacking[:5])}: static nodes would be suspended"
        yield error(RUNNING, text, fix)


def _not_excluded(site: Site, value: str) -> list[str]:
    """Static nodes that SuspendExcNodes doesn't name; a count ("nodes:2") names none for sure."""
    named: set[str] = set()
    for part in re.split(r",(?![^\[]*\])", value):
        try:
            named.update(expand(part))
        except HostlistError:
            continue
    return [name for name in static_nodes(site.cluster) if name not in named]
