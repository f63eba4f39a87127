"""The node around its GPUs: disks, network, mounts, load. No command is run for any of them."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import struct
from pathlib import Path
from typing import Callable, Final, Optional

from slurm_flex.health import schema
from slurm_flex.health.schema import Field
from slurm_flex.health.sight import Builtin, Options, Sight, of_this_moment
from slurm_flex.health.verdict import Finding, bad, ok, skipped, unknown

_SIOCGIFADDR: Final = 0x8915
# Asking these how full they are may hang with their server, and with it every job's prolog.
_REMOTE: Final = re.compile(
    r"(nfs\d?|lustre|cifs|smb3|ceph|9p|glusterfs|beegfs|gpfs|autofs|fuse.*)\Z"
)


def mount_points(root: Path) -> dict[str, str]:
    """Mount point to file system type, the latest where several lie on one another.

    Raises OSError. From the kernel's table: looking at a mount point may hang.
    """
    mounts = {}
    for line in (root / "proc/self/mountinfo").read_text("utf-8", "replace").split("\n"):
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if dash and len(fields) > 4:
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
            mounts[point] = after.split(" ")[0]
    return mounts


def _mount_of(path: str, mounts: dict[str, str]) -> str:
    """The mount point that a path is under."""
    candidates = (str(parent) for parent in (Path(path), *Path(path).parents))
    return next((point for point in candidates if point in mounts), "/")


def judge_disk(
    sight: Sight,
    options: Options,
    statvfs: Callable[[str], os.statvfs_result] = os.statvfs,
) -> Finding:
    """Whether the local disks have room."""
    try:
        mounts = mount_points(sight.node.root)
    except OSError as error:
        return unknown(f"the mounts can't be read: {error.strerror}")
    full, seen, notes = [], [], []
    for path in options["paths"]:
        point = _mount_of(path, mounts)
        if path != "/" and point == "/":
            continue  # no file system of its own: / is looked at anyway
        if _REMOTE.match(mounts.get(point, "")):
            notes.append(f"{path} is remote ({mounts[point]}), its use is not looked at")
            continue
        try:
            used = _percent_used(statvfs(path))
        except OSError as error:
            notes.append(f"{path} can't be looked at: {error.strerror}")
            continue
        seen.append(f"{path} {used:.0f} %")
        if used > options["max_percent"]:
            full.append(f"{path} is {used:.0f} % full")
    if full:
        return bad("; ".join(full), *notes)
    return ok(", ".join(seen), *notes) if seen else unknown("no disk could be looked at", *notes)


def _percent_used(facts: os.statvfs_result) -> float:
    """As df counts it: what is reserved for root is no room. Inodes count as well as blocks."""
    used, room = facts.f_blocks - facts.f_bfree, facts.f_bavail
    blocks = 100 * used / (used + room) if used + room > 0 else 0.0
    inodes = 100 * (1 - facts.f_favail / facts.f_files) if facts.f_files else 0.0
    return max(blocks, inodes)


def ipv4_of(interface: str) -> Optional[str]:
    """The IPv4 address of an interface, None if it has none. Raises OSError for other troubles."""
    request = struct.pack("256s", interface.encode("ascii", "replace")[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            if error.errno in {19, 99}:  # no such device, no address
                return None
            raise
    return socket.inet_ntoa(answer[20:24])


def primary_interface(root: Path) -> Optional[str]:
    """The default route's interface; without one, the first real network card."""
    routes = []
    for line in (root / "proc/net/route").read_text("ascii", "replace").split("\n")[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == "00000000" == fields[7] and fields[6].isdigit():
            routes.append((int(fields[6]), fields[0]))
    if routes:
        return min(routes)[1]
    cards = []
    for card in (root / "sys/class/net").glob("*"):
        if (card / "device").exists():
            index = (card / "ifindex").read_text("ascii").strip()
            cards.append((int(index), card.name))
    return min(cards)[1] if cards else None


def judge_nic(
    sight: Sight, options: Options, address_of: Callable[[str], Optional[str]] = ipv4_of
) -> Finding:
    """Whether the primary network card has an IPv4 address."""
    try:
        interface = options["interface"] or primary_interface(sight.node.root)
        address = address_of(interface) if interface else None
    except (OSError, ValueError) as error:
        return unknown(f"the network cards can't be looked at: {error}")
    if interface is None:
        return bad("there is no network card")
    if address is None:
        return bad(f"{interface} has no IPv4 address")
    return ok(f"{interface} has {address}")


def _judge_mounts(sight: Sight, options: Options) -> Finding:
    wanted = dict.fromkeys((*sight.node.mounts, *options["paths"]))
    if not wanted:
        return skipped("no mounts are expected here")
    try:
        mounts = mount_points(sight.node.root)
    except OSError as error:
        return unknown(f"the mounts can't be read: {error.strerror}")
    missing = [path for path in wanted if (path.rstrip("/") or "/") not in mounts]
    if missing:
        return bad(f"not mounted: {', '.join(missing)}")
    return ok(f"{len(wanted)} mounts are there")


def judge_load(
    sight: Sight,  # noqa: ARG001
    options: Options,
    load: Callable[[], tuple[float, float, float]] = os.getloadavg,
    processors: Callable[[], Optional[int]] = os.cpu_count,
) -> Finding:
    """Whether the load of the last five minutes is within a multiple of the processors."""
    try:
        average = load()[1]
    except OSError:
        return unknown("this system tells no load")
    count = processors() or 1
    text = f"the load is {average:.1f} on {count} processors"
    return bad(text) if average > options["per_processor"] * count else ok(text)


_paths = schema.list_of(schema.text(r"/.*", "an absolute path"))

DISK = Builtin(
    about="/ and the local SSDs have room",
    options={
        "paths": Field(
            _paths,
            "where to look; a path without a file system of its own is left out",
            ("/", "/mnt/localssd", "/mnt/localdisk"),
        ),
        "max_percent": Field(schema.number(1, 100), "fuller than this is a failure", 95.0),
    },
    judge=of_this_moment(judge_disk),
)
NIC = Builtin(
    about="the primary network card has an IPv4 address",
    options={
        "interface": Field(
            schema.text(r"[\w.@-]{1,15}", "an interface"), "which; by default the default route's"
        )
    },
    judge=of_this_moment(judge_nic),
)
MOUNTS = Builtin(
    about="the file systems that should be mounted are",
    options={"paths": Field(_paths, "further mount points, besides node.json's", ())},
    judge=of_this_moment(_judge_mounts),
)
LOAD = Builtin(
    about="the load is not far above the processors",
    options={
        "per_processor": Field(schema.number(0.1, 1000), "more than this for each processor", 3.0)
    },
    judge=of_this_moment(judge_load),
)
