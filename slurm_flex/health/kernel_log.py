"""The kernel's log, from whichever door is open: /dev/kmsg, the journal or dmesg.

Only this boot is read: /dev/kmsg and dmesg hold nothing else, and the journal is asked for it.
Files under /var/log are not, since they hold lines of GPUs that were replaced long ago
(Azure/azurehpc#648).
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from typing import Final, Optional

from slurm_flex.health.node import Node

_MOST_READS: Final = 200_000  # a record each; the largest ring buffer holds fewer
_JOURNAL_LINES: Final = "20000"
_JOURNALS: Final = ("run/log/journal", "var/log/journal")
_LONGEST_RECORD: Final = 1024

# "6,1234,5678901,-;text": level and facility, number, microseconds since boot, flags.
_KMSG: Final = re.compile(r"(\d+),(\d+),(\d+),[^;]*;(.*)")
# "[  123.456789] text" of dmesg, "[  123.456789] host kernel: text" of the journal.
_STAMPED: Final = re.compile(r"(?:<\d+>)?\[\s*(\d+)\.(\d{1,6})\] (?:\S+ kernel: )?(.*)")


@dataclass(frozen=True)
class Record:
    """One line of the kernel's: its number (None without one), its time since boot, its text."""

    sequence: Optional[int]
    microseconds: int
    text: str


def kmsg_is_readable(node: Node) -> bool:
    """Whether the log can be read without a fork."""
    return os.access(node.kernel_log, os.R_OK)


def reader(node: Node) -> Optional[tuple[str, ...]]:
    """The command that prints this boot's kernel log; None where there is no such tool.

    The journal only where there is one: journalctl is installed on systems without it, too.
    """
    journalctl = node.tool("journalctl")
    if journalctl and any(any((node.root / folder).glob("*/*.journal")) for folder in _JOURNALS):
        options = ("--dmesg", "--boot", "--output=short-monotonic", "--no-pager", "--quiet")
        return (journalctl, *options, f"--lines={_JOURNAL_LINES}")
    dmesg = node.tool("dmesg")
    return (dmesg,) if dmesg else None


def read_kmsg(path: str) -> list[Record]:
    """All records of /dev/kmsg, or of a file in its format. Raises OSError."""
    log = bytearray()
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        for _ in range(_MOST_READS):
            try:
                chunk = os.read(handle, 8192)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EPIPE:  # overwritten while we read: go on with the next
                    raise
                continue
            log += chunk
            if not chunk:
                break
    finally:
        os.close(handle)
    return parse_kmsg(log.decode("utf-8", "replace"))


def parse_kmsg(text: str) -> list[Record]:
    """Records in /dev/kmsg's format, the kernel's own only.

    A process may write to /dev/kmsg as well, under a facility other than the kernel's 0.
    """
    matches = (_KMSG.match(line) for line in text.split("\n"))
    return [
        Record(int(match[2]), int(match[3]), match[4].replace("\\x0a", " "))
        for match in matches
        if match and int(match[1]) >> 3 == 0
    ]


def parse_stamped(text: str) -> list[Record]:
    """Records as dmesg or `journalctl --output=short-monotonic` print them.

    A line without a stamp goes on with the record before it.
    """
    records: list[Record] = []
    for line in text.split("\n"):
        match = _STAMPED.match(line)
        if match:
            time = int(match[1]) * 1_000_000 + int(match[2].ljust(6, "0"))
            records.append(Record(None, time, match[3]))
        elif records and line.startswith(" ") and len(records[-1].text) < _LONGEST_RECORD:
            last = records[-1]
            records[-1] = Record(None, last.microseconds, f"{last.text} {line.strip()}")
    return records
