"""The two files of a demo cluster: cluster_config.json and slurm-flex.toml."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from slurm_flex.cluster.config import parse_cluster
from slurm_flex.cluster.model import Cluster
from slurm_flex.cluster.settings import Settings, parse_settings
from slurm_flex.cluster.site import settle
from slurm_flex.demo.world_space import REPOSITORY
from slurm_flex.durations import format_duration

PROJECT: Final = "example-project"
REGION: Final = "us-central1"
_SUBNETWORK: Final = f"projects/{PROJECT}/regions/{REGION}/subnetworks/default"
_IMAGE: Final = f"projects/{PROJECT}/global/images/family/slurm-node"

# A life in seconds that takes minutes or hours in the field; what isn't here has its default.
QUICK: Final[Mapping[str, object]] = {
    "interval": timedelta(seconds=3),
    "busy_interval": timedelta(seconds=1),
    "orphan_grace": timedelta(seconds=4),
    "delete_grace": timedelta(seconds=4),
    "suspend_timeout": timedelta(seconds=4),
    "suspend_time": timedelta(seconds=15),
    "boot_timeout": timedelta(minutes=1),
    "capacity_backoff": timedelta(seconds=5),
    "capacity_backoff_max": timedelta(seconds=20),
    "boot_backoff": timedelta(seconds=5),
    "boot_backoff_max": timedelta(seconds=20),
    # A VM that is about to end stays until it ends: here that is what is looked at.
    "min_useful_life": timedelta(0),
    "slurm_timeout": timedelta(seconds=10),
    "cloud_timeout": timedelta(seconds=10),
    "observe_deadline": timedelta(seconds=15),
}


@dataclass(frozen=True)
class DemoPool:
    """A pool of Flex-start VMs with eight GPUs, and the partition of the same name."""

    id: str
    dynamic: int = 0
    static: int = 0
    run_duration: timedelta = timedelta(days=7)
    zone: str = f"{REGION}-a"

    def entry(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "machine_spec": {
                "machine_type": "a3-ultragpu-8g",
                "accelerator_type": "NVIDIA_H200_141GB",
                "accelerator_count": 8,
            },
            "provisioning_model": "FLEX_START",
            "flex_start_max_duration": f"{self.run_duration.total_seconds():.0f}s",
            "scaling_spec": {
                "min_node_count": self.static,
                "max_node_count": self.static + self.dynamic,
            },
            "zone": self.zone,
            "boot_disk": {"boot_disk_type": "hyperdisk-balanced", "boot_disk_size_gb": 200},
        }


@dataclass(frozen=True)
class DemoSite:
    """Pools and what differs from the quick settings. health: checks before and after jobs."""

    pools: Sequence[DemoPool]
    name: str = "demo"
    settings: Mapping[str, object] = field(default_factory=dict)
    health: bool = False

    def cluster(self) -> Cluster:
        """The cluster file as the product reads it. Raises InputErrors."""
        return settle(parse_cluster(json.loads(self.cluster_text())), self.values())

    def values(self) -> Settings:
        """The settings as the product reads them, but for the folders. Raises InputErrors."""
        return parse_settings(self._settings())

    def cluster_text(self) -> str:
        """cluster_config.json."""
        login = {
            "id": "login",
            "machine_spec": {"machine_type": "n2-standard-8"},
            "scaling_spec": {"min_node_count": 1, "max_node_count": 1},
            "zone": f"{REGION}-a",
            "boot_disk": {"boot_disk_type": "pd-standard", "boot_disk_size_gb": 200},
        }
        cluster = {
            "name": f"projects/{PROJECT}/locations/{REGION}/modelDevelopmentClusters/{self.name}",
            "display_name": self.name,
            "network": {
                "network": f"projects/{PROJECT}/global/networks/default",
                "subnetwork": _SUBNETWORK,
            },
            "node_pools": [login, *(pool.entry() for pool in self.pools)],
            "orchestrator_spec": {
                "slurm_spec": {
                    "home_directory_storage": (
                        f"projects/{PROJECT}/locations/{REGION}-a/instances/home"
                    ),
                    "login_node_pool_id": "login",
                    "partitions": [
                        {"id": pool.id, "node_pool_ids": [pool.id]} for pool in self.pools
                    ],
                }
            },
        }
        return json.dumps(cluster, indent=2) + "\n"

    def settings_text(self, folder: Path, *, endpoint: str, bin_dir: Path, **more: object) -> str:
        """slurm-flex.toml of a world in ``folder``."""
        places = {
            "endpoint": endpoint,
            "slurm_bin_dir": str(bin_dir),
            "state_dir": str(folder / "flex/state"),
            "run_dir": str(folder / "flex/run"),
        }
        given = {**self._settings(), **places, **more}
        return "".join(f"{key} = {_toml(value)}\n" for key, value in given.items())

    def _settings(self) -> dict[str, object]:
        fixed = {
            "credentials": "anonymous",
            "node_image": _IMAGE,
            "install_dir": str(REPOSITORY),
            "health_checks": self.health,
        }
        return {**QUICK, **fixed, **self.settings}


def _toml(value: object) -> str:
    """A value as TOML; JSON's strings, numbers and booleans are TOML's as well."""
    if isinstance(value, timedelta):
        return json.dumps(format_duration(value))
    if isinstance(value, Mapping):
        inner = ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items())
        return f"{{ {inner} }}"
    return json.dumps(value)
