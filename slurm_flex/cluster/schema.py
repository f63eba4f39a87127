"""The shape of cluster_config.json, written down once.

The reader walks this tree to check and normalise a file, and ``slurm-flex render --schema``
turns the same tree into a JSON Schema for editors. Source of the fields and their ranges:
Google's create-cluster, orchestration and Flex-start pages, and the resource
ModelDevelopmentCluster of the provider schema (2026, beta).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

RFC1035: Final = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"
_LABEL_KEY: Final = r"[a-z][a-z0-9_-]{0,62}"
_LABEL_VALUE: Final = r"[a-z0-9_-]{0,63}"
_PROJECT: Final = r"[a-z0-9.:-]+"
_ZONE: Final = r"[a-z]+-[a-z]+[0-9]+-[a-z]"
_REGION: Final = r"[a-z]+-[a-z]+[0-9]+"
_API: Final = r"(https://[a-z]+\.googleapis\.com/[a-z0-9]+/)?"


@dataclass(frozen=True)
class Text:
    """A string. ``pattern`` must match all of it; ``shape`` says in words what that means.

    free: any text (a script); placeholders are not looked for in it. plain: a word in capitals is
    a mistake, not a placeholder.
    """

    pattern: str = ""
    shape: str = ""
    choices: tuple[str, ...] = ()
    free: bool = False
    plain: bool = False
    longest: int = 0
    may_be_empty: bool = True
    about: str = ""


@dataclass(frozen=True)
class Number:
    """An integer; a string of digits is taken for one (proto JSON writes int64 so)."""

    least: int = 0
    most: int = 2**31 - 1
    about: str = ""


@dataclass(frozen=True)
class Flag:
    """true or false; the strings "true" and "false" are taken too (Google's example has one)."""

    about: str = ""


@dataclass(frozen=True)
class Seconds:
    """Google's JSON duration, ``"<n>s"``."""

    least: int
    most: int
    about: str = ""


@dataclass(frozen=True)
class Items:
    """A list of one kind."""

    of: Shape
    about: str = ""


@dataclass(frozen=True)
class Pairs:
    """A map with keys of the writer's choice and text values (numbers and booleans are printed)."""

    key: Text
    value: Text
    about: str = ""


@dataclass(frozen=True)
class Group:
    """An object with known keys. ``refused`` keys exist at Google and mean nothing here: why."""

    fields: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    output: tuple[str, ...] = ()
    about: str = ""


Shape = Text | Number | Flag | Seconds | Items | Pairs | Group

_ID = Text(
    RFC1035,
    "lower-case letters, digits and hyphens, beginning with a letter, at most 63",
    may_be_empty=False,
)
_LABELS = Pairs(
    Text(
        _LABEL_KEY,
        "lower-case letters, digits, _ and -, beginning with a letter, at most 63",
        plain=True,
    ),
    Text(_LABEL_VALUE, "lower-case letters, digits, _ and -, at most 63", plain=True),
    about="Labels; copied to the VMs (billing).",
)
_CONFIG = Pairs(
    Text(r"[A-Za-z][A-Za-z0-9_]*", "the name of a Slurm parameter"),
    Text(r"[^\n\r#]*[^\n\r#\\]", "one line, not empty, without #", may_be_empty=False),
    about="Slurm parameters, Key: Value; composite values as in slurm.conf.",
)
_SCRIPTS = Items(Text(free=True, may_be_empty=False), about="Whole script texts, in order.")
_FILESTORE = Text(
    _API + rf"projects/{_PROJECT}/locations/[a-z0-9-]+/instances/[a-z][a-z0-9-]*",
    "projects/PROJECT/locations/LOCATION/instances/NAME",
)

_RESERVATION_AFFINITY = Group(
    {
        "type": Text(choices=("NO_RESERVATION", "ANY_RESERVATION", "SPECIFIC_RESERVATION")),
        "key": Text(about="compute.googleapis.com/reservation-name for a specific one."),
        "values": Items(Text(may_be_empty=False), about="Reservation, block or sub-block names."),
    },
    required=("type",),
    aliases={"reservation_affinity_type": "type"},
    about="Only with RESERVATION.",
)

_MACHINE_SPEC = Group(
    {
        "machine_type": Text(
            r"[a-z][a-z0-9]*(-[a-z0-9]+)+", "a machine type such as a3-ultragpu-8g"
        ),
        "accelerator_type": Text(
            r"[A-Z][A-Z0-9_]*|nvidia-[a-z0-9-]+", "an accelerator such as NVIDIA_H200_141GB"
        ),
        "accelerator_count": Number(0, 16),
        "reservation_affinity": _RESERVATION_AFFINITY,
    },
    required=("machine_type",),
    refused={
        "gpu_partition_size": "GPUs can't be split here; remove it",
        "tpu_topology": "TPUs are no Slurm nodes here; choose a GPU or CPU machine_type",
    },
    about="The machine: machine_type, and accelerator_type and accelerator_count for GPUs.",
)

_NODE_POOL = Group(
    {
        "id": _ID,
        "machine_spec": _MACHINE_SPEC,
        "provisioning_model": Text(choices=("FLEX_START", "ON_DEMAND", "SPOT", "RESERVATION")),
        "flex_start_max_duration": Seconds(
            30, 604800, "How long a Flex-start VM may live; only with FLEX_START; default 604800s."
        ),
        "scaling_spec": Group(
            {"min_node_count": Number(0, 65536), "max_node_count": Number(0, 65536)},
            about="0 <= min <= max. The first min nodes are static, the rest dynamic.",
        ),
        "zone": Text(_ZONE, "a zone such as us-central1-a"),
        "enable_public_ips": Flag("Without it, Cloud NAT is the way out."),
        "boot_disk": Group(
            {
                "boot_disk_type": Text(choices=("pd-ssd", "pd-standard", "hyperdisk-balanced")),
                "boot_disk_size_gb": Number(10, 65536),
            }
        ),
        "node_image": Text(
            _API + rf"projects/{_PROJECT}/global/images/(family/)?[a-z0-9][a-z0-9._-]*",
            "projects/PROJECT/global/images/IMAGE or .../images/family/FAMILY",
        ),
        "startup_script": Text(free=True, about="Runs on every node of the pool, before slurmd."),
        "filestores": Items(_FILESTORE, about="Mounted at /mnt/filestore, /mnt/filestore1, ..."),
        "lustres": Items(_FILESTORE, about="Mounted under /mnt/lustre/."),
        "labels": _LABELS,
        "confidential_instance_config": Group(
            {"confidential_instance_type": Text(choices=("SEV", "SEV_SNP", "TDX"))}
        ),
    },
    required=("id", "machine_spec", "zone", "scaling_spec"),
    output=("effective_flex_start_max_duration",),
)


def _list_of(*words: str, shape: str) -> Text:
    """Words with commas between them. Slurm's daemons don't start with one that they don't know
    (man slurm.conf, the same from 22.05 to 26.05)."""
    one = f"({'|'.join(words)})"
    return Text(f"{one}(,{one})*", shape)


_WEIGHT = Number(0, 2**31 - 1)
_SCHEDULING = Group(
    {
        "priority_type": Text(choices=("priority/basic", "priority/multifactor")),
        "priority_weight_age": _WEIGHT,
        "priority_weight_assoc": _WEIGHT,
        "priority_weight_fairshare": _WEIGHT,
        "priority_weight_job_size": _WEIGHT,
        "priority_weight_partition": _WEIGHT,
        "priority_weight_qos": _WEIGHT,
        "priority_weight_tres": Text(
            r"[A-Za-z0-9_/:.,=-]+", "TRES weights such as CPU=1000,GRES/gpu=3000"
        ),
        "preempt_type": Text(choices=("preempt/none", "preempt/partition_prio", "preempt/qos")),
        "preempt_mode": _list_of(
            *("OFF", "CANCEL", "GANG", "REQUEUE", "SUSPEND", "WITHIN"),
            *("off", "cancel", "gang", "requeue", "suspend", "within"),
            shape="OFF, CANCEL, GANG, REQUEUE, SUSPEND, WITHIN or a list",
        ),
        "preempt_exempt_time": Text(
            r"-1|([0-9]+-)?[0-9]+(:[0-9]+){0,2}", "a Slurm time such as 00:10:00"
        ),
    }
)

_SLURM_SPEC = Group(
    {
        "home_directory_storage": _FILESTORE,
        "login_node_pool_id": replace(
            _ID, about="The id of the pool whose VMs people log in to; they are no Slurm nodes."
        ),
        "partitions": Items(
            Group(
                {
                    "id": Text(
                        r"[A-Za-z0-9][A-Za-z0-9_.-]*",
                        "letters, digits, _, - and ., beginning with a letter or digit",
                        may_be_empty=False,
                    ),
                    "node_pool_ids": Items(_ID),
                    "config": _CONFIG,
                },
                required=("id", "node_pool_ids"),
            ),
            about='At least one { "id": ..., "node_pool_ids": [...] }.',
        ),
        "default_partition_id": Text(may_be_empty=False),
        "node_sets": Items(
            Group({"node_pool_id": _ID, "config": _CONFIG}, required=("node_pool_id",))
        ),
        "config": _CONFIG,
        "prolog_bash_scripts": _SCRIPTS,
        "epilog_bash_scripts": _SCRIPTS,
        "task_prolog_bash_scripts": _SCRIPTS,
        "task_epilog_bash_scripts": _SCRIPTS,
        "accounting": Group(
            {
                "accounting_storage_enforce": _list_of(
                    *("all", "associations", "limits", "nojobs", "nosteps", "qos", "safe"),
                    "wckeys",
                    shape="a list of all, associations, limits, nojobs, nosteps, qos, safe, wckeys",
                )
            }
        ),
        "scheduling": _SCHEDULING,
    },
    required=("home_directory_storage", "login_node_pool_id", "partitions"),
)

CLUSTER = Group(
    {
        "name": Text(
            rf"projects/{_PROJECT}/locations/{_REGION}/modelDevelopmentClusters/([a-z][a-z0-9-]*)?",
            "projects/PROJECT/locations/REGION/modelDevelopmentClusters/ID",
        ),
        "display_name": Text(longest=128),
        "labels": _LABELS,
        "network": Group(
            {
                "network": Text(
                    _API + rf"projects/{_PROJECT}/global/networks/{RFC1035}",
                    "projects/PROJECT/global/networks/NAME",
                ),
                "subnetwork": Text(
                    _API + rf"projects/{_PROJECT}/regions/{_REGION}/subnetworks/{RFC1035}",
                    "projects/PROJECT/regions/REGION/subnetworks/NAME",
                ),
            }
        ),
        "node_pools": Items(_NODE_POOL, about="A login pool and at least one more."),
        "orchestrator_spec": Group(
            {"slurm_spec": _SLURM_SPEC},
            required=("slurm_spec",),
            refused={"gke_spec": "slurm-flex runs Slurm; a GKE cluster needs another tool"},
        ),
        "runtime_spec": Group(
            {
                "service_account": Text(
                    r"[a-z0-9-]+@[a-z0-9.-]+\.gserviceaccount\.com",
                    "NAME@PROJECT.iam.gserviceaccount.com",
                )
            }
        ),
    },
    required=("node_pools", "orchestrator_spec"),
    refused={
        "lustre_export_config": "backups of Lustre are not slurm-flex's work; "
        "schedule `gcloud lustre instances export-data` instead"
    },
    output=(
        "$schema",
        "create_time",
        "update_time",
        "state",
        "cluster_status",
        "nodes_status",
        "cluster_events",
        "etag",
        "uid",
    ),
)
