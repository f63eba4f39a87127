"""render --check: does the site's slurm.conf fit what slurm-flex renders and needs?

Nothing is changed; for each finding there is the exact line to write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slurm_flex.cluster.model import Cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.slurm_keys import Release, parse_release
from slurm_flex.errors import FlexError
from slurm_flex.hostlist import HostlistError, expand, fold
from slurm_flex.render.conf import render_slurm_conf
from slurm_flex.render.conf_lines import RECORDS, ConfLine, parse_conf, read_conf
from slurm_flex.render.installed import Installed
from slurm_flex.render.names import GRES_FILE, MAIN_FILE, is_ours
from slurm_flex.render.oracle import ask_parser
from slurm_flex.render.requirements import requirements
from slurm_flex.render.resize import leaving_in, nodes_gone, rendered_before
from slurm_flex.render.validate import find_faults

RENDER: Final = "slurm-flex render"


@dataclass(frozen=True)
class Finding:
    """Something to change. line: the exact line to write, where: the file it belongs in.

    needed: False is advice.
    """

    what: str
    where: str
    line: str = ""
    instead_of: str = ""
    why: str = ""
    needed: bool = True

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" + (f" ({self.why})" if self.why else "")
        if self.line and self.instead_of:
            return f"{text}\n    instead of {self.instead_of}, write:\n    {self.line}"
        return f"{text}\n    add:\n    {self.line}" if self.line else text


def check_site(
    cluster: Cluster,
    settings: Settings,
    release: str,
    slurm_conf: Path,
    *,
    scontrol: Sequence[str] = (),
    running: Collection[str] | None = None,
) -> list[Finding]:
    """All findings about a controller's slurm.conf and what it includes; empty: it fits.

    scontrol: the installed one, whose own parser looks at it as well; empty: it isn't asked.
    running: the nodes that Slurm shows as anything but powered down; None where that isn't known.
    Raises FlexError if slurm.conf can't be read, InputErrors if nothing can be rendered.
    """
    known = parse_release(release)
    rendered = render_slurm_conf(
        cluster, settings, release, leaving_in(slurm_conf.parent, cluster, running)
    )
    findings = list(_files(rendered, slurm_conf))
    if _is_included(slurm_conf, rendered):
        lines = read_conf(slurm_conf)
        findings += (
            Finding(error.what, error.where, why=error.fix) for error in find_faults(lines, known)
        )
        if scontrol and not findings:
            findings += (Finding(one, str(slurm_conf)) for one in ask_parser(slurm_conf, scontrol))
    else:
        lines = list(_with_ours(slurm_conf, rendered))
        line = f"Include {MAIN_FILE}"
        why = "the nodes, partitions and power saving of slurm-flex are there"
        findings.append(Finding(f"{MAIN_FILE} isn't included", str(slurm_conf), line, why=why))
    findings += _twice(lines)
    findings += _unmet(cluster, settings, known, lines, slurm_conf)
    findings += _strangers(cluster, lines)
    return sorted(findings, key=lambda finding: not finding.needed)


def check_here(
    cluster: Cluster, settings: Settings, here: Installed, release: str
) -> list[Finding]:
    """The same with what is installed on this host. Raises as check_site, and CommandMissing."""
    gone = nodes_gone(rendered_before(here.folder), cluster)
    return check_site(
        cluster,
        settings,
        release,
        here.slurm_conf,
        scontrol=here.scontrol(),
        running=here.running() if gone else frozenset(),
    )


def _files(rendered: Mapping[str, str], slurm_conf: Path) -> Iterator[Finding]:
    """Files that are not there, not as they would be rendered now, or somebody else's."""
    for name, text in rendered.items():
        path = slurm_conf.parent / name
        try:
            there = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            yield Finding("isn't there yet", str(path), why=f"run `{RENDER}`")
            continue
        except OSError as error:
            yield Finding(error.strerror or str(error), str(path))
            continue
        if name == GRES_FILE and not is_ours(there):
            lacking = [line for line in _entries(text) if line not in _entries(there)]
            for line in lacking:
                yield Finding("a pool's GPUs aren't in it", str(path), line)
        elif there != text:
            yield Finding("isn't as it would be rendered now", str(path), why=f"run `{RENDER}`")


def _entries(text: str) -> list[str]:
    return [
        " ".join(line.split()) for line in text.splitlines() if line.strip()[:1] not in ("", "#")
    ]


def _is_included(slurm_conf: Path, rendered: Mapping[str, str]) -> bool:
    return _reaches_ours(slurm_conf) and all(
        (slurm_conf.parent / name).exists() for name in rendered
    )


def includes_ours(slurm_conf: Path) -> bool:
    """Whether there is a slurm.conf that reaches the rendered file, there or not."""
    try:
        return _reaches_ours(slurm_conf)
    except FlexError:
        return False


def _reaches_ours(slurm_conf: Path) -> bool:
    """Raises FlexError where slurm.conf, or something else it includes, can't be read."""
    reached: list[str] = []

    def reading(name: str) -> str:
        path = slurm_conf.parent / name
        if path.name == MAIN_FILE:
            reached.append(name)
            return ""
        return path.read_text(encoding="utf-8", errors="replace")

    text = _read(slurm_conf)
    list(parse_conf(text, file=str(slurm_conf), reading=reading))
    return bool(reached)


def _with_ours(slurm_conf: Path, rendered: Mapping[str, str]) -> Iterator[ConfLine]:
    """slurm.conf as it would be with what is rendered now."""

    def reading(name: str) -> str:
        if Path(name).name == MAIN_FILE:
            return ""
        return (slurm_conf.parent / name).read_text(encoding="utf-8", errors="replace")

    yield from parse_conf(_read(slurm_conf), file=str(slurm_conf), reading=reading)
    yield from parse_conf(rendered[MAIN_FILE], file=MAIN_FILE)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        fix = "`slurm-flex render --full` writes one for a fresh controller; if it lies elsewhere: "
        fix += 'slurm_conf = "..." in slurm-flex.toml'
        raise FlexError("there is no slurm.conf", where=str(path), fix=fix) from error
    except OSError as error:
        raise FlexError(error.strerror or str(error), where=str(path)) from error


def _is_main(line: ConfLine) -> bool:
    return Path(line.file).name == MAIN_FILE


def _twice(lines: Iterable[ConfLine]) -> Iterator[Finding]:
    """Keys and records that slurm-flex sets and somebody else sets as well."""
    kept = list(lines)
    ours = {_identity(line) for line in kept if _is_main(line)}
    for line in kept:
        if not _is_main(line) and _identity(line) in ours:
            name = f"{line.key}={line.value}" if line.key.lower() in RECORDS else line.key
            what = f"{name} is set here and in {MAIN_FILE}"
            why = "take it out here, or out of cluster_config.json; Slurm takes the last one"
            yield Finding(what, line.where, why=why)


def _identity(line: ConfLine) -> tuple[str, str]:
    low = line.key.lower()
    return (low, line.value if low in RECORDS else "")


def _unmet(
    cluster: Cluster,
    settings: Settings,
    release: Release,
    lines: Iterable[ConfLine],
    slurm_conf: Path,
) -> Iterator[Finding]:
    """Requirements that the value in force doesn't meet; one finding a key, with one line."""
    last = {line.key.lower(): line for line in lines if line.key.lower() not in RECORDS}
    by_key: dict[str, Finding] = {}
    for one in requirements(cluster, settings, release):
        there = last.get(one.key.lower())
        value = there.value if there else None
        pending = by_key.get(one.key)
        in_force = pending.line.partition("=")[2] if pending else value
        if one.is_met_by(in_force):
            continue
        where = there.where if there else str(slurm_conf)
        if there and _is_main(there):  # it came from there
            where = f"cluster_config.json: orchestrator_spec.slurm_spec.config.{there.key}"
        by_key[one.key] = Finding(
            what=f"{one.key} is {value}" if value else f"{one.key} isn't set",
            where=where,
            line=one.line(in_force),
            instead_of=f"{there.key}={value}" if there else "",
            why="; ".join([*([pending.why] if pending else []), one.why]),
            needed=one.needed or bool(pending and pending.needed),
        )
    yield from by_key.values()


def _strangers(cluster: Cluster, lines: Iterable[ConfLine]) -> Iterator[Finding]:
    """Nodes that aren't slurm-flex's and would be powered down by a global SuspendTime."""
    kept = list(lines)
    last = {line.key.lower(): line for line in kept}
    suspend = last.get("suspendtime")
    if suspend is None or suspend.value.upper() in ("-1", "INFINITE"):
        return
    excluded = set(_names(last["suspendexcnodes"].value)) if "suspendexcnodes" in last else set()
    spared = last["suspendexcparts"].value.split(",") if "suspendexcparts" in last else []
    for line in kept:
        if line.key.lower() == "partitionname" and line.value in spared:
            excluded |= set(_names(line.get("Nodes") or ""))
    strange = [
        name
        for line in kept
        if line.key.lower() == "nodename" and line.value.upper() != "DEFAULT"
        for name in _names(line.value)
        if cluster.locate(name) is None and name not in excluded
    ]
    if strange:
        yield Finding(
            f"SuspendTime={suspend.value} would power down nodes that aren't slurm-flex's: "
            f"{fold(strange)}",
            suspend.where,
            line="SuspendTime=INFINITE",
            instead_of=f"SuspendTime={suspend.value}",
            why="slurm-flex sets it on its own partitions",
        )


def _names(hostlist: str) -> tuple[str, ...]:
    try:
        return expand(hostlist)
    except HostlistError:
        return ()
