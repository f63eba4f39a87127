"""render --full: a whole slurm.conf for a fresh controller, beside what is always rendered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slurm_flex.cluster.machines import find_machine
from slurm_flex.cluster.model import Cluster, Pool
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.slurm_keys import Release, parse_release
from slurm_flex.errors import FlexError
from slurm_flex.render.conf import render_slurm_conf
from slurm_flex.render.conf_lines import parse_conf
from slurm_flex.render.names import MAIN_FILE
from slurm_flex.render.requirements import meeting, requirements
from slurm_flex.render.resize import Leaving
from slurm_flex.text import whole_number

_ABOUT: Final[Mapping[str, str]] = {
    "ClusterName": "The prefix of every node's name.",
    "SlurmctldHost": "This controller, and the address by which the nodes reach it.",
    "SlurmUser": "The daemon slurm-flex runs as this user too.",
    "AuthType": "The key must be the same on the controller and on every node.",
    "SlurmctldParameters": "slurm-flex needs these.",
    "ReturnToService": "A node that Slurm took for lost comes back when it registers.",
    "JobRequeue": "A job whose node ends starts again on a new one.",
    "SchedulerParameters": "A job whose node failed its check waits for another one.",
    "PrologFlags": "Nodes are checked before a job begins.",
    "CommunicationParameters": "A new VM of the same name has another address.",
    "DefMemPerGPU": "A job that says nothing of memory gets its GPUs' part of the node's (MB).",
    "TreeWidth": "slurmctld talks to each node itself.",
    "PrivateData": "Before 23.02, nodes that are off are shown to nobody without it.",
}


def render_full(
    cluster: Cluster, settings: Settings, release: str, host: str, leaving: Leaving | None = None
) -> dict[str, str]:
    """slurm.conf and cgroup.conf for a controller called ``host``, and all other files.

    leaving: as for :func:`~slurm_flex.render.conf.render_slurm_conf`.
    Raises FlexError for auth/slurm before 23.11 and InputErrors for what can't be rendered.
    """
    known = parse_release(release)
    files = render_slurm_conf(cluster, settings, release, leaving)
    ours = {line.key.lower(): line.value for line in parse_conf(files[MAIN_FILE])}
    values = _base(cluster, settings, known, host)
    values |= _memory_of_a_gpu(cluster, settings, ours)
    # A key stands in one file only; what the cluster file sets is kept and completed there.
    needed = meeting(requirements(cluster, settings, known), {**values, **_spelt(ours, values)})
    lines = [f"# Written once by slurm-flex render --full, for Slurm {known}; yours from here on."]
    for key, value in needed.items():
        if key.lower() in ours:
            continue
        if key in _ABOUT:
            lines.append(f"# {_ABOUT[key]}")
        lines.append(f"{key}={value}")
    files["slurm.conf"] = "\n".join([*lines, "", f"Include {MAIN_FILE}"]) + "\n"
    files["cgroup.conf"] = "ConstrainDevices=yes\nConstrainRAMSpace=yes\nConstrainCores=yes\n"
    return files


def _memory_of_a_gpu(
    cluster: Cluster, settings: Settings, ours: Mapping[str, str]
) -> dict[str, str]:
    """Memory is handed out like CPUs (CR_Core_Memory), and a job that names none would get all of
    the node: two jobs of four GPUs each would take two VMs."""
    said = [*ours, *(key for part in cluster.partitions for key in part.config)]
    if settings.gpu_files == "none" or any(key.lower().startswith("defmemper") for key in said):
        return {}
    parts = [
        _memory_of_a_node(settings, pool) // pool.accelerator_count
        for pool in cluster.compute_pools
        if pool.accelerator_count
    ]
    least = min(parts, default=0)
    return {"DefMemPerGPU": str(least)} if least else {}


def _memory_of_a_node(settings: Settings, pool: Pool) -> int:
    """In MB; 0 where nobody knows it."""
    given = {key.lower(): value for key, value in settings.node_overrides.get(pool.id, {}).items()}
    machine = find_machine(pool.machine_type)
    own = whole_number(given.get("realmemory", ""))
    return own if own is not None else machine.real_memory_mb if machine else 0


def _spelt(ours: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    return {key: ours[key.lower()] for key in values if key.lower() in ours}


def _base(cluster: Cluster, settings: Settings, release: Release, host: str) -> dict[str, str]:
    if settings.auth_type == "slurm" and release < Release(23, 11):
        what = f"auth/slurm is not known to Slurm {release}"
        raise FlexError(what, where="slurm-flex.toml: auth_type", fix='auth_type = "munge"')
    auth = {"AuthType": "auth/munge", "CredType": "cred/munge"}
    if settings.auth_type == "slurm":
        auth = {"AuthType": "auth/slurm", "CredType": "cred/slurm"}
    address, _, port = settings.conf_server.partition(":")
    return {
        "ClusterName": cluster.id,
        "SlurmctldHost": f"{host}({address})" if address not in ("", host) else host,
        **({"SlurmctldPort": port} if port else {}),
        "SlurmUser": "slurm",
        **auth,
        "StateSaveLocation": "/var/lib/slurm/slurmctld",
        "SlurmdSpoolDir": "/var/spool/slurmd",
        "SlurmctldPidFile": "/run/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
        "SlurmdLogFile": "/var/log/slurm/slurmd.log",
        "ProctrackType": "proctrack/cgroup",
        "TaskPlugin": "task/cgroup,task/affinity",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "MpiDefault": "none",
        "JobRequeue": "1",
        "ReturnToService": "2",
    }
