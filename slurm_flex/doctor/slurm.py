"""Slurm's side: slurm.conf as it lies there, slurmctld as it runs, and the programs it calls."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slurm_flex.cluster.site import Site
from slurm_flex.cluster.slurm_keys import Release, parse_release
from slurm_flex.doctor.check import Check, error, ok, skipped, warn
from slurm_flex.hostlist import HostlistError, expand
from slurm_flex.render.installed import Installed
from slurm_flex.render.power import power_settings, static_nodes
from slurm_flex.render.requirements import requirements
from slurm_flex.render.site_check import Finding, check_here
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.records import parse_settings_shown

CONF: Final = "slurm.conf"
RUNNING: Final = "slurmctld"
HOOKS: Final = "hooks"

_PROGRAMS: Final = ("ResumeProgram", "SuspendProgram", "ResumeFailProgram")
_TIMES: Final = ("ResumeTimeout", "SuspendTimeout")
_RECONFIGURE: Final = "scontrol reconfigure"
_USER: Final = re.compile(r"(?P<name>[^()]+)\((?P<uid>\d+)\)")


@dataclass(frozen=True)
class Account:
    """Whoever slurmctld runs as: user id and all group ids."""

    name: str
    uid: int
    gids: frozenset[int]


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


def running_config(site: Site, commands: SlurmCommands) -> Iterator[Check]:
    """What slurmctld itself goes by, which a file that was changed later doesn't show.

    Raises SlurmError if it doesn't answer.
    """
    shown = parse_settings_shown(commands.check("scontrol", "show", "config"))
    values = {key: value for key, value in shown.items() if value != "(null)"}
    release = parse_release(shown.get("SLURM_VERSION", ""))
    found = [*_unmet(site, release, values), *_power_saving(site, release, values)]
    yield from found
    if not found:
        yield ok(RUNNING, f"Slurm {shown['SLURM_VERSION']} runs with all that slurm-flex needs")
    yield from _hooks(values)


def _unmet(site: Site, release: Release, values: Mapping[str, str]) -> Iterator[Check]:
    by_key: dict[str, str] = {}
    for one in requirements(site.cluster, site.settings, release):
        value = by_key.get(one.key, values.get(one.key))
        if one.is_met_by(value):
            continue
        line = one.line(value)
        by_key[one.key] = line.partition("=")[2]
        text = f"{one.key} is {values.get(one.key) or 'not set'}: {one.why}"
        fix = f"write {line} into slurm.conf, then {_RECONFIGURE}"
        yield (error if one.needed else warn)(RUNNING, text, fix)


def _power_saving(site: Site, release: Release, values: Mapping[str, str]) -> Iterator[Check]:
    wanted = {one.key: one.value for one in power_settings(site.cluster, site.settings, release)}
    fix = f"slurm-flex render, then {_RECONFIGURE}"
    for key in _PROGRAMS:
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


def _hooks(values: Mapping[str, str]) -> Iterator[Check]:
    """Whether SlurmUser may execute what slurmctld calls."""
    match = _USER.fullmatch(values.get("SlurmUser", ""))
    if match is None:
        yield skipped(HOOKS, "slurmctld doesn't say who SlurmUser is")
        return
    account = account_of(match["name"], int(match["uid"]))
    programs = dict.fromkeys(values[key] for key in _PROGRAMS if values.get(key))
    faults = {name: obstacle(Path(name), account) for name in programs}
    for name, fault in faults.items():
        if fault:
            yield error(HOOKS, f"{name}: {fault}", f"chmod a+rx {name} and the folders above it")
    if programs and not any(faults.values()):
        yield ok(HOOKS, f"{account.name} may execute {', '.join(programs)}")


def account_of(name: str, uid: int) -> Account:
    """The groups of a user, as this host knows them; none of an unknown one."""
    import pwd  # noqa: PLC0415 - not everywhere; a controller has it

    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return Account(name, uid, frozenset())
    return Account(name, uid, frozenset(os.getgrouplist(found.pw_name, found.pw_gid)))


def obstacle(program: Path, account: Account) -> str:
    """Why an account can't execute a program, or nothing. Looks at the mode bits alone."""
    if not program.is_absolute():
        return "is no absolute path"
    for folder in reversed(program.parents):
        found = _stat(folder)
        if isinstance(found, str):
            return f"{folder} {found}"
        if not _may(found, account, stat.S_IXUSR):
            return f"{account.name} may not enter {folder}"
    found = _stat(program)
    if isinstance(found, str):
        return found
    if not stat.S_ISREG(found.st_mode):
        return "is no file"
    if not _may(found, account, stat.S_IXUSR) or not _may(found, account, stat.S_IRUSR):
        return f"{account.name} may not read and execute it"
    return ""


def _stat(path: Path) -> os.stat_result | str:
    try:
        return path.stat()
    except OSError as problem:
        return f"can't be looked at: {problem.strerror}"


def _may(found: os.stat_result, account: Account, bit: int) -> bool:
    """`bit` is the owner's; the group's and the others' stand three and six places lower."""
    if account.uid == 0:
        return bit != stat.S_IXUSR or bool(found.st_mode & 0o111) or stat.S_ISDIR(found.st_mode)
    if found.st_uid == account.uid:
        return bool(found.st_mode & bit)
    if found.st_gid in account.gids:
        return bool(found.st_mode & bit >> 3)
    return bool(found.st_mode & bit >> 6)
