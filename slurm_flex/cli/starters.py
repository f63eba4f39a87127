"""The two files that `slurm-flex init` writes: small, valid, to be edited."""

from __future__ import annotations

import json
from typing import Any

from slurm_flex.cluster.machines import (
    accelerator_enum,
    family_of,
    find_machine,
    nearest_machine_type,
)
from slurm_flex.cluster.settings_doc import document
from slurm_flex.errors import FlexError


def starter_files(
    name: str, project: str, zone: str, machine_type: str, nodes: int
) -> dict[str, str]:
    """File name -> text. Raises FlexError for a machine type that nothing is known of."""
    config = _cluster(name, project, zone, machine_type, nodes)
    return {
        "cluster_config.json": json.dumps(config, indent=2) + "\n",
        "slurm-flex.toml": document(),
    }


def _cluster(name: str, project: str, zone: str, machine_type: str, nodes: int) -> dict[str, Any]:
    region = zone.rpartition("-")[0]
    machine, family = find_machine(machine_type), family_of(machine_type)
    if machine is None or family is None:
        meant = nearest_machine_type(machine_type)
        fix = f"did you mean {meant}?" if meant else "see Compute Engine's machine types"
        raise FlexError(f"{machine_type} is no machine type we know", fix=fix)
    spec: dict[str, Any] = {"machine_type": machine_type}
    if machine.gpu:
        spec |= {
            "accelerator_type": accelerator_enum(machine.gpu),
            "accelerator_count": machine.gpus,
        }
    pool: dict[str, Any] = {"id": "gpu" if machine.gpu else "cpu", "machine_spec": spec}
    if family.flex_start:
        pool |= {"provisioning_model": "FLEX_START", "flex_start_max_duration": "604800s"}
    else:
        pool["provisioning_model"] = "ON_DEMAND"
    pool |= {
        "scaling_spec": {"min_node_count": 0, "max_node_count": nodes},
        "zone": zone,
        "boot_disk": {"boot_disk_type": family.boot_disk, "boot_disk_size_gb": 200},
    }
    login = {
        "id": "login",
        "machine_spec": {"machine_type": "n2-standard-8"},
        "scaling_spec": {"min_node_count": 1, "max_node_count": 1},
        "zone": zone,
        "boot_disk": {"boot_disk_type": "pd-standard", "boot_disk_size_gb": 200},
    }
    return {
        "name": f"projects/{project}/locations/{region}/modelDevelopmentClusters/{name}",
        "display_name": name,
        "network": {
            "network": f"projects/{project}/global/networks/default",
            "subnetwork": f"projects/{project}/regions/{region}/subnetworks/default",
        },
        "node_pools": [login, pool],
        "orchestrator_spec": {
            "slurm_spec": {
                "home_directory_storage": (f"projects/{project}/locations/{zone}/instances/home"),
                "login_node_pool_id": "login",
                "partitions": [{"id": pool["id"], "node_pool_ids": [pool["id"]]}],
            }
        },
    }
