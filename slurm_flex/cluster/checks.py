"""What must hold between the parts of a cluster file: references, ranges, names that fit.

Each check complains to the reader with the JSON path and goes on, so that one run shows all.
``check`` returns the warnings: things that work here and deserve a look.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from slurm_flex.cluster.config_checks import check_configs
from slurm_flex.cluster.model import Cluster, Pool, Provisioning
from slurm_flex.cluster.pool_checks import check_machine, check_provisioning, machine_warnings
from slurm_flex.cluster.reader import Reader, closest
from slurm_flex.cluster.schema import RFC1035
from slurm_flex.cluster.storage import plain_name
from slurm_flex.durations import format_duration

GOOGLE_ID: Final = re.compile(r"[a-z][a-z0-9]{0,9}")
"""A cluster id as Google's service takes it for Slurm: at most 10 characters, no hyphen."""

_NAME: Final = re.compile(RFC1035)
_LONGEST_NAME: Final = 63
_LARGEST_GROUP: Final = 2000  # a zonal MIG with paginated listing (Compute Engine's MIG limits)
_OUR_LABELS: Final = "slurm-flex-"
_MOST_LABELS: Final = 64 - 2  # of a VM, less ours: slurm-flex-cluster and slurm-flex-pool
_SHORTEST_REQUEST: Final = 600  # requestedRunDuration: 10 minutes at least


def check(cluster: Cluster, read: Mapping[str, Any], reader: Reader) -> list[str]:
    """Complain of everything that doesn't fit together; return warnings."""
    if cluster.id or not reader.errors:
        _check_names(cluster, reader)
    _check_pools(cluster, read, reader)
    _check_partitions(cluster, reader)
    _check_node_sets(cluster, reader)
    if not reader.lenient:
        _check_login(cluster, reader)
        check_configs(cluster, reader)
        return [*_id_warnings(cluster, read, reader), *_pool_warnings(cluster)]
    return []


def _check_names(cluster: Cluster, reader: Reader) -> None:
    if not cluster.id:
        reader.complain("display_name", "is missing", "the cluster's id, such as train1")
        return
    if not _NAME.fullmatch(cluster.id):
        path = "name" if cluster.source.get("name") and _last(cluster) else "display_name"
        fix = "lower-case letters and digits, beginning with a letter, at most 10"
        reader.complain(path, f'"{cluster.id}" can\'t be the prefix of VM names', fix)
        return
    for at, pool in enumerate(cluster.pools):
        if not pool.id:
            continue
        longest = max(
            cluster.node_name(pool, max(0, pool.max_node_count - 1)),
            f"{cluster.group_name(pool)}-01234567",
            key=len,
        )
        if len(longest) > _LONGEST_NAME:
            surplus = len(longest) - _LONGEST_NAME
            what = f"names such as {longest} are {len(longest)} characters long"
            reader.complain(f"node_pools[{at}].id", what, f"make the id {surplus} shorter")


def _last(cluster: Cluster) -> str:
    return str(cluster.source.get("name", "")).rpartition("/")[2]


def _check_pools(cluster: Cluster, read: Mapping[str, Any], reader: Reader) -> None:
    if not cluster.pools and not reader.lenient:
        reader.complain("node_pools", "is empty", "a login pool and at least one more")
    seen: dict[str, int] = {}
    for at, (pool, item) in enumerate(zip(cluster.pools, read.get("node_pools", []), strict=True)):
        path = f"node_pools[{at}]"
        if pool.id in seen and pool.id:
            first = f"node_pools[{seen[pool.id]}]"
            what = f'"{pool.id}" is already the id of {first}'
            reader.complain(f"{path}.id", what, "give each pool an id of its own")
        seen.setdefault(pool.id, at)
        if pool.min_node_count > pool.max_node_count:
            what = f"min_node_count {pool.min_node_count} > max_node_count {pool.max_node_count}"
            reader.complain(f"{path}.scaling_spec", what, "0 <= min <= max")
        if not reader.lenient:
            _check_scaling(pool, item, path, reader)
            check_provisioning(pool, item, path, reader)
            check_machine(pool, item, path, reader)
            _check_zone(cluster, pool, path, reader)
            _check_labels(cluster, pool, path, reader)
            _check_mounts(pool, path, reader)


def _check_scaling(pool: Pool, item: Mapping[str, Any], path: str, reader: Reader) -> None:
    if "max_node_count" not in item.get("scaling_spec", {"max_node_count": 0}):
        fix = f"{pool.min_node_count} or more: how many nodes there may be at a time"
        reader.complain(f"{path}.scaling_spec.max_node_count", "is missing", fix)
    if pool.max_node_count > _LARGEST_GROUP:
        what = f"{pool.max_node_count} nodes don't fit in one instance group"
        fix = f"at most {_LARGEST_GROUP}; add a second pool to the partition"
        reader.complain(f"{path}.scaling_spec.max_node_count", what, fix)


def _check_zone(cluster: Cluster, pool: Pool, path: str, reader: Reader) -> None:
    if cluster.region and pool.zone and pool.zone.rpartition("-")[0] != cluster.region:
        what = f"{pool.zone} is not in the cluster's region {cluster.region}"
        reader.complain(f"{path}.zone", what, f"a zone such as {cluster.region}-a")


def _check_labels(cluster: Cluster, pool: Pool, path: str, reader: Reader) -> None:
    """Ours can't be set by others, and Compute Engine takes 64 on a VM, ours included."""
    for where, labels in (("labels", cluster.labels), (f"{path}.labels", pool.labels)):
        for key in labels:
            if key.startswith(_OUR_LABELS):
                reader.complain(f'{where}["{key}"]', "is slurm-flex's own", "remove it")
    count = len({*cluster.labels, *pool.labels})
    if count > _MOST_LABELS:
        what = f"a VM of the pool would have {count} labels, the cluster's included"
        reader.complain(f"{path}.labels", what, f"at most {_MOST_LABELS}")


def _check_mounts(pool: Pool, path: str, reader: Reader) -> None:
    """Each instance once; and two Lustre instances of one name have one place: /mnt/lustre/NAME."""
    for kind, names in (("filestores", pool.filestores), ("lustres", pool.lustres)):
        plain = [plain_name(name) for name in names]
        last = [name.rpartition("/")[2] for name in names]
        for at in range(1, len(names)):
            where = f"{path}.{kind}[{at}]"
            if plain[at] in plain[:at]:
                reader.complain(where, f"{last[at]} is there twice", "remove one")
            elif kind == "lustres" and last[at] in last[:at]:
                what = f"would be mounted at /mnt/lustre/{last[at]}, where another one is"
                reader.complain(where, what, "remove one, or mount it by the pool's startup_script")


def _unknown_pool(cluster: Cluster, pool_id: str, path: str, reader: Reader) -> bool:
    """Complain if no pool has that id."""
    if not pool_id or cluster.pool(pool_id) is not None:
        return False
    if not all(pool.id for pool in cluster.pools) or not cluster.pools:
        return True  # the pool's own id is wrong, which has been said
    meant = closest(pool_id, [pool.id for pool in cluster.pools])
    known = ", ".join(pool.id for pool in cluster.pools) or "none"
    fix = f"did you mean {meant}?" if meant else f"the pools are {known}"
    reader.complain(path, f'there is no node pool "{pool_id}"', fix)
    return True


def _check_partitions(cluster: Cluster, reader: Reader) -> None:
    slurm = "orchestrator_spec.slurm_spec"
    seen: set[str] = set()
    for at, part in enumerate(cluster.partitions):
        path = f"{slurm}.partitions[{at}]"
        if part.id and part.id in seen:
            what = f'the partition "{part.id}" is there twice'
            reader.complain(f"{path}.id", what, "give each partition an id of its own")
        if part.id.upper() == "DEFAULT":
            what = f'"{part.id}" means something else to Slurm'
            reader.complain(f"{path}.id", what, "give it another id")
        seen.add(part.id)
        lost = reader.is_faulty_below(f"{path}.node_pool_ids")
        if not part.node_pool_ids and not (reader.lenient or lost):
            reader.complain(f"{path}.node_pool_ids", "is empty", "name at least one node pool")
        for nth, pool_id in enumerate(part.node_pool_ids):
            where = f"{path}.node_pool_ids[{nth}]"
            if _unknown_pool(cluster, pool_id, where, reader):
                continue
            if pool_id == cluster.login_pool_id:
                reader.complain(where, "is the login pool, whose VMs run no jobs", "remove it")
            if pool_id in part.node_pool_ids[:nth]:
                reader.complain(where, f'the pool "{pool_id}" is there twice', "remove one")
    if cluster.partitions and cluster.default_partition not in seen:
        meant = closest(cluster.default_partition, seen)
        fix = f"did you mean {meant}?" if meant else f"the partitions are {', '.join(sorted(seen))}"
        what = f'there is no partition "{cluster.default_partition}"'
        reader.complain(f"{slurm}.default_partition_id", what, fix)
    if not cluster.partitions and not reader.lenient and _given(cluster, "partitions"):
        reader.complain(f"{slurm}.partitions", "is empty", "name at least one partition")


def _given(cluster: Cluster, key: str) -> bool:
    """Whether slurm_spec has the key at all (if not, "is missing" has been said)."""
    spec: object = cluster.source.get("orchestrator_spec", cluster.source.get("orchestratorSpec"))
    inner = spec.get("slurm_spec", spec.get("slurmSpec")) if isinstance(spec, Mapping) else None
    return isinstance(inner, Mapping) and isinstance(inner.get(key), list) and not inner[key]


def _check_node_sets(cluster: Cluster, reader: Reader) -> None:
    seen: set[str] = set()
    for at, node_set in enumerate(cluster.slurm.node_sets):
        path = f"orchestrator_spec.slurm_spec.node_sets[{at}].node_pool_id"
        if _unknown_pool(cluster, node_set.node_pool_id, path, reader):
            continue
        if node_set.node_pool_id in seen:
            what = f'the pool "{node_set.node_pool_id}" has a node set already'
            reader.complain(path, what, "put both into one config")
        if node_set.node_pool_id and node_set.node_pool_id == cluster.login_pool_id:
            reader.complain(path, "is the login pool, whose VMs are no Slurm nodes", "remove it")
        seen.add(node_set.node_pool_id)


def _check_login(cluster: Cluster, reader: Reader) -> None:
    path = "orchestrator_spec.slurm_spec.login_node_pool_id"
    if _unknown_pool(cluster, cluster.login_pool_id, path, reader):
        return
    for at, pool in enumerate(cluster.pools):
        if not pool.is_login:
            continue
        if pool.provisioning_model in (Provisioning.FLEX_START, Provisioning.SPOT):
            what = f"a login pool can't be {pool.provisioning_model.value}: its VMs would end"
            reader.complain(f"node_pools[{at}].provisioning_model", what, "ON_DEMAND")
        if pool.min_node_count != pool.max_node_count:
            what = "a login pool has one size: min_node_count and max_node_count differ"
            reader.complain(f"node_pools[{at}].scaling_spec", what, "make them equal")


def _id_warnings(cluster: Cluster, read: Mapping[str, Any], reader: Reader) -> Iterator[str]:
    """Ids that fit Compute Engine and Slurm but not Google's own service."""
    if not cluster.id or GOOGLE_ID.fullmatch(cluster.id):
        return
    what = f'"{cluster.id}" is no cluster id of Google\'s service'
    fix = "at most 10 lower-case letters and digits, beginning with a letter, no hyphen"
    if str(read.get("name", "")).endswith(f"/{cluster.id}"):
        reader.complain("name", what, fix)
    elif _NAME.fullmatch(cluster.id):
        yield f"{reader.source}: display_name: {what} ({fix}); it works here"


def _pool_warnings(cluster: Cluster) -> Iterator[str]:
    in_use = {pool_id for part in cluster.partitions for pool_id in part.node_pool_ids}
    for pool in cluster.compute_pools:
        yield from machine_warnings(pool)
        if pool.id and pool.id not in in_use:
            yield f"the pool {pool.id} is in no partition: no job can reach it"
        if pool.is_flex_start and pool.run_duration.total_seconds() < _SHORTEST_REQUEST:
            yield (
                f"the pool {pool.id}: Compute Engine grants no less than 10 minutes; its VMs are "
                f"asked for so long and ended by slurm-flex after "
                f"{format_duration(pool.run_duration)}"
            )
