"""What a pool mounts is looked up once, and a site whose storage is gone is told so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slurm_flex.cluster import Cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.emulator.launcher import Emulator
from slurm_flex.errors import FlexError
from slurm_flex.startup_scripts import StartupScripts
from tests.contract.site import cluster_of, pool


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator() as emulator:
        yield emulator


@pytest.fixture
def cluster() -> Cluster:
    return cluster_of(pool("gx"), pool("gy"))


def settings(url: str) -> Settings:
    return Settings(endpoint=url, credentials="anonymous", cloud_timeout="2s")


def test_the_home_is_mounted_from_where_the_api_says(emulator: Emulator, cluster: Cluster) -> None:
    scripts = StartupScripts(cluster, settings(emulator.url))
    first, second = cluster.compute_pools
    assert "10.0.0.2:/nfsshare" in scripts(first)
    assert scripts(first) == scripts(first)
    assert scripts(first) != scripts(second)


def test_it_is_looked_up_once(emulator: Emulator, cluster: Cluster) -> None:
    scripts = StartupScripts(cluster, settings(emulator.url))
    first = scripts(cluster.compute_pools[0])
    emulator.knobs.set(filestores={})
    try:
        assert scripts(cluster.compute_pools[0]) == first
        with pytest.raises(FlexError, match="instances/h: it couldn't be looked up: HTTP 404"):
            StartupScripts(cluster, settings(emulator.url))(cluster.compute_pools[0])
    finally:
        emulator.knobs.set(filestores={"*": {"address": "10.0.0.2", "share": "nfsshare"}})


def test_an_api_that_is_away_is_told_with_the_name(cluster: Cluster) -> None:
    scripts = StartupScripts(cluster, settings("http://127.0.0.1:9"))
    with pytest.raises(FlexError, match="instances/h: it couldn't be looked up"):
        scripts(cluster.compute_pools[0])
