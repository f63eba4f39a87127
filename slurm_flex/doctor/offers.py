"""What Compute Engine offers this project: machine types and GPUs in a zone, quota in a region."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from slurm_flex.cluster import Cluster, Pool, Provisioning
from slurm_flex.cluster.machines import accelerator_name
from slurm_flex.compute.errors import ComputeError, NotFound
from slurm_flex.doctor.check import Check, error, ok, skipped, warn
from slurm_flex.doctor.rest import Rest

COMPUTE: Final = "Compute Engine"
QUOTA: Final = "quota"

_MEMORY: Final = re.compile(r"-\d+gb$")


def compute_api(rest: Rest, cluster: Cluster) -> Iterator[Check]:
    """Whether the API answers us for this project: without it nothing works.

    Raises nothing that isn't a defect of ours.
    """
    where = f"project {cluster.project}"
    try:
        rest.get("compute", f"projects/{cluster.project}", where=where)
    except NotFound as missing:
        fix = "check the project in cluster_config.json's name, or project in slurm-flex.toml"
        yield error(COMPUTE, missing.what, fix)
    except ComputeError as problem:
        yield error(COMPUTE, problem.what, problem.fix)
    else:
        yield ok(COMPUTE, f"answers for project {cluster.project}")


def machine_type(rest: Rest, cluster: Cluster, pool: Pool) -> Iterator[Check]:
    """Whether the pool's zone has its machine type and its GPUs. Raises ComputeError."""
    name = f"pool {pool.id}"
    zone = f"projects/{cluster.project}/zones/{pool.zone}"
    for kind, wanted in (
        ("machineTypes", pool.machine_type),
        ("acceleratorTypes", accelerator_name(pool.accelerator_type)),
    ):
        if not wanted:
            continue
        try:
            rest.get("compute", f"{zone}/{kind}/{wanted}", where=wanted)
        except NotFound:
            fix = f'gcloud compute {_words(kind)} list --filter="name={wanted}"'
            yield error(name, f"{pool.zone} has no {wanted}", fix)
            return
    yield ok(name, f"{pool.zone} has {pool.machine_type}")


def quota(rest: Rest, cluster: Cluster) -> Iterator[Check]:
    """Whether the GPUs of all pools at their largest fit in the region. Raises ComputeError."""
    wanted = _wanted(cluster)
    if not wanted:
        return
    region = rest.get(
        "compute", f"projects/{cluster.project}/regions/{cluster.region}", where=QUOTA
    )
    limits = {
        str(one.get("metric")): float(one.get("limit", 0)) for one in region.get("quotas", ())
    }
    for (kind, preemptible), (most, one_node) in wanted.items():
        metric = _metric(kind, preemptible, limits)
        if metric is None:
            text = f"{kind}: the region lists no quota for it"
            fix = "look at GPUS_PER_GPU_FAMILY in the Cloud console, IAM & Admin > Quotas"
            yield skipped(QUOTA, text, fix)
            continue
        limit = limits[metric]
        text = (
            f"{metric} in {cluster.region} is {limit:.0f}; all pools at their largest need {most}"
        )
        fix = f"ask for {most} {metric} in the Cloud console, IAM & Admin > Quotas"
        if limit < one_node:
            yield error(QUOTA, f"{text}, one node {one_node}", fix)
        elif limit < most:
            yield warn(QUOTA, text, fix)
        else:
            yield ok(QUOTA, text)


def _wanted(cluster: Cluster) -> Mapping[tuple[str, bool], tuple[int, int]]:
    """(accelerator, preemptible) -> (GPUs at most, GPUs of the smallest node).

    Flex-start and Spot VMs use preemptible quota; reserved ones have theirs already.
    """
    most: Counter[tuple[str, bool]] = Counter()
    smallest: dict[tuple[str, bool], int] = {}
    for pool in cluster.pools:
        reserved = pool.provisioning_model is Provisioning.RESERVATION
        if not pool.accelerator_count or not pool.accelerator_type or reserved:
            continue
        preemptible = pool.provisioning_model in (Provisioning.FLEX_START, Provisioning.SPOT)
        key = (accelerator_name(pool.accelerator_type), preemptible)
        most[key] += pool.accelerator_count * pool.max_node_count
        smallest[key] = min(smallest.get(key, pool.accelerator_count), pool.accelerator_count)
    return {key: (most[key], smallest[key]) for key in most}


def _metric(kind: str, preemptible: bool, limits: Mapping[str, float]) -> str | None:
    """The metric that counts such GPUs. Without preemptible quota VMs use the standard one."""
    plain = kind.replace("tesla-", "")
    names = [f"{name.replace('-', '_').upper()}_GPUS" for name in (plain, _MEMORY.sub("", plain))]
    there = (name for name in names if name in limits or f"PREEMPTIBLE_{name}" in limits)
    name = next(there, "")
    if not name:
        return None
    if preemptible and (limits.get(f"PREEMPTIBLE_{name}", 0) > 0 or name not in limits):
        return f"PREEMPTIBLE_{name}"
    return name if name in limits else None


def _words(kind: str) -> str:
    return {"machineTypes": "machine-types", "acceleratorTypes": "accelerator-types"}[kind]
