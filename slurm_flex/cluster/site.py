"""The cluster file and the settings together: what runs here, on whose project, in which region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_flex.cluster.config import load_cluster
from slurm_flex.cluster.model import Cluster
from slurm_flex.cluster.settings import Settings, cluster_file, find_settings_file, load_settings
from slurm_flex.errors import FlexError, InputErrors


@dataclass(frozen=True)
class Site:
    """Both files as read, and where they were found. Project and region are never empty."""

    cluster: Cluster
    settings: Settings
    cluster_path: Path
    settings_path: Path | None


def load_site(env: Mapping[str, str], settings_path: Path | None = None) -> Site:
    """Read both files. Raises InputErrors with what is wrong in either, all at once."""
    path = settings_path or find_settings_file(env)
    settings = Settings() if path is None else load_settings(path)
    cluster_path = cluster_file(settings, path)
    cluster = settle(load_cluster(cluster_path), settings, source=str(cluster_path))
    return Site(cluster, settings, cluster_path, path)


def settle(cluster: Cluster, settings: Settings, *, source: str = "cluster_config.json") -> Cluster:
    """The cluster with the project and region that the settings name, where they name any.

    Raises InputErrors where neither file names them, or where settings speak of pools and
    partitions that the cluster file doesn't have.
    """
    settled = replace(
        cluster,
        project=settings.project or cluster.project,
        region=settings.region or cluster.region,
    )
    errors = []
    for key in ("project", "region"):
        if not getattr(settled, key):
            fix = 'write "name": "projects/PROJECT/locations/REGION/modelDevelopmentClusters/", '
            fix += f'or {key} = "..." in slurm-flex.toml'
            errors.append(FlexError(f"the {key} isn't named anywhere", where=source, fix=fix))
    pools = [pool.id for pool in cluster.compute_pools]
    partitions = [part.id for part in cluster.partitions]
    errors += _strangers("node_overrides", "pool", settings.node_overrides, pools)
    errors += _strangers("expiry_signal", "partition", settings.expiry_signal, partitions)
    if errors:
        raise InputErrors(errors)
    return settled


def _strangers(
    key: str, kind: str, given: Mapping[str, object], known: list[str]
) -> list[FlexError]:
    fix = f"the {kind}s are {', '.join(known) or 'none'}"
    return [
        FlexError(f'{key}: there is no {kind} "{name}"', where="slurm-flex.toml", fix=fix)
        for name in given
        if name not in known
    ]
