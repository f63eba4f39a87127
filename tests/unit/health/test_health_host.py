import os

import pytest
from health_builders import finding

from slurm_flex.health.host import judge_disk, judge_load, judge_nic, mount_points
from slurm_flex.health.node import Node
from slurm_flex.health.sight import Sight

MOUNTINFO = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 8:16 / /mnt/localssd rw - xfs /dev/md0 rw
31 22 0:40 / /home rw,relatime shared:9 - nfs4 10.0.0.2:/home rw
32 22 0:41 / /mnt/with\\040space rw - lustre 10.0.0.3@tcp:/fs rw
"""
ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
{lines}"""


@pytest.fixture
def sight(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTINFO)
    (tmp_path / "proc/net").mkdir()
    return Sight(Node("n", root=tmp_path))


def disk(used: float, inodes: float = 10):
    """A file system of 1000 blocks, 50 of them reserved for root, and 1000 inodes."""
    free = 950 - used / 100 * 950
    left = 1000 - inodes * 10
    return os.statvfs_result((4096, 4096, 1000, free + 50, free, 1000, left, left, 0, 255))


OPTIONS = {"paths": ("/", "/mnt/localssd", "/mnt/localdisk"), "max_percent": 95.0}


def test_disks_with_room_are_well(sight):
    found = judge_disk(sight, OPTIONS, lambda _: disk(40))
    assert (found.verdict.value, found.text) == ("ok", "/ 40 %, /mnt/localssd 40 %")


def test_a_disk_at_97_percent_is_bad(sight):
    full = {"/": disk(40), "/mnt/localssd": disk(97)}
    found = judge_disk(sight, OPTIONS, full.__getitem__)
    assert (found.verdict.value, found.text) == ("bad", "/mnt/localssd is 97 % full")


def test_a_disk_without_inodes_is_bad(sight):
    assert judge_disk(sight, OPTIONS, lambda _: disk(10, inodes=99)).text.startswith("/ is 99 %")


def test_a_remote_file_system_is_never_asked_how_full_it_is(sight):
    asked = []

    def statvfs(path):
        asked.append(path)
        return disk(1)

    found = judge_disk(sight, {**OPTIONS, "paths": ("/", "/home/user")}, statvfs)
    assert asked == ["/"]
    assert found.notes == ("/home/user is remote (nfs4), its use is not looked at",)


def test_disks_that_cannot_be_looked_at_are_unknown(sight, tmp_path):
    def statvfs(path):
        raise OSError(5, "Input/output error")

    assert judge_disk(sight, OPTIONS, statvfs).verdict.value == "unknown"
    (tmp_path / "proc/self/mountinfo").unlink()
    assert judge_disk(sight, OPTIONS).verdict.value == "unknown"


def test_this_machines_own_disk_can_be_looked_at():
    verdict, text = finding("disk", node=Node("n"))
    assert verdict in {"ok", "bad"}
    assert "/" in text


def test_mount_points_with_spaces_are_read(sight):
    assert mount_points(sight.node.root)["/mnt/with space"] == "lustre"


@pytest.mark.parametrize(
    ("mounts", "verdict", "text"),
    [
        ((), "skipped", "no mounts are expected here"),
        (("/home", "/mnt/with space/"), "ok", "2 mounts are there"),
        (("/home", "/scratch"), "bad", "not mounted: /scratch"),
    ],
)
def test_expected_mounts(sight, mounts, verdict, text):
    node = Node("n", root=sight.node.root, mounts=mounts)
    assert finding("mounts", node=node) == (verdict, text)


def test_mounts_that_cannot_be_listed_are_unknown(tmp_path):
    assert finding("mounts", node=Node("n", root=tmp_path, mounts=("/home",)))[0] == "unknown"


def route(interface: str, metric: int, destination: str = "00000000") -> str:
    mask = "00000000" if destination == "00000000" else "00FFFFFF"
    return f"{interface}\t{destination}\t010200C0\t0003\t0\t0\t{metric}\t{mask}\t0\t0\t0\n"


def with_routes(sight, *lines: str):
    text = ROUTES.format(lines="".join(lines))
    (sight.node.root / "proc/net/route").write_text(text)
    return sight


def card(sight, name: str, index: int, *, real: bool = True):
    folder = sight.node.root / "sys/class/net" / name
    folder.mkdir(parents=True)
    (folder / "ifindex").write_text(f"{index}\n")
    if real:
        (folder / "device").mkdir()


NO_OPTIONS = {"interface": None}


def test_the_primary_card_is_the_default_routes(sight):
    with_routes(sight, route("eth1", 200), route("ens4", 100), route("eth2", 0, "0000000A"))
    found = judge_nic(sight, NO_OPTIONS, {"ens4": "10.0.0.7"}.get)
    assert (found.verdict.value, found.text) == ("ok", "ens4 has 10.0.0.7")


def test_without_a_route_the_primary_card_is_the_first_real_one(sight):
    with_routes(sight)
    card(sight, "docker0", 1, real=False)
    card(sight, "ens5", 4)
    card(sight, "ens4", 3)
    found = judge_nic(sight, NO_OPTIONS, lambda _: None)
    assert (found.verdict.value, found.text) == ("bad", "ens4 has no IPv4 address")


def test_a_node_without_a_card_is_bad(sight):
    assert judge_nic(with_routes(sight), NO_OPTIONS).text == "there is no network card"


def test_cards_that_cannot_be_looked_at_are_unknown(sight):
    assert judge_nic(sight, NO_OPTIONS).verdict.value == "unknown"


def test_an_interface_of_this_machine_has_an_address_and_a_made_up_one_has_none():
    assert finding("nic", node=Node("n"), interface="lo") == ("ok", "lo has 127.0.0.1")
    assert finding("nic", node=Node("n"), interface="nosuch0")[0] == "bad"


@pytest.mark.parametrize(("load", "verdict"), [(3.0, "ok"), (13.0, "bad")])
def test_the_load_is_measured_by_the_processors(sight, load, verdict):
    found = judge_load(sight, {"per_processor": 3.0}, lambda: (0.0, load, 99.0), lambda: 4)
    assert found.verdict.value == verdict


def test_a_system_that_tells_no_load_is_unknown(sight):
    def load():
        raise OSError

    assert judge_load(sight, {"per_processor": 3.0}, load).verdict.value == "unknown"
