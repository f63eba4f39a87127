"""Filestore and Lustre instances: from their resource names to something that can be mounted.

The cluster file names instances; a node needs an address and a share. The controller resolves
them through their APIs once, when the startup script is made. Sources: Filestore API v1
projects.locations.instances, Managed Lustre API v1 projects.locations.instances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slurm_flex.cluster.model import Cluster, Pool
from slurm_flex.errors import FlexError, InputErrors

FILESTORE_API: Final = "https://file.googleapis.com/v1"
LUSTRE_API: Final = "https://lustre.googleapis.com/v1"
HOME: Final = "/home"

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


def resolve_storage(
    cluster: Cluster,
    fetch: Fetch,
    *,
    filestore: str = FILESTORE_API,
    lustre: str = LUSTRE_API,
) -> dict[str, Share]:
    """Each name of the cluster file with its share.

    home_directory_storage may be either kind: Filestore is asked first. filestore, lustre: where
    the APIs are. Raises InputErrors with every name that leads nowhere.
    """
    known_lustre = {plain_name(name) for pool in cluster.pools for name in pool.lustres}
    known_filestore = {plain_name(name) for pool in cluster.pools for name in pool.filestores}
    shares: dict[str, Share] = {}
    errors: list[FlexError] = []
    for name in names_of(cluster):
        apis: Sequence[tuple[str, Callable[[Mapping[str, Any], str], Share]]]
        apis = [(filestore, filestore_share), (lustre, lustre_share)]
        if name in known_lustre and name not in known_filestore:
            apis = apis[1:]
        elif name in known_filestore:
            apis = apis[:1]
        failures = []
        for api, read in apis:
            try:
                shares[name] = read(fetch(f"{api}/{name}"), name)
                break
            except FlexError as error:
                failures.append(error)
        else:
            errors.append(failures[0])
    if errors:
        raise InputErrors(errors)
    return shares


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
