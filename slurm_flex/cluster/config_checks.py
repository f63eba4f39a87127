"""Are the Slurm parameters in the cluster file Slurm's, and the site's to set?

config{}, partitions[].config{} and node_sets[].config{} go into slurm.conf as they are, so a key
must be known to some release (render checks the installed one) and must not be one that
slurm-flex sets itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from slurm_flex.cluster.model import Cluster
from slurm_flex.cluster.reader import Reader
from slurm_flex.cluster.slurm_keys import Scope, is_key, nearest_key, spelling

_SLURM: Final = "orchestrator_spec.slurm_spec"
_TIMES: Final = "set {} in slurm-flex.toml"
_FROM_POOLS: Final = "nodes and partitions come from node_pools and partitions"
_PROGRAMS: Final = "slurm-flex's own program; use prolog_bash_scripts, epilog_bash_scripts"

RESERVED: Final[Mapping[Scope, Mapping[str, str]]] = {
    "global": {
        "clustername": "the cluster's id",
        "slurmctldhost": "the controller's own business",
        "nodename": _FROM_POOLS,
        "nodeset": _FROM_POOLS,
        "partitionname": _FROM_POOLS,
        "downnodes": _FROM_POOLS,
        "include": "write it into slurm.conf",
        "suspendprogram": "slurm-flex is the power manager here",
        "resumeprogram": "slurm-flex is the power manager here",
        "resumefailprogram": "slurm-flex is the power manager here",
        "suspendtime": _TIMES.format("suspend_time"),
        "suspendtimeout": _TIMES.format("suspend_timeout"),
        "resumetimeout": _TIMES.format("resume_timeout"),
        "suspendrate": "a rate would hand a job's nodes over in parts",
        "resumerate": "a rate would hand a job's nodes over in parts",
        "suspendexcnodes": "min_node_count says which nodes stay up",
        "suspendexcstates": "drained nodes are kept for whoever drained them",
        "prolog": _PROGRAMS,
        "epilog": _PROGRAMS,
        "taskprolog": "use task_prolog_bash_scripts",
        "taskepilog": "use task_epilog_bash_scripts",
    },
    "partition": {
        "partitionname": "the partition's id",
        "nodes": "node_pool_ids says which",
        "default": "default_partition_id says which",
        "resumetimeout": _TIMES.format("resume_timeout"),
        "suspendtimeout": _TIMES.format("suspend_timeout"),
    },
    "node": {
        "nodename": _FROM_POOLS,
        "nodeaddr": "slurmd reports it when it registers",
        "nodehostname": "slurmd reports it when it registers",
        "state": "all nodes are CLOUD nodes",
        "reason": "all nodes are CLOUD nodes",
        "gres": "GPUs come from machine_spec",
    },
}

_SCHEDULING: Final = {
    "priority_weight_tres": "PriorityWeightTRES",
    "priority_weight_qos": "PriorityWeightQOS",
}


def scheduling_key(name: str) -> str:
    """slurm.conf's name of a key of the scheduling block: priority_weight_job_size and so on."""
    plain = "".join(part.capitalize() for part in name.split("_"))
    return _SCHEDULING.get(name, spelling("global", plain))


def check_configs(cluster: Cluster, reader: Reader) -> None:
    """Complain of keys that are unknown, reserved, or said in two places."""
    _check(cluster.slurm.config, "global", f"{_SLURM}.config", reader)
    for at, part in enumerate(cluster.partitions):
        _check(part.config, "partition", f"{_SLURM}.partitions[{at}].config", reader)
    for at, node_set in enumerate(cluster.slurm.node_sets):
        _check(node_set.config, "node", f"{_SLURM}.node_sets[{at}].config", reader)
    blocks = {scheduling_key(name).lower(): "scheduling" for name in cluster.slurm.scheduling}
    if cluster.slurm.accounting_storage_enforce:
        blocks["accountingstorageenforce"] = "accounting"
    for key in cluster.slurm.config:
        if key.lower() in blocks:
            what = f"is set by the block {blocks[key.lower()]} as well"
            reader.complain(f'{_SLURM}.config["{key}"]', what, "keep one of the two")


def _check(config: Mapping[str, str], scope: Scope, path: str, reader: Reader) -> None:
    seen: dict[str, str] = {}
    for key, value in config.items():
        where = f'{path}["{key}"]'
        low = key.lower()
        if low in seen:
            reader.complain(where, f'is "{seen[low]}" again', "keys are case-insensitive")
        seen.setdefault(low, key)
        if low in RESERVED[scope]:
            reader.complain(where, "is reserved", RESERVED[scope][low])
        elif not is_key(scope, key):
            kind = {"global": "slurm.conf", "node": "a NodeName line", "partition": "a partition"}
            reader.complain(
                where, f"is no parameter of {kind[scope]}", _where_it_belongs(scope, key)
            )
        elif scope != "global" and re.search(r"\s", value.strip()) and not _quoted(value):
            reader.complain(where, f'"{value}" has a blank in it', "one value, without blanks")


def _where_it_belongs(scope: Scope, key: str) -> str:
    meant = nearest_key(scope, key)
    if meant:
        return f"did you mean {meant}?"
    places: dict[Scope, str] = {
        "global": "config", "partition": "partitions[].config", "node": "node_sets[].config",
    }  # fmt: skip
    fits = [place for other, place in places.items() if is_key(other, key)]
    return f"it belongs in {' or '.join(fits)}" if fits else "see man slurm.conf"


def _quoted(value: str) -> bool:
    return len(value) > 1 and value[0] == value[-1] == '"'
