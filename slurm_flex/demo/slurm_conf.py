"""The configuration files of a cluster on one machine: loopback, no systemd, no cgroups."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from slurm_flex.demo.layout import CloudNode, Layout
from slurm_flex.demo.rendered import Rendered, read_rendered

# Values that are lists: ours, the rendered file's and the caller's are joined, not replaced.
_LISTS: Final = frozenset(
    ["grestypes", "privatedata", "schedulerparameters", "slurmctldparameters", "slurmdparameters"]
)
FAKE_GPUS: Final = 16  # files gpu0..gpu15; no machine type has more GPUs
_INCLUDES: Final = "slurm.conf.d"


def conf_files(
    layout: Layout, *, folder: Path, release: str, port: int
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Every configuration file (path below ``folder`` -> text), and the names of all nodes.

    ``port`` is slurmctld's; the nodes have the following ones.
    """
    rendered = Rendered()
    if layout.include is not None:
        rendered = read_rendered(layout.include, port + 1)
    own_first_port = port + 1 + len(rendered.nodes)
    timeouts = layout.timeouts.settings() if layout.timeouts is not None else {}
    given = merged(layout.programs.settings(folder), timeouts, layout.settings)
    from_rendered = rendered.settings()
    # A key stands in slurm.conf once: there, or in the rendered file where nothing else sets it.
    base = _base(folder, port, layout.slurm_user)
    together = merged(base, from_rendered, given)
    ours = {key.lower() for key in given}
    ours |= {key.lower() for key in base if key.lower() in _LISTS}
    ours |= {key.lower() for key in base} - {key.lower() for key in from_rendered}
    settings = {key: value for key, value in together.items() if key.lower() in ours}
    nodes = (*rendered.nodes, *layout.nodes)
    kinds = {gres.split(":")[0] for node in nodes for gres in node.gres.split(",") if gres}
    if kinds:
        settings = merged(settings, {"GresTypes": ",".join(sorted(kinds))})
    rendered = rendered.without(settings)
    lines = [
        *(f"{key}={value}" for key, value in settings.items()),
        *_node_lines(layout.nodes, own_first_port),
        *(
            f"PartitionName={part.name} Nodes={part.nodes} {part.options}".rstrip()
            for part in layout.partitions
        ),
        *layout.lines,
        *(f"Include {folder / _INCLUDES / name}" for name in rendered.included),
    ]
    files = {"slurm.conf": "".join(f"{line}\n" for line in lines)}
    files |= {f"{_INCLUDES}/{name}": text for name, text in rendered.included.items()}
    if release != "22.05":  # which doesn't know the value; it looks for none without the file
        files["cgroup.conf"] = "CgroupPlugin=disabled\n"
    if kinds:
        files["gres.conf"] = _gres_conf(nodes, folder / "dev")
    names = tuple(node.name for node in nodes)
    return {**rendered.beside, **files, **layout.files}, names


def merged(*layers: Mapping[str, str]) -> dict[str, str]:
    """Settings of several layers, the last wins; keys are case-insensitive and lists are joined."""
    result: dict[str, str] = {}
    spelt: dict[str, str] = {}
    for layer in layers:
        for key, value in layer.items():
            name = spelt.setdefault(key.lower(), key)
            joins = key.lower() in _LISTS and name in result
            result[name] = _join(result[name], value) if joins else value
    return result


def _join(first: str, second: str) -> str:
    parts: dict[str, str] = {}
    for part in filter(None, f"{first},{second}".split(",")):
        parts[part.split("=")[0].lower()] = part
    return ",".join(parts.values())


def _base(folder: Path, port: int, slurm_user: str) -> dict[str, str]:
    return {
        "ClusterName": "flex",
        "SlurmctldHost": f"{os.uname().nodename.split('.')[0]}(127.0.0.1)",
        "SlurmctldPort": str(port),
        "SlurmUser": slurm_user,
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge/socket",
        "StateSaveLocation": f"{folder}/state",
        "SlurmdSpoolDir": f"{folder}/spool/%n",
        "SlurmctldPidFile": f"{folder}/run/slurmctld.pid",
        "SlurmdPidFile": f"{folder}/run/slurmd-%n.pid",
        "SlurmctldLogFile": f"{folder}/log/slurmctld.log",
        "SlurmdLogFile": f"{folder}/log/slurmd-%n.log",
        "SlurmctldDebug": "debug",
        "DebugFlags": "Power",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "ReturnToService": "2",
        "JobRequeue": "1",
        # Nodes claim the hardware of their machine type, whatever this machine has.
        "SlurmdParameters": "config_overrides",
        "SlurmctldParameters": "cloud_dns,idle_on_node_suspend,power_save_interval=2",
        "SchedulerParameters": "sched_interval=5,bf_interval=5",
        # Before 23.02 nodes that are off are shown to nobody without it.
        "PrivateData": "cloud",
    }


def _node_lines(nodes: Iterable[CloudNode], first_port: int) -> list[str]:
    lines = []
    for port, node in enumerate(nodes, first_port):
        extra = f" Gres={node.gres}" if node.gres else ""
        extra += f" Feature={node.features}" if node.features else ""
        lines.append(
            f"NodeName={node.name} Port={port} State=CLOUD CPUs={node.cpus} "
            f"RealMemory={node.memory_mb}{extra}"
        )
    return lines


def _gres_conf(nodes: Iterable[CloudNode], devices: Path) -> str:
    """Each GPU is a file, since Slurm drops GPUs that have none; all nodes share the files."""
    lines = ["AutoDetect=off"]
    for node in nodes:
        for gres in filter(None, node.gres.split(",")):
            kind, *rest = gres.split(":")
            of_type = f" Type={rest[0]}" if len(rest) > 1 else ""
            count = int(rest[-1]) if rest and rest[-1].isdigit() else 1
            files = f" File={devices}/gpu[0-{count - 1}]" if count > 1 else f" File={devices}/gpu0"
            where = files if kind == "gpu" else ""
            lines.append(f"NodeName={node.name} Name={kind}{of_type} Count={count}{where}")
    return "".join(f"{line}\n" for line in lines)
