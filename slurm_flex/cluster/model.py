"""A cluster as frozen values: what cluster_config.json says, checked and in one vocabulary.

Nothing here reads a file; :mod:`slurm_flex.cluster.config` does. Field names follow Google's
ModelDevelopmentCluster resource in snake case, except where the project has its own word
(``run_duration`` is flex_start_max_duration).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

LONGEST_RUN = timedelta(days=7)
"""The longest life of a Flex-start VM, and the default of flex_start_max_duration."""


class Provisioning(str, Enum):
    """How the VMs of a pool are obtained (provisioning_model)."""

    FLEX_START = "FLEX_START"
    ON_DEMAND = "ON_DEMAND"
    SPOT = "SPOT"
    RESERVATION = "RESERVATION"


@dataclass(frozen=True)
class BootDisk:
    """Boot disk of a VM; an empty type means the default of the machine family."""

    type: str = ""
    size_gb: int = 100


@dataclass(frozen=True)
class ReservationAffinity:
    """Which Compute Engine reservations a RESERVATION pool consumes."""

    type: str
    key: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where a node name stands in the cluster file. Static: kept up, job or no job."""

    pool_id: str
    index: int
    static: bool


@dataclass(frozen=True)
class Pool:
    """A node pool: one managed instance group in one zone, ``max_node_count`` nodes at most.

    run_duration is the life a FLEX_START VM gets at most; it means nothing for the other models.
    Names of Filestore and Lustre instances are full resource names.
    """

    id: str
    zone: str = ""
    provisioning_model: Provisioning = Provisioning.FLEX_START
    machine_type: str = ""
    accelerator_type: str = ""
    accelerator_count: int = 0
    min_node_count: int = 0
    max_node_count: int = 0
    run_duration: timedelta = LONGEST_RUN
    enable_public_ips: bool = False
    boot_disk: BootDisk = BootDisk()
    node_image: str = ""
    startup_script: str = ""
    filestores: tuple[str, ...] = ()
    lustres: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    confidential_instance_type: str = ""
    reservation_affinity: ReservationAffinity | None = None
    is_login: bool = False

    @property
    def is_flex_start(self) -> bool:
        return self.provisioning_model is Provisioning.FLEX_START

    @property
    def is_spot(self) -> bool:
        return self.provisioning_model is Provisioning.SPOT

    def is_static(self, index: int) -> bool:
        """Static nodes are the first min_node_count of a pool; a login pool is all static."""
        return self.is_login or index < self.min_node_count


@dataclass(frozen=True)
class PartitionSpec:
    """A Slurm partition over one or more pools; config is extra Key=Value for its line."""

    id: str
    node_pool_ids: tuple[str, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class NodeSet:
    """Extra Key=Value for the NodeName line of one pool (Features, Weight, MemSpecLimit...)."""

    node_pool_id: str
    config: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class SlurmSpec:
    """The rest of orchestrator_spec.slurm_spec: what the site wants in its slurm.conf."""

    home_directory_storage: str = ""
    node_sets: tuple[NodeSet, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict, hash=False)
    prolog_bash_scripts: tuple[str, ...] = ()
    epilog_bash_scripts: tuple[str, ...] = ()
    task_prolog_bash_scripts: tuple[str, ...] = ()
    task_epilog_bash_scripts: tuple[str, ...] = ()
    accounting_storage_enforce: str = ""
    scheduling: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Cluster:
    """One Slurm cluster as its cluster file describes it.

    id is the prefix of every name; project and region may be empty where neither the file nor
    the settings say (offline replays). ``source`` is the JSON it came from, verbatim, so that a
    snapshot can carry it. ``warnings`` are things that work here but deserve a look.
    """

    id: str
    project: str = ""
    region: str = ""
    pools: tuple[Pool, ...] = ()
    partitions: tuple[PartitionSpec, ...] = ()
    login_pool_id: str = ""
    default_partition: str = ""
    display_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    network: str = ""
    subnetwork: str = ""
    service_account: str = ""
    slurm: SlurmSpec = SlurmSpec()
    warnings: tuple[str, ...] = ()
    source: Mapping[str, object] = field(
        default_factory=dict, hash=False, repr=False, compare=False
    )
    _pools: Mapping[str, Pool] = field(init=False, repr=False, compare=False)
    _places: Mapping[str, Place] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pools", {pool.id: pool for pool in self.pools})
        places = {
            self.node_name(pool, index): Place(pool.id, index, pool.is_static(index))
            for pool in self.pools
            for index in range(pool.max_node_count)
        }
        object.__setattr__(self, "_places", places)

    @property
    def compute_pools(self) -> tuple[Pool, ...]:
        """The pools whose VMs are Slurm nodes: all but the login pool, in the file's order."""
        return tuple(pool for pool in self.pools if not pool.is_login)

    @property
    def login_pool(self) -> Pool | None:
        return self._pools.get(self.login_pool_id)

    def pool(self, pool_id: str) -> Pool | None:
        """The pool of that id, or None if the file has none (any more)."""
        return self._pools.get(pool_id)

    def locate(self, node_name: str) -> Place | None:
        """Where a node stands, from the table of configured names (names are never split).

        VMs of the login pool are in the table too, though they are no Slurm nodes.
        """
        return self._places.get(node_name)

    def pool_of(self, node_name: str) -> Pool | None:
        place = self._places.get(node_name)
        return None if place is None else self._pools[place.pool_id]

    def node_name(self, pool: Pool | str, index: int) -> str:
        """CLUSTER-POOL-INDEX: the Slurm node and its VM."""
        return f"{self.group_name(pool)}-{index}"

    def node_names(self, pool: Pool | str) -> tuple[str, ...]:
        """Every node a pool may have, by index."""
        known = self._pools[pool] if isinstance(pool, str) else pool
        return tuple(self.node_name(known, index) for index in range(known.max_node_count))

    def group_name(self, pool: Pool | str) -> str:
        """CLUSTER-POOL: the managed instance group."""
        return f"{self.id}-{pool if isinstance(pool, str) else pool.id}"

    def partitions_of(self, pool: Pool | str) -> Iterator[PartitionSpec]:
        """The partitions that a pool's nodes are in, in the file's order."""
        pool_id = pool if isinstance(pool, str) else pool.id
        return (part for part in self.partitions if pool_id in part.node_pool_ids)
