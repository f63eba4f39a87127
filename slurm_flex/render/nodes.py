"""NodeName lines: one for a pool's static nodes, one for its dynamic ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from slurm_flex.cluster.machines import find_machine, gres_type
from slurm_flex.cluster.model import Cluster, Pool
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.slurm_keys import Release, knows, spelling
from slurm_flex.errors import FlexError
from slurm_flex.hostlist import fold

_HARDWARE: Final = frozenset(
    "cpus procs boards sockets socketsperboard corespersocket threadspercore".split()
)
_FEATURES: Final = frozenset(["feature", "features"])
_WEIGHT_STEP: Final = 100


def gpu_gres(settings: Settings, pool: Pool) -> str:
    """Gres of a pool's nodes, ``gpu:h200:8``; empty where Slurm is to know of no GPUs."""
    if not pool.accelerator_count or settings.gpu_files == "none":
        return ""
    kind = gres_type(pool.accelerator_type)
    return f"gpu:{kind}:{pool.accelerator_count}" if kind else f"gpu:{pool.accelerator_count}"


def pool_lines(
    cluster: Cluster, settings: Settings, pool: Pool, position: int, release: Release
) -> Iterator[str]:
    """The NodeName lines of a pool, the position-th (from 1) of the file.

    Raises FlexError for hardware that isn't known and keys that the release doesn't know.
    """
    names = cluster.node_names(pool)
    if not names:
        return
    yield f"# {pool.id}: {_story(pool)}"
    parts = (names[: pool.min_node_count], names[pool.min_node_count :])
    for part, weight in zip(parts, (10, 20), strict=True):
        if part:
            place = position * _WEIGHT_STEP + weight
            keys = node_keys(cluster, settings, pool, release, weight=place)
            pairs = " ".join(f"{key}={value}" for key, value in keys.items())
            yield f"NodeName={fold(part)} {pairs}"


def _story(pool: Pool) -> str:
    static, dynamic = pool.min_node_count, pool.max_node_count - pool.min_node_count
    counts = [f"{static} static"] if static else []
    counts += [f"{dynamic} dynamic"] if dynamic else []
    where = f" in {pool.zone}" if pool.zone else ""
    kind = pool.machine_type or "machine"
    return f"{' and '.join(counts)} {kind}{where}, {pool.provisioning_model.value}"


def node_keys(
    cluster: Cluster, settings: Settings, pool: Pool, release: Release, *, weight: int
) -> dict[str, str]:
    """Keys of a pool's nodes: the machine's, then ours, then the node set's, then overrides.

    A lower weight is taken first: static nodes (they are up) before dynamic ones, and pools in
    the order of the file.
    """
    keys = {"State": "CLOUD", **_hardware(pool, settings)}
    if gres := gpu_gres(settings, pool):
        keys["Gres"] = gres
    own = next((s.config for s in cluster.slurm.node_sets if s.node_pool_id == pool.id), {})
    keys["Feature"] = ",".join(dict.fromkeys([*_given_features(own), *features(pool)]))
    keys["Weight"] = str(weight)
    overrides = settings.node_overrides.get(pool.id, {})
    for key, value in {**own, **overrides}.items():
        if key.lower() in _FEATURES:
            continue
        _refuse_unknown(key, pool, release)
        name = _same_key(key, keys)
        keys[name] = value
    return keys


def _same_key(key: str, keys: Mapping[str, str]) -> str:
    return next((name for name in keys if name.lower() == key.lower()), spelling("node", key))


def _refuse_unknown(key: str, pool: Pool, release: Release) -> None:
    if knows(release, "node", key) is False:
        what = f"{spelling('node', key)} is no node parameter of Slurm {release}"
        raise FlexError(what, where=f"pool {pool.id}", fix="leave it out")


def _hardware(pool: Pool, settings: Settings) -> dict[str, str]:
    """CPUs and memory: those of the machine type, unless the site gives its own.

    slurmd -C on a real node is the truth. A node that has less than its line says is drained.
    """
    overrides = settings.node_overrides.get(pool.id, {})
    given = {key.lower() for key in overrides}
    machine = find_machine(pool.machine_type)
    if machine is None:
        if given & {"cpus", "procs", "sockets", "corespersocket"} and "realmemory" in given:
            return {}
        kind = f"of {pool.machine_type}" if pool.machine_type else "without a machine_type"
        fix = f'node_overrides = {{ {pool.id} = {{ CPUs = "..", RealMemory = ".." }} }}'
        what = f"the CPUs and memory {kind} aren't known"
        fix = f"give them in slurm-flex.toml as slurmd -C prints them: {fix}"
        raise FlexError(what, where=f"pool {pool.id}", fix=fix)
    keys = {
        "CPUs": str(machine.cpus),
        "Sockets": str(machine.sockets),
        "CoresPerSocket": str(machine.cores_per_socket),
        "ThreadsPerCore": str(machine.threads_per_core),
        "RealMemory": str(machine.real_memory_mb),
    }
    if given & _HARDWARE:  # a layout is given as a whole or not at all
        return {"RealMemory": keys["RealMemory"]}
    return keys


def features(pool: Pool) -> list[str]:
    """What a job may ask for with --constraint: pool, model, machine type, GPU, zone."""
    found = [pool.id, pool.provisioning_model.value.lower(), pool.machine_type, pool.zone]
    if pool.accelerator_count:
        found.append(gres_type(pool.accelerator_type))
    return [feature for feature in found if feature]


def _given_features(config: Mapping[str, str]) -> list[str]:
    texts = [value.strip('"') for key, value in config.items() if key.lower() in _FEATURES]
    return [part for text in texts for part in text.split(",") if part]
