"""The instance template of a pool: everything that a VM of it is made from.

Bodies are plain mappings in the client library's spelling (snake_case), so that they can be hashed,
compared and shown. Sources: compute-engine.md, section 2 (Flex-start), and Google's reference of
instanceTemplates.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from slurm_flex.cluster import Cluster, Pool, Provisioning
from slurm_flex.cluster.machines import accelerator_name, family_of
from slurm_flex.cluster.settings import Settings
from slurm_flex.errors import FlexError
from slurm_flex.model.cloud import CLUSTER_LABEL

POOL_LABEL: Final = "slurm-flex-pool"
"""The second label of every VM of ours: its pool's id."""
STARTUP_KEY: Final = "startup-script"
SHORTEST_RUN: Final = timedelta(minutes=10)
"""The least that Compute Engine grants a Flex-start VM of a group."""

_LARGEST_STARTUP: Final = 256 * 1024  # one metadata value
_GPU_FAMILY: Final = re.compile(r"(?:a[234]x?|g[24])-")
_NEEDS_GVNIC: Final = re.compile(r"(?:a[34]x?|g4|h4d|c3d?|c4)-")
_RESERVATION_BOUND: Final = re.compile(r"a3-ultragpu-|a4x?-")
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_LONG_URL: Final = re.compile(r"https://[a-z.]+/compute/[a-z0-9]+/")


@dataclass(frozen=True)
class TemplateSpec:
    """A template as it should be. `name` is CLUSTER-POOL-<8 hex of its content>."""

    name: str
    properties: Mapping[str, Any]
    description: str

    @property
    def body(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "properties": dict(self.properties),
        }


def template_of(
    cluster: Cluster, settings: Settings, pool: Pool, startup_script: str = ""
) -> TemplateSpec:
    """The pool's template. Raises FlexError for what a template can't be made from."""
    properties = _properties(cluster, settings, pool, startup_script)
    return TemplateSpec(
        name=f"{cluster.group_name(pool)}-{content_hash(properties)}",
        properties=properties,
        description=ownership(cluster, pool),
    )


def content_hash(properties: Mapping[str, Any]) -> str:
    """Eight hex digits that change with any part of the content."""
    text = json.dumps(properties, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def ownership(cluster: Cluster, pool: Pool) -> str:
    """The description of our templates and groups, which take no labels of their own."""
    return f"{CLUSTER_LABEL}={cluster.id} {POOL_LABEL}={pool.id}"


def labels_of(cluster: Cluster, pool: Pool) -> dict[str, str]:
    """The VM's labels: the cluster's, the pool's over them, ours over both."""
    own = {CLUSTER_LABEL: cluster.id, POOL_LABEL: pool.id}
    return {**cluster.labels, **pool.labels, **own}


def run_duration_of(wanted: timedelta) -> timedelta:
    """The nearest duration that Compute Engine grants: 10 minutes at least, 7 days at most."""
    return max(SHORTEST_RUN, min(wanted, timedelta(days=7)))


def _properties(
    cluster: Cluster, settings: Settings, pool: Pool, startup_script: str
) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "machine_type": pool.machine_type,
        "labels": labels_of(cluster, pool),
        "disks": [_boot_disk(settings, pool)],
        "network_interfaces": [_network(cluster, pool)],
        "scheduling": _scheduling(pool),
        "reservation_affinity": _reservations(pool),
        "service_accounts": [{"email": cluster.service_account or "default", "scopes": [_SCOPE]}],
    }
    if pool.accelerator_count and pool.accelerator_type:
        kind = accelerator_name(pool.accelerator_type)
        gpus = {"accelerator_type": kind, "accelerator_count": pool.accelerator_count}
        properties["guest_accelerators"] = [gpus]
    if pool.confidential_instance_type:
        kind = pool.confidential_instance_type
        properties["confidential_instance_config"] = (
            {"enable_confidential_compute": True, "confidential_instance_type": kind}
        )  # fmt: skip
    if startup_script:
        properties["metadata"] = {"items": [_startup(pool, startup_script)]}
    return properties


def _startup(pool: Pool, script: str) -> dict[str, str]:
    size = len(script.encode())
    if size > _LARGEST_STARTUP:
        raise FlexError(
            f"the startup script of pool {pool.id} has {size} bytes",
            where="node_pools[].startup_script",
            fix=f"at most {_LARGEST_STARTUP}; let it fetch the rest from a file system",
        )
    return {"key": STARTUP_KEY, "value": script}


def _boot_disk(settings: Settings, pool: Pool) -> dict[str, Any]:
    image = pool.node_image or settings.node_image
    if not image:
        raise FlexError(
            f"pool {pool.id} has no image to boot from",
            where="node_pools[].node_image",
            fix='name one there, or for all pools node_image = "projects/..." in slurm-flex.toml',
        )
    family = family_of(pool.machine_type)
    return {
        "boot": True,
        "auto_delete": True,
        "initialize_params": {
            "source_image": _LONG_URL.sub("", image),
            "disk_type": pool.boot_disk.type or (family.boot_disk if family else "pd-ssd"),
            "disk_size_gb": pool.boot_disk.size_gb,
        },
    }


def _network(cluster: Cluster, pool: Pool) -> dict[str, Any]:
    """One interface; without an external address the VM needs Cloud NAT to get out."""
    interface: dict[str, Any] = {}
    if cluster.network or not cluster.subnetwork:
        interface["network"] = _LONG_URL.sub("", cluster.network) or "global/networks/default"
    if cluster.subnetwork:
        interface["subnetwork"] = _LONG_URL.sub("", cluster.subnetwork)
    if _NEEDS_GVNIC.match(pool.machine_type):
        interface["nic_type"] = "GVNIC"
    if pool.enable_public_ips:
        interface["access_configs"] = [{"name": "External NAT", "type_": "ONE_TO_ONE_NAT"}]
    return interface


def _scheduling(pool: Pool) -> dict[str, Any]:
    """A compute VM is never restarted on another host by itself: its job is gone, and a slurmd
    that comes back by surprise helps nobody. GPUs don't migrate."""
    if pool.is_flex_start:
        return {
            "provisioning_model": "FLEX_START",
            "instance_termination_action": "DELETE",
            "max_run_duration": {"seconds": _seconds(run_duration_of(pool.run_duration))},
            "on_host_maintenance": "TERMINATE",
            "automatic_restart": False,
            "preemptible": False,
        }
    if pool.provisioning_model is Provisioning.SPOT:
        return {
            "provisioning_model": "SPOT",
            "instance_termination_action": "DELETE",
            "on_host_maintenance": "TERMINATE",
            "automatic_restart": False,
            "preemptible": True,
        }
    if _is_reservation_bound(pool):
        return {
            "provisioning_model": "RESERVATION_BOUND",
            "instance_termination_action": "DELETE",
            "on_host_maintenance": "TERMINATE",
            "automatic_restart": False,
        }
    stays = not (_has_gpus(pool) or pool.confidential_instance_type or _is_h4d(pool))
    return {
        "provisioning_model": "STANDARD",
        "on_host_maintenance": "MIGRATE" if stays else "TERMINATE",
        "automatic_restart": pool.is_login,
    }


def _reservations(pool: Pool) -> dict[str, Any]:
    affinity = pool.reservation_affinity
    if pool.provisioning_model is not Provisioning.RESERVATION or affinity is None:
        return {"consume_reservation_type": "NO_RESERVATION"}
    if affinity.type != "SPECIFIC_RESERVATION":
        return {"consume_reservation_type": affinity.type}
    return {
        "consume_reservation_type": affinity.type,
        "key": affinity.key,
        "values": list(affinity.values),
    }


def _is_reservation_bound(pool: Pool) -> bool:
    """A3 Ultra and A4 come from dense reservations, which take only VMs that are bound to them
    (Google's page on reservation-bound instances)."""
    affinity = pool.reservation_affinity
    return (
        pool.provisioning_model is Provisioning.RESERVATION
        and affinity is not None
        and affinity.type == "SPECIFIC_RESERVATION"
        and _RESERVATION_BOUND.match(pool.machine_type) is not None
    )


def _has_gpus(pool: Pool) -> bool:
    return bool(pool.accelerator_count) or _GPU_FAMILY.match(pool.machine_type) is not None


def _is_h4d(pool: Pool) -> bool:
    return pool.machine_type.startswith("h4d-")


def _seconds(value: timedelta) -> int:
    return int(value.total_seconds())
