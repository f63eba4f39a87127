"""slurm-flex init: the two files of a first cluster, from a handful of answers.

The command line asks (or takes flags); nothing here reads a terminal. What comes out has passed
the same checks as a file written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurm_flex.cluster.config import parse_cluster
from slurm_flex.cluster.machines import Machine, accelerator_enum, family_of, find_machine
from slurm_flex.cluster.settings import FILE_NAME, Settings, parse_settings
from slurm_flex.cluster.settings_doc import toml_value
from slurm_flex.cluster.site import settle
from slurm_flex.durations import parse_duration
from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.folders import make_folder
from slurm_flex.text import one_line, whole_number

CLUSTER_FILE: Final = "cluster_config.json"


@dataclass(frozen=True)
class Question:
    """One thing to ask. ``flag`` is --flag on the command line; an empty default must be given."""

    flag: str
    text: str
    default: str = ""
    optional: bool = False


QUESTIONS: Final = (
    Question("project", "Google Cloud project id"),
    Question("zone", "Zone of the GPUs", "us-central1-b"),
    Question("cluster", "Cluster id: at most 10 lower-case letters and digits", "train"),
    Question("machine-type", "Machine type of the compute nodes", "a3-ultragpu-8g"),
    Question("max-nodes", "Most compute nodes at a time", "2"),
    Question("min-nodes", "Compute nodes to keep up, job or no job", "0"),
    Question("duration", "How long a VM may live: 10m to 7d", "7d"),
    Question("home", "Filestore or Lustre instance for /home: its name, or its full resource name"),
    Question("image", "Image with Slurm: projects/P/global/images/family/F"),
    Question("pool", "Name of the pool and its partition (empty: a3u and so on)", optional=True),
    Question("network", "VPC network", "default"),
    Question("subnetwork", "Subnetwork", "default"),
    Question("login-machine-type", "Machine type of the login node", "n2-standard-8"),
    Question(
        "key",
        "Where nodes find munge's key, secret:..., nfs:... or metadata:... (empty: in the image)",
        optional=True,
    ),
)
"""In the order in which they are asked."""


@dataclass(frozen=True)
class NewCluster:
    """Both files as text, checked."""

    cluster_config: str
    settings: str


def new_cluster(answers: Mapping[str, str], *, install_dir: str = "") -> NewCluster:
    """Make both files from answers (flag -> text). Raises InputErrors with all that is wrong.

    install_dir: where slurm-flex runs from, if it is to be written down.
    """
    known = {question.flag: question for question in QUESTIONS}
    errors = [
        FlexError("is no question", where=f"--{flag}") for flag in answers if flag not in known
    ]
    given = {
        flag: answers.get(flag, "").strip() or question.default for flag, question in known.items()
    }
    errors += [
        FlexError("is needed", where=f"--{question.flag}", fix=question.text)
        for question in QUESTIONS
        if not given[question.flag] and not question.optional
    ]
    counts = {}
    for flag in ("min-nodes", "max-nodes"):
        count = whole_number(given[flag])
        if count is not None:
            counts[flag] = count
        else:
            errors.append(
                FlexError(f'"{one_line(given[flag], 40)}" is not a number', where=f"--{flag}")
            )
    try:
        parse_duration(given["duration"])
    except FlexError as error:
        errors.append(FlexError(error.what, where="--duration", fix=error.fix))
    if errors:
        raise InputErrors(errors)
    data = _cluster_file(given, counts)
    chosen = {
        "node_image": given["image"],
        "key_source": given["key"],
        "install_dir": "" if install_dir == Settings().install_dir else install_dir,
    }
    settings = {name: value for name, value in chosen.items() if value}
    cluster = parse_cluster(data, source=CLUSTER_FILE)
    settle(cluster, parse_settings(settings), source=CLUSTER_FILE)
    return NewCluster(json.dumps(data, indent=2) + "\n", _settings_file(settings))


def already_there(folder: Path) -> list[FlexError]:
    """What keeps both files from being written into a folder: those that are there."""
    paths = [folder / name for name in (CLUSTER_FILE, FILE_NAME)]
    fix = "change it by hand, or move it away first"
    return [
        FlexError("is there already", where=str(path), fix=fix) for path in paths if path.exists()
    ]


def write_new(new: NewCluster, folder: Path) -> tuple[Path, Path]:
    """Write both files into a folder. Raises InputErrors rather than replace one."""
    texts = {folder / CLUSTER_FILE: new.cluster_config, folder / FILE_NAME: new.settings}
    there = already_there(folder)
    if there:
        raise InputErrors(there)
    try:
        make_folder(folder)
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
            # Meant to be read: hooks and the reading commands run as other users.
            path.chmod(0o644)
    except OSError as error:
        raise InputErrors([FlexError(error.strerror or str(error), where=str(folder))]) from error
    return folder / CLUSTER_FILE, folder / FILE_NAME


def _cluster_file(given: Mapping[str, str], counts: Mapping[str, int]) -> dict[str, Any]:
    project, zone = given["project"], given["zone"]
    region = zone.rpartition("-")[0]
    pool = given["pool"] or _pool_name(given["machine-type"])
    home = given["home"]
    if "/" not in home:
        home = f"projects/{project}/locations/{zone}/instances/{home}"
    vpc = f"projects/{project}/global/networks/{given['network']}"
    subnet = f"projects/{project}/regions/{region}/subnetworks/{given['subnetwork']}"
    login = {
        "id": "login",
        "machine_spec": {"machine_type": given["login-machine-type"]},
        "provisioning_model": "ON_DEMAND",
        "scaling_spec": {"min_node_count": 1, "max_node_count": 1},
        "enable_public_ips": True,
        "zone": zone,
        "boot_disk": _boot_disk(given["login-machine-type"]),
    }
    where = f"projects/{project}/locations/{region}"
    return {
        "name": f"{where}/modelDevelopmentClusters/{given['cluster']}",
        "display_name": given["cluster"],
        "network": {
            "network": vpc if "/" not in given["network"] else given["network"],
            "subnetwork": subnet if "/" not in given["subnetwork"] else given["subnetwork"],
        },
        "node_pools": [login, _compute_pool(given, counts, pool)],
        "orchestrator_spec": {
            "slurm_spec": {
                "home_directory_storage": home,
                "login_node_pool_id": "login",
                "partitions": [{"id": pool, "node_pool_ids": [pool]}],
                "default_partition_id": pool,
            }
        },
    }


def _compute_pool(given: Mapping[str, str], counts: Mapping[str, int], pool: str) -> dict[str, Any]:
    kind = given["machine-type"]
    machine = find_machine(kind) or Machine(kind, 0, 0)
    spec: dict[str, Any] = {"machine_type": kind}
    if machine.gpus:
        spec |= {
            "accelerator_type": accelerator_enum(machine.gpu),
            "accelerator_count": machine.gpus,
        }
    family = family_of(kind)
    flex = family is None or family.flex_start
    body: dict[str, Any] = {
        "id": pool,
        "machine_spec": spec,
        "provisioning_model": "FLEX_START" if flex else "ON_DEMAND",
        "scaling_spec": {
            "min_node_count": counts["min-nodes"],
            "max_node_count": counts["max-nodes"],
        },
        "enable_public_ips": False,
        "zone": given["zone"],
        "boot_disk": _boot_disk(kind),
    }
    if flex:
        life = parse_duration(given["duration"])
        body["flex_start_max_duration"] = f"{life.total_seconds():.0f}s"
    return body


def _boot_disk(machine_type: str) -> dict[str, Any]:
    family = family_of(machine_type)
    kind = family.boot_disk if family is not None else "pd-ssd"
    return {"boot_disk_type": kind, "boot_disk_size_gb": 200}


def _pool_name(machine_type: str) -> str:
    """a3-ultragpu-8g is a3u, a4-highgpu-8g is a4h, h4d-standard-192 is h4ds."""
    first, _, rest = machine_type.partition("-")
    return f"{first}{rest[:1]}"


def _settings_file(settings: Mapping[str, str]) -> str:
    lines = [
        "# What cluster_config.json has no place for. All settings: etc/slurm-flex.toml.",
        *(
            f"{name} = {toml_value(settings[name])}"
            for name in Settings.model_fields
            if name in settings
        ),
    ]
    return "\n".join(lines) + "\n"
