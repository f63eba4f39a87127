"""Filestore and Lustre instances: from their resource names to something that can be mounted.

The cluster file names instances; a node needs an address and a share. The controller resolves
them through their APIs once, when the startup script is made. Sources: Filestore API v1
projects.locations.instances, Managed Lustre API v1 projects.locations.instances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slurm_flex.cluster.model import Cluster, Pool
from slurm_flex.errors import FlexError, InputErrors

HOME: Final = "/home"

FILESTORE: Final = "file.googleapis.com"
LUSTRE: Final = "lustre.googleapis.com"
FILESTORE_API: Final = f"https://{FILESTORE}/v1"
LUSTRE_API: Final = f"https://{LUSTRE}/v1"

Fetch = Callable[[str], Mapping[str, Any]]
"""GET a URL, authorized; the JSON answer. Raises FlexError, with 404 said in its text."""


@dataclass(frozen=True)
class Share:
    """Something to mount. kind is nfs or lustre; source is ADDRESS:/PATH or ADDRESS@tcp:/NAME."""

    kind: str
    source: str


@dataclass(frozen=True)
class Mount:
    """A share and where it goes."""

    share: Share
    target: str


def names_of(cluster: Cluster) -> tuple[str, ...]:
    """All storage that the cluster file names, each once, in its order."""
    names = [cluster.slurm.home_directory_storage]
    for pool in cluster.pools:
        names += [*pool.filestores, *pool.lustres]
    return tuple(dict.fromkeys(plain_name(name) for name in names if name))


def plain_name(name: str) -> str:
    """projects/P/locations/L/instances/I, whatever URL stands before it."""
    return name[name.index("projects/") :] if "projects/" in name else name


def services_of(cluster: Cluster, name: str) -> tuple[str, ...]:
    """The APIs to ask for an instance: FILESTORE, LUSTRE, or both, in this order, where neither
    its URL nor a pool's list says what it is (home_directory_storage may be either)."""
    filestores = [one for pool in cluster.pools for one in pool.filestores]
    lustres = [one for pool in cluster.pools for one in pool.lustres]
    home = cluster.slurm.home_directory_storage or ""
    filestores += [home] if home.startswith(f"https://{FILESTORE}/") else []
    lustres += [home] if home.startswith(f"https://{LUSTRE}/") else []
    if plain_name(name) in map(plain_name, filestores):
        return (FILESTORE,)
    return (LUSTRE,) if plain_name(name) in map(plain_name, lustres) else (FILESTORE, LUSTRE)


def resolve_storage(
    cluster: Cluster,
    fetch: Fetch,
    *,
    filestore: str = FILESTORE_API,
    lustre: str = LUSTRE_API,
) -> dict[str, Share]:
    """Each name of the cluster file with its share.

    filestore, lustre: where the APIs are. Raises InputErrors with every name that leads nowhere.
    """
    apis: Mapping[str, tuple[str, str, Callable[[Mapping[str, Any], str], Share]]] = {
        FILESTORE: ("Filestore", filestore, filestore_share),
        LUSTRE: ("Lustre", lustre, lustre_share),
    }
    shares: dict[str, Share] = {}
    errors: list[FlexError] = []
    for name in names_of(cluster):
        failures: dict[str, FlexError] = {}
        unready: list[FlexError] = []
        for service in services_of(cluster, name):
            kind, api, read = apis[service]
            try:
                instance = fetch(f"{api}/{name}")
            except FlexError as error:
                failures[kind] = error
                continue
            try:
                shares[name] = read(instance, name)
                break
            except FlexError as error:
                unready.append(error)
        else:
            errors.append(unready[0] if unready else _said_together(failures, name))
    if errors:
        raise InputErrors(errors)
    return shares


def _said_together(failures: Mapping[str, FlexError], name: str) -> FlexError:
    """One error for an instance that was looked for under each of these kinds."""
    if len({error.what for error in failures.values()}) == 1:
        return next(iter(failures.values()))
    what = "; ".join(f"as {kind}: {error.what}" for kind, error in failures.items())
    fixes = dict.fromkeys(error.fix for error in failures.values() if error.fix)
    return FlexError(what, where=name, fix=", or ".join(fixes))


def filestore_share(instance: Mapping[str, Any], name: str) -> Share:
    """The share of a Filestore instance, from its JSON: networks[].ipAddresses, fileShares[]."""
    addresses = [
        address for net in instance.get("networks", []) for address in net.get("ipAddresses", [])
    ]
    shares = [share["name"] for share in instance.get("fileShares", []) if share.get("name")]
    if not addresses or not shares:
        state = instance.get("state", "unknown")
        what = f"the Filestore instance has no address or no share yet (state {state})"
        raise FlexError(what, where=name, fix="wait until it is READY")
    return Share("nfs", f"{addresses[0]}:/{shares[0]}")


def lustre_share(instance: Mapping[str, Any], name: str) -> Share:
    """The file system of a Managed Lustre instance: mountPoint, ADDRESS@tcp:/NAME."""
    point = instance.get("mountPoint", "")
    if not point:
        state = instance.get("state", "unknown")
        what = f"the Lustre instance has no mount point yet (state {state})"
        raise FlexError(what, where=name, fix="wait until it is ACTIVE")
    return Share("lustre", str(point))


def mounts_of(cluster: Cluster, pool: Pool, shares: Mapping[str, Share]) -> Iterator[Mount]:
    """What the VMs of a pool mount, home first.

    Google's pages say /home, /mnt/filestore (then /mnt/filestore1, ...) and /mnt/lustre/NAME.
    Raises FlexError for a name without a share.
    """
    home = cluster.slurm.home_directory_storage
    if home:
        yield Mount(_share(home, shares), HOME)
    for at, name in enumerate(pool.filestores):
        if plain_name(name) != plain_name(home or " "):
            yield Mount(_share(name, shares), f"/mnt/filestore{at or ''}")
    for name in pool.lustres:
        if plain_name(name) != plain_name(home or " "):
            yield Mount(_share(name, shares), f"/mnt/lustre/{name.rpartition('/')[2]}")


def _share(name: str, shares: Mapping[str, Share]) -> Share:
    share = shares.get(plain_name(name))
    if share is None:
        raise FlexError("its address and share aren't known", where=name, fix="resolve it first")
    return share
