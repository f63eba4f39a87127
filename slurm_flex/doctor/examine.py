"""`slurm-flex doctor`: everything that must be right before the first job waits, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Protocol

from slurm_flex.cluster import Pool
from slurm_flex.cluster.site import Site
from slurm_flex.cluster.storage import Share
from slurm_flex.compute import open_fleet
from slurm_flex.compute.errors import ComputeError
from slurm_flex.compute.gather import gather
from slurm_flex.doctor import apis, groups, host, iam, offers, slurm, storage
from slurm_flex.doctor.check import Check, Status, guarded, skipped
from slurm_flex.doctor.rest import Rest
from slurm_flex.render.installed import installed

_AT_MOST: Final = timedelta(minutes=2)
_WITHOUT: Final = "not looked at, since Compute Engine doesn't answer us"

Look = Callable[[], Iterable[Check]]


class Scripts(Protocol):
    """What gives a pool's startup script, and the shares that it mounts."""

    def __call__(self, pool: Pool) -> str: ...

    def shares(self) -> Mapping[str, Share]: ...


def examine(
    site: Site, scripts: Scripts, env: Mapping[str, str], now: datetime
) -> tuple[Check, ...]:
    """All checks, in a fixed order. Changes nothing, and raises nothing but a defect of ours.

    env: the environment, for SLURM_CONF and PATH. now: aware UTC.
    """
    rest = Rest(site.settings)
    first = guarded(offers.COMPUTE, lambda: offers.compute_api(rest, site.cluster))
    # It is asked even where Compute Engine refuses us: that may be why.
    looks: dict[str, Look] = {apis.NAME: lambda: apis.apis(rest, site.cluster, site.settings)}
    answers = all(check.status is Status.OK for check in first)
    if answers:
        looks |= _cloud(site, scripts, rest)
    looks |= _here(site, env, now)
    found = gather(
        {name: partial(guarded, name, look) for name, look in looks.items()}, within=_AT_MOST
    )
    checks = list(first)
    if not answers:
        checks.append(skipped("cloud", _WITHOUT))
    for name, result in found.items():
        if isinstance(result, ComputeError):
            checks.append(skipped(name, result.what))
        else:
            checks += result
    # Last, because it compares with the time that answers carried.
    return (*storage.said_once(checks), *host.clock(site, rest))


def is_fine(checks: Iterable[Check]) -> bool:
    """Nothing is wrong; warnings and what was skipped don't count."""
    return all(check.status is not Status.ERROR for check in checks)


def _cloud(site: Site, scripts: Scripts, rest: Rest) -> dict[str, Look]:
    cluster = site.cluster

    def compare() -> Iterable[Check]:
        fleet = open_fleet(cluster, site.settings, scripts)
        return groups.templates_and_groups(cluster, fleet.workshop)

    return {
        iam.SERVICE_AGENT: lambda: iam.service_agent(rest, cluster),
        iam.OWN_PERMISSIONS: lambda: iam.own_permissions(rest, cluster),
        iam.ACT_AS: lambda: iam.acting_as(rest, cluster),
        **{
            f"pool {pool.id}": partial(offers.machine_type, rest, cluster, pool)
            for pool in cluster.pools
        },
        offers.QUOTA: lambda: offers.quota(rest, cluster),
        storage.NAME: lambda: storage.storage(scripts.shares),
        groups.NAME: compare,
    }


def _here(site: Site, env: Mapping[str, str], now: datetime) -> dict[str, Look]:
    here = installed(site.settings, env)
    return {
        slurm.CONF: lambda: slurm.slurm_conf(site, here),
        slurm.RUNNING: lambda: slurm.running_config(site, here),
        host.DAEMON: lambda: host.daemon(site, now),
        host.RESOLVER: lambda: host.resolver(site),
    }
