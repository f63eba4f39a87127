"""Xid lines from the three doors to the kernel's log, since this boot and since the last look."""

import json
from pathlib import Path

import pytest
from health_builders import finding, judged, program

from slurm_flex.health.checkfile import SHIPPED_CHECKS
from slurm_flex.health.kernel_log import parse_kmsg, parse_stamped, reader
from slurm_flex.health.node import Node
from slurm_flex.health.run import Output
from slurm_flex.health.state import Cursor, load_cursor, save_cursor
from slurm_flex.health.xid import find_xids

OFF_THE_BUS = "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
FATAL = (46, 48, 63, 64, 74, 79, 94, 95, 119, 120)
APPLICATION = (13, 31, 43, 45)


def xid(number: int, text: str = OFF_THE_BUS, where: str = "PCI:0000:5b:00") -> str:
    return f"NVRM: Xid ({where}): {number}, {text}"


def kmsg(*texts: str, first: int = 0, level: int = 4) -> str:
    """Records of /dev/kmsg, a second apart."""
    return "".join(
        f"{level},{first + at},{(first + at + 1) * 1_000_000},-;{text}\n SUBSYSTEM=pci\n"
        for at, text in enumerate(texts)
    )


@pytest.fixture
def node(tmp_path):
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    boot(tmp_path, "boot-1")
    (tmp_path / "kmsg").write_text(kmsg("Linux version 6.8.0"))
    return Node("n", gpus=8, kernel_log=str(tmp_path / "kmsg"), root=tmp_path)


def boot(root, name: str) -> None:
    (root / "proc/sys/kernel/random/boot_id").write_text(name + "\n")


def log(node: Node, text: str) -> None:
    Path(node.kernel_log).write_text(text)


def test_a_quiet_log_is_well(node):
    assert finding("xid", node=node) == ("ok", "no hardware Xid since the last look")


@pytest.mark.parametrize("number", FATAL)
def test_a_hardware_xid_now_is_bad(node, number):
    log(node, kmsg("Linux version 6.8.0", xid(number)))
    verdict, text = finding("xid", node=node)
    assert verdict == "bad"
    assert text.startswith(f"Xid {number} on 0000:5b:00: GPU has fallen off the bus.")


@pytest.mark.parametrize("number", APPLICATION)
def test_an_xid_of_the_applications_is_a_note(node, number):
    lines = [xid(number, "pid=77, name=python, Ch 00000008")] * 3
    log(node, kmsg("Linux version 6.8.0", *lines))
    found = judged("xid", node=node).finding
    assert found.verdict.value == "ok"
    assert found.notes == (f"Xid {number} on 0000:5b:00, 3 times, the application's",)


def test_an_xid_of_neither_list_is_a_note(node):
    log(node, kmsg("Linux", xid(109, "CTX SWITCH TIMEOUT")))
    assert judged("xid", node=node).finding.notes == (
        "Xid 109 on 0000:5b:00, 1 times, not known as fatal",
    )


def test_a_site_may_move_an_xid_between_the_lists(node):
    log(node, kmsg("Linux", xid(63)))
    assert finding("xid", node=node, fatal=(79,))[0] == "ok"
    assert finding("xid", node=node, fatal=(63,))[0] == "bad"


def test_an_xid_is_seen_once_and_a_new_one_again(node):
    log(node, kmsg("Linux", xid(79)))
    first = judged("xid", node=node)
    assert first.finding.verdict.value == "bad"
    again = judged("xid", node=node, cursor=first.cursor)
    assert again.finding.verdict.value == "ok"
    log(node, kmsg("Linux", xid(79), "usb 1-1", xid(48)))
    third = judged("xid", node=node, cursor=again.cursor)
    assert third.finding.text.startswith("Xid 48")


def test_what_was_seen_before_a_boot_does_not_hide_what_comes_after_it(node, tmp_path):
    log(node, kmsg("Linux", *["noise"] * 50, xid(79)))
    before = judged("xid", node=node).cursor
    boot(tmp_path, "boot-2")
    log(node, kmsg("Linux", "quiet"))
    quiet = judged("xid", node=node, cursor=before)
    assert quiet.finding.verdict.value == "ok", "an Xid of an earlier boot is not this boot's"
    log(node, kmsg("Linux", xid(48)))
    assert finding("xid", node=node, cursor=before)[0] == "bad"


def test_a_log_that_ends_before_the_cursor_began_anew(node):
    log(node, kmsg("Linux", *["noise"] * 50))
    cursor = judged("xid", node=node).cursor
    log(node, kmsg("Linux", xid(79)))
    assert finding("xid", node=node, cursor=cursor)[0] == "bad"


def test_an_xid_whose_log_was_overwritten_meanwhile_is_still_found_by_its_number(node):
    log(node, kmsg("Linux", "a", "b"))
    cursor = judged("xid", node=node).cursor
    log(node, kmsg(xid(79), "c", first=700))
    assert finding("xid", node=node, cursor=cursor)[0] == "bad"


def test_old_log_files_are_never_read(node, tmp_path):
    """Old lines in syslog kept nodes drained (Azure/azurehpc#648)."""
    (tmp_path / "var/log").mkdir(parents=True)
    for name in ("syslog", "messages", "kern.log", "dmesg"):
        (tmp_path / "var/log" / name).write_text("Nov 1 host kernel: " + xid(79) + "\n")
    assert finding("xid", node=node)[0] == "ok"


def test_a_process_cannot_forge_an_xid_by_its_name(node):
    evil = "name=NVRM: Xid (PCI:0000:5b:00): 79, GPU has fallen off the bus"
    log(node, kmsg("Linux", xid(31, f"pid=9, {evil}"), f"traps: {evil}"))
    assert finding("xid", node=node)[0] == "ok"


def test_what_a_process_writes_to_kmsg_is_not_the_kernels(node):
    log(node, kmsg("Linux") + kmsg(xid(79), first=1, level=12))
    assert finding("xid", node=node)[0] == "ok"


@pytest.mark.parametrize(
    "text",
    [
        r"NVRM: The NVIDIA GPU 0000:b3:00.0\x0a               NVRM: (PCI ID: 10de:26b5) installed"
        r" in this system has\x0a  NVRM: fallen off the bus and is not responding to commands.",
        "NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.",
        "NVRM: GPU at PCI:0000:b3:00.0 has fallen off the bus.",
    ],
)
def test_a_gpu_that_falls_off_the_bus_without_an_xid_is_bad(node, text):
    """NVIDIA/NVSentinel#155."""
    log(node, kmsg("Linux", text))
    assert finding("xid", node=node) == (
        "bad",
        "Xid 79 on 0000:b3:00.0: GPU has fallen off the bus",
    )


JOURNAL = f"""\
[    0.000000] c1-gx-1 kernel: Linux version 6.8.0
[  612.123456] c1-gx-1 kernel: {xid(31, "pid=1, name=python, MMU Fault")}
[ 7300.500000] c1-gx-1 kernel: {xid(79)}
"""
DMESG = f"""\
[    0.000000] Linux version 6.8.0
[  612.123456] {xid(31, "pid=1, name=python, MMU Fault")}
[ 7300.500000] {xid(79)}
"""
DMESG_RAW = f"<6>[    0.000000] Linux\n<4>[ 7300.500000] {xid(79)}\n"
DMESG_LINES = """\
[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0
               NVRM: (PCI ID: 10de:26b5) installed in this system has
               NVRM: fallen off the bus and is not responding to commands.
"""


@pytest.mark.parametrize("text", [JOURNAL, DMESG, DMESG_RAW, DMESG_LINES])
def test_journal_and_dmesg_are_read_alike(node, text):
    assert finding("xid", Output(stdout=text), node=node)[0] == "bad"


def test_stamps_are_the_cursor_where_lines_have_no_numbers(node):
    first = judged("xid", Output(stdout=DMESG), node=node)
    assert first.cursor.microseconds == 7_300_500_000
    again = judged("xid", Output(stdout=DMESG), node=node, cursor=first.cursor)
    assert again.finding.verdict.value == "ok"
    more = DMESG + f"[ 7301.000000] {xid(48)}\n"
    assert finding("xid", Output(stdout=more), node=node, cursor=first.cursor)[0] == "bad"


@pytest.mark.parametrize(
    "output",
    [
        Output(1, "", "dmesg: read kernel buffer failed: Operation not permitted\n"),
        Output(0, ""),
        Output(0, "-- No entries --\n"),
        Output(None, hung=True, seconds=10),
    ],
)
def test_a_log_that_may_not_be_read_is_unknown(node, output):
    before = Cursor("boot-1", 5, 6)
    found = judged("xid", output, node=node, cursor=before)
    assert found.finding.verdict.value == "unknown"
    assert found.cursor == before


def test_without_any_door_the_log_is_unknown(node, tmp_path):
    Path(node.kernel_log).unlink()
    verdict, text = finding("xid", node=node)
    assert (verdict, "no dmesg" in text) == ("unknown", True)


def test_a_folder_instead_of_a_log_is_unknown(tmp_path):
    assert finding("xid", node=Node("n", gpus=8, kernel_log=str(tmp_path)))[0] == "unknown"


@pytest.fixture
def tools(tmp_path):
    made = {
        name: str(program(tmp_path / name, "#!/bin/true\n")) for name in ("journalctl", "dmesg")
    }
    return Node("n", tools=made, root=tmp_path)


def test_the_journal_is_asked_for_this_boot_only(tools):
    (tools.root / "run/log/journal/0a1b").mkdir(parents=True)
    (tools.root / "run/log/journal/0a1b/system.journal").touch()
    argv = reader(tools)
    assert argv is not None
    assert argv[0] == tools.tools["journalctl"]
    assert {"--dmesg", "--boot", "--output=short-monotonic"} <= set(argv)


def test_dmesg_is_asked_where_there_is_no_journal(tools):
    (tools.root / "var/log/journal/0a1b").mkdir(parents=True)
    assert reader(tools) == (tools.tools["dmesg"],)


def test_there_may_be_neither():
    assert reader(Node("n", tools={"journalctl": "/nowhere", "dmesg": "/nowhere"})) is None


def test_garbage_holds_no_records():
    assert parse_kmsg("garbage\n;;;\n1,2;x\n9,9,9,-\n\x00\xff") == []
    assert parse_stamped("garbage\n[] x\n[ abc.def] y\n   z") == []
    assert find_xids([]) == []


def test_the_cursor_survives_on_disk_for_its_owner_only(tmp_path):
    state = tmp_path / "state"
    cursor = Cursor("boot-1", 12, 34, 1)
    assert save_cursor(state, "n", cursor) is None
    assert load_cursor(state, "n") == cursor
    assert load_cursor(state, "other") == Cursor()
    assert (state / "n.cursor.json").stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in state.iterdir()] == ["n.cursor.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sequence": "x"}', '{"hangs": -1}', "\x00" * 9])
def test_a_damaged_cursor_is_a_fresh_one(tmp_path, text):
    (tmp_path / "n.cursor.json").write_text(text)
    assert load_cursor(tmp_path, "n") == Cursor()


def test_a_state_folder_that_cannot_be_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    assert "can't be saved" in (save_cursor(tmp_path / "file", "n", Cursor()) or "")


def test_the_check_as_it_is_shipped_knows_the_same_xids():
    shipped = json.loads((SHIPPED_CHECKS / "14-xid.json").read_text())["options"]
    assert (tuple(shipped["fatal"]), tuple(shipped["application"])) == (FATAL, APPLICATION)
