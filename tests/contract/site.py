"""A cluster of two zones on an emulator: what the tests of the compute backend work on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from google.cloud import compute_v1

from slurm_flex.cluster import Cluster, Pool, parse_cluster
from slurm_flex.cluster.settings import Settings, parse_settings
from slurm_flex.compute import open_fleet
from slurm_flex.compute.clients import sign_in
from slurm_flex.compute.fleet import Operation, Outcome
from slurm_flex.compute.google import GoogleFleet
from slurm_flex.emulator.launcher import Emulator
from slurm_flex.model import Group

T = TypeVar("T")

PROJECT = "p1"
IMAGE = "projects/p1/global/images/family/nodes"
WEEK = timedelta(days=7)
FAST = {
    "op_delay": "0.02s",
    "accept_delay": "0.02s",
    "provision_delay": "0.02s",
    "boot_delay": "0.02s",
    "stopping_delay": "0.02s",
    "capacity_retry": "0.1s",
}


def pool(
    pool_id: str, *, zone: str = "us-central1-a", count: int = 4, **more: Any
) -> dict[str, Any]:
    """A Flex-start pool of H200 machines, as it stands in the cluster file."""
    spec = {
        "machine_type": "a3-ultragpu-8g",
        "accelerator_type": "NVIDIA_H200_141GB",
        "accelerator_count": 8,
    }
    return {
        "id": pool_id,
        "zone": zone,
        "provisioning_model": "FLEX_START",
        "machine_spec": spec,
        "scaling_spec": {"min_node_count": 0, "max_node_count": count},
        **more,
    }


def cpu_pool(pool_id: str, *, count: int = 2, minimum: int = 0, **more: Any) -> dict[str, Any]:
    """A pool of plain machines that come one by one."""
    return pool(
        pool_id,
        provisioning_model="ON_DEMAND",
        machine_spec={"machine_type": "n2-standard-8"},
        scaling_spec={"min_node_count": minimum, "max_node_count": count},
        **more,
    )


def cluster_of(*pools: dict[str, Any], cluster_id: str = "c1", login: int = 1) -> Cluster:
    """A cluster with these pools beside its login pool."""
    place = f"projects/{PROJECT}/locations"
    return parse_cluster(
        {
            "name": f"{place}/us-central1/modelDevelopmentClusters/{cluster_id}",
            "node_pools": [cpu_pool("login", count=login, minimum=login), *pools],
            "orchestrator_spec": {
                "slurm_spec": {
                    "home_directory_storage": f"{place}/us-central1-a/instances/h",
                    "login_node_pool_id": "login",
                    "partitions": [{"id": "all", "node_pool_ids": [item["id"] for item in pools]}],
                }
            },
        }
    )  # fmt: skip


@dataclass
class Cloud:
    """An emulator, the cluster on it, and the fleet that is tested."""

    emulator: Emulator
    cluster: Cluster
    settings: Settings
    fleet: GoogleFleet

    def pool(self, pool_id: str) -> Pool:
        found = self.cluster.pool(pool_id)
        assert found is not None
        return found

    def make_groups(self) -> None:
        """Template and group of every compute pool."""
        waiting = {item.id: item for item in self.cluster.compute_pools}
        end = time.monotonic() + 20
        while waiting and time.monotonic() < end:
            for pool_id, wanted in list(waiting.items()):
                operation = self.fleet.ensure_group(wanted)
                if operation.verdict.value == "already":
                    del waiting[pool_id]
                else:
                    self.finish(operation)
        assert not waiting

    def finish(self, *operations: Operation) -> tuple[Outcome, ...]:
        """Poll until they are over."""
        return until(
            lambda: self.fleet.poll(operations), lambda found: all(one.is_over for one in found)
        )

    def ask(self, pool_id: str, name: str, nodes: Sequence[str] = (), nonce: str = "1") -> Outcome:
        """A request for some of the pool's nodes (all of them by default), accepted or refused."""
        wanted = nodes or self.cluster.node_names(pool_id)
        operation = self.fleet.request(self.pool(pool_id), name, wanted, WEEK, nonce=nonce)
        return self.finish(operation)[0]

    def read(self, pool_id: str) -> Group:
        return self.fleet.read([self.pool(pool_id)])[pool_id]

    def read_until(self, pool_id: str, holds: Callable[[Group], bool]) -> Group:
        return until(lambda: self.read(pool_id), holds)

    def running(self, pool_id: str, count: int) -> Group:
        """The pool once so many of its instances run."""
        return self.read_until(
            pool_id, lambda group: sum(item.is_running for item in group.instances) == count
        )

    def calls(self) -> int:
        return self.fleet.calls.total()

    def client(self, kind: type[Any]) -> Any:
        """A client of Google's, for what others do in the same project."""
        options = {"api_endpoint": self.emulator.url}
        return kind(credentials=sign_in("anonymous"), client_options=options)

    def insert_foreign_vm(self, name: str, labels: dict[str, str]) -> None:
        """A VM that somebody else made by hand."""
        network = compute_v1.NetworkInterface(network="global/networks/default")
        disk = compute_v1.AttachedDisk(
            boot=True, initialize_params=compute_v1.AttachedDiskInitializeParams(source_image=IMAGE)
        )
        machine_type = "zones/us-central1-a/machineTypes/n2-standard-8"
        vm = compute_v1.Instance(
            name=name, machine_type=machine_type, labels=labels, disks=[disk],
            network_interfaces=[network],
        )  # fmt: skip
        client = self.client(compute_v1.InstancesClient)
        client.insert_unary(project=PROJECT, zone="us-central1-a", instance_resource=vm)


@contextmanager
def cloud(
    cluster: Cluster, *, knobs: dict[str, object] | None = None, **settings: object
) -> Iterator[Cloud]:
    """The cluster on a fresh emulator. Settings are those of slurm-flex.toml."""
    with Emulator(knobs={**FAST, **(knobs or {})}) as emulator:
        read = parse_settings(
            {
                "endpoint": emulator.url,
                "credentials": "anonymous",
                "node_image": IMAGE,
                "cloud_timeout": "10s",
                **settings,
            }
        )
        yield Cloud(emulator, cluster, read, open_fleet(cluster, read, startup_script))


def startup_script(item: Pool) -> str:
    return f"#!/bin/bash\necho {item.id}\n"


def until(look: Callable[[], T], holds: Callable[[T], bool], within: float = 20) -> T:
    """Look until it holds; fail with what was last seen."""
    end = time.monotonic() + within
    found = look()
    while not holds(found):
        assert time.monotonic() < end, found
        time.sleep(0.02)
        found = look()
    return found
