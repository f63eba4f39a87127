"""GPU errors in the kernel's log: Xid lines since this boot and since the last look."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Optional

from slurm_flex.health import kernel_log, schema
from slurm_flex.health.kernel_log import Record
from slurm_flex.health.node import Node
from slurm_flex.health.schema import Field
from slurm_flex.health.sight import Builtin, Judged, Options, Sight
from slurm_flex.health.state import Cursor, boot_id
from slurm_flex.health.verdict import Finding, bad, ok, one_line, skipped, unknown

# The hardware's own, from NVIDIA's Xid catalogue: double-bit ECC, row remap and its failure,
# NVLink, off the bus, (un)contained ECC, GSP.
FATAL: Final = (46, 48, 63, 64, 74, 79, 94, 95, 119, 120)
# The application's: illegal access, reset channel, stopped processing, cleanup after a kill.
APPLICATION: Final = (13, 31, 43, 45)

# Matched from the beginning: a process may call itself anything, and its name is in these lines.
_XID: Final = re.compile(r"NVRM: Xid \(([^)]{1,64})\): (\d{1,5})(?:, *(.*))?")
# Some drivers say so without an Xid, in a record of three lines (NVIDIA/NVSentinel#155).
_OFF_THE_BUS: Final = re.compile(
    r"NVRM: (?:The NVIDIA )?GPU (?:at )?([^ ]{1,64}).{0,400}fallen off the bus"
)
_OFF_THE_BUS_XID: Final = 79


@dataclass(frozen=True)
class Xid:
    """One error: NVIDIA's number, the PCI address as printed, the rest of the line."""

    number: int
    where: str
    text: str

    def __str__(self) -> str:
        where = f" on {self.where}" if self.where else ""
        return f"Xid {self.number}{where}" + (f": {self.text}" if self.text else "")


def find_xids(records: Iterable[Record]) -> list[Xid]:
    """The Xid lines among records."""
    found = []
    for record in records:
        match = _XID.match(record.text)
        if match:
            where = match[1].replace("PCI:", "")
            words = re.sub(r"pid='?[^,]*, *(name=[^,]*, *)?", "", match[3] or "")
            found.append(Xid(int(match[2]), where, one_line(words, 100)))
            continue
        match = _OFF_THE_BUS.match(record.text)
        if match:
            where = match[1].rstrip(":").replace("PCI:", "")
            found.append(Xid(_OFF_THE_BUS_XID, where, "GPU has fallen off the bus"))
    return found


def since(records: list[Record], cursor: Cursor) -> list[Record]:
    """The records that the last look didn't see.

    By their own number where they have one. A log that ends before the cursor began anew.
    """
    if not records:
        return []
    last = records[-1]
    if last.sequence is not None and cursor.sequence >= 0:
        if last.sequence < cursor.sequence:
            return records
        return [r for r in records if r.sequence is not None and r.sequence > cursor.sequence]
    newest = max(record.microseconds for record in records)
    if newest < cursor.microseconds:
        return records
    return [record for record in records if record.microseconds > cursor.microseconds]


def advanced(cursor: Cursor, records: list[Record]) -> Cursor:
    """The cursor behind the last of these records."""
    if not records:
        return cursor
    return replace(
        cursor,
        sequence=-1 if records[-1].sequence is None else records[-1].sequence,
        microseconds=max(record.microseconds for record in records),
    )


def judge_records(records: list[Record], cursor: Cursor, options: Options) -> Judged:
    """Fatal ones fail the node, any other is worth a note."""
    fresh = find_xids(since(records, cursor))
    fatal = [xid for xid in fresh if xid.number in options["fatal"]]
    notes = _notes([xid for xid in fresh if xid not in fatal], options["application"])
    after = advanced(cursor, records)
    if fatal:
        more = f" (and {len(fatal) - 1} more)" if len(fatal) > 1 else ""
        return Judged(bad(f"{fatal[0]}{more}", *notes), after)
    return Judged(ok("no hardware Xid since the last look", *notes), after)


def _notes(xids: list[Xid], application: tuple[int, ...]) -> list[str]:
    counts: dict[tuple[int, str], int] = {}
    for xid in xids:
        counts[(xid.number, xid.where)] = counts.get((xid.number, xid.where), 0) + 1
    notes = []
    for (number, where), count in sorted(counts.items()):
        whose = "the application's" if number in application else "not known as fatal"
        notes.append(f"Xid {number} on {where or 'a GPU'}, {count} times, {whose}")
    return notes[:20]


def _probe(node: Node, options: Options) -> Optional[tuple[str, ...]]:  # noqa: ARG001
    if kernel_log.kmsg_is_readable(node) or not node.expected_gpus():
        return None
    return kernel_log.reader(node)


def _judge(sight: Sight, options: Options) -> Judged:
    cursor = sight.cursor.in_boot(boot_id(sight.node.root))
    if not sight.node.expected_gpus():
        return Judged(skipped("no GPU is expected here"), cursor)
    records = _records(sight)
    if isinstance(records, Finding):
        return Judged(records, cursor)
    return judge_records(records, cursor, options)


def _records(sight: Sight) -> list[Record] | Finding:
    if sight.output is None:
        if not kernel_log.kmsg_is_readable(sight.node):
            return unknown(f"{sight.node.kernel_log} can't be read, and there is no dmesg")
        try:
            records = kernel_log.read_kmsg(sight.node.kernel_log)
        except OSError as error:
            return unknown(f"{sight.node.kernel_log} can't be read: {error.strerror}")
    elif sight.output.trouble() or sight.output.status != 0:
        why = sight.output.trouble() or sight.output.first_line() or "it failed"
        return unknown(f"the kernel log can't be read: {one_line(why, 100)}")
    else:
        records = kernel_log.parse_stamped(sight.output.stdout)
    # The kernel says something at every boot: an empty log is one that we may not see.
    return records or unknown("the kernel log is empty")


XID = Builtin(
    about="hardware Xids in the kernel log since this boot and since the last look",
    options={
        "fatal": Field(schema.list_of(schema.integer(1, 99999)), "Xids that fail the node", FATAL),
        "application": Field(
            schema.list_of(schema.integer(1, 99999)),
            "Xids that are the application's; they are only named so in the note",
            APPLICATION,
        ),
    },
    probe=_probe,
    judge=_judge,
)
