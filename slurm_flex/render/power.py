"""The global keys that slurm-flex sets, each with the reason it is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slurm_flex.cluster.config_checks import scheduling_key
from slurm_flex.cluster.model import Cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.slurm_keys import Release, knows, spelling
from slurm_flex.errors import FlexError
from slurm_flex.hostlist import fold
from slurm_flex.render.validate import LONGEST_TIMEOUT

SITE_FOLDER: Final = "site"
"""Below install_dir on a node: the programs made from the cluster file's scripts."""


@dataclass(frozen=True)
class Setting:
    """One global line of slurm.conf and why it is there."""

    key: str
    value: str
    why: str


def static_nodes(cluster: Cluster) -> tuple[str, ...]:
    """The Slurm nodes that are kept up."""
    return tuple(
        name
        for pool in cluster.compute_pools
        for name in cluster.node_names(pool)[: pool.min_node_count]
    )


def power_settings(cluster: Cluster, settings: Settings, release: Release) -> Iterator[Setting]:
    """Power saving. Raises FlexError for a timeout that is fatal to Slurm."""
    scripts = f"{settings.install_dir}/scripts"
    yield Setting(
        "ResumeProgram",
        f"{scripts}/resume.py",
        "Tells slurm-flex which nodes jobs wait for, and returns at once.",
    )
    yield Setting(
        "SuspendProgram",
        f"{scripts}/suspend.py",
        "Tells slurm-flex which nodes are no longer needed.",
    )
    yield Setting(
        "ResumeFailProgram",
        f"{scripts}/suspend.py",
        "A node that missed ResumeTimeout: whatever came of it is given back.",
    )
    timeout = int(settings.resume_timeout.total_seconds())
    if timeout > LONGEST_TIMEOUT:
        what = f"resume_timeout is {timeout}s, which is fatal to slurmctld and to every command"
        raise FlexError(what, where="slurm-flex.toml", fix=f"at most {LONGEST_TIMEOUT}s")
    yield Setting(
        "ResumeTimeout",
        str(timeout),
        "No limit on the wait for capacity: slurm-flex starts it anew while a request queues. "
        "It ends the wait if slurm-flex is gone for so long.",
    )
    yield Setting(
        "SuspendTimeout",
        f"{settings.suspend_timeout.total_seconds():.0f}",
        "How long a node that goes down is unusable. Shorter than the 120 s after which Slurm "
        "restarts the jobs of a lost node, so that they find it again.",
    )
    yield Setting(
        "ResumeRate", "0", "All nodes of a job at once: they are one request, all or none."
    )
    yield Setting("SuspendRate", "0", "Given back as soon as they are free.")
    static = static_nodes(cluster)
    if static:
        yield Setting(
            "SuspendExcNodes",
            fold(static),
            "Static nodes (the first min_node_count of a pool) stay up, job or no job.",
        )
    if knows(release, "global", "SuspendExcStates"):
        yield Setting(
            "SuspendExcStates", "DRAIN", "Whoever drained a node finds it as it was: it stays up."
        )


def program_settings(cluster: Cluster, settings: Settings) -> Iterator[Setting]:
    """Prolog, Epilog and their like: the health checks, then the site's own scripts."""
    slurm = cluster.slurm
    checks = settings.health_checks
    programs = (
        ("Prolog", slurm.prolog_bash_scripts, checks, "Before a job, on each of its nodes"),
        ("Epilog", slurm.epilog_bash_scripts, checks, "After a job, on each of its nodes"),
        ("TaskProlog", slurm.task_prolog_bash_scripts, False, "Before each task"),
        ("TaskEpilog", slurm.task_epilog_bash_scripts, False, "After each task"),
    )
    for key, scripts, checked, when in programs:
        path = program_path(settings, key, scripts, checked=checked)
        if path:
            yield Setting(key, path, f"{when}: {_whose(checked, scripts)}")
    if checks:
        program = f"{settings.install_dir}/scripts/health.py"
        yield Setting("HealthCheckProgram", program, "Now and then, on every node.")
        yield Setting("HealthCheckInterval", "300", "Seconds.")
        yield Setting(
            "HealthCheckNodeState", "ANY,CYCLE", "Also under jobs; not on all nodes at once."
        )


def _whose(checks: bool, scripts: tuple[str, ...]) -> str:
    parts = ["slurm-flex's checks"] if checks else []
    parts += [f"{len(scripts)} of the site's scripts"] if scripts else []
    return ", then ".join(parts) + "."


def program_path(settings: Settings, key: str, scripts: tuple[str, ...], *, checked: bool) -> str:
    """What Prolog (or Epilog, ...) points at on a node; empty where there is nothing to run.

    The site's scripts are run by one program that the startup script writes on each node.
    """
    name = key.lower()
    if scripts:
        return f"{settings.install_dir}/{SITE_FOLDER}/{name}"
    return f"{settings.install_dir}/scripts/{name}.py" if checked else ""


def site_settings(cluster: Cluster, release: Release) -> Iterator[Setting]:
    """What the cluster file says about slurm.conf: accounting, scheduling, config."""
    slurm = cluster.slurm
    if slurm.accounting_storage_enforce:
        yield Setting("AccountingStorageEnforce", slurm.accounting_storage_enforce, "")
    for name, value in slurm.scheduling.items():
        yield Setting(scheduling_key(name), value, "")
    for key, value in slurm.config.items():
        name = spelling("global", key)
        if knows(release, "global", key) is False:
            what = f"{name} is no parameter of Slurm {release}"
            where = f'orchestrator_spec.slurm_spec.config["{key}"]'
            raise FlexError(what, where=where, fix="leave it out")
        yield Setting(name, value, "")
