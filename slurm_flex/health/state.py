"""What one look leaves for the next: how far the kernel log has been read.

One small file a node, 0600, in a folder of root's. Losing it means that the kernel log is read
again from this boot's beginning, nothing worse.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Optional

from slurm_flex.health import schema
from slurm_flex.health.schema import Field


@dataclass(frozen=True)
class Cursor:
    """How far we have looked.

    boot_id: the boot that the rest is about. sequence: the last record of /dev/kmsg (its own
    number), -1 for none. microseconds: that record's time since boot, for logs without numbers.
    hangs: how many looks in a row nvidia-smi hung.
    """

    boot_id: str = ""
    sequence: int = -1
    microseconds: int = -1
    hangs: int = 0

    def in_boot(self, boot_id: str) -> Cursor:
        """This cursor if it is of this boot, a fresh one otherwise."""
        return self if self.boot_id == boot_id else Cursor(boot_id=boot_id)

    def hung(self, hung: bool) -> Cursor:
        """One more look that hung, or the end of such a row."""
        return replace(self, hangs=self.hangs + 1 if hung else 0)


_LARGE = 2**62
_FIELDS = {
    "boot_id": Field(schema.text(r"[\w-]{0,64}", "a boot id"), "", ""),
    "sequence": Field(schema.integer(-1, _LARGE), "", -1),
    "microseconds": Field(schema.integer(-1, _LARGE), "", -1),
    "hangs": Field(schema.integer(0, _LARGE), "", 0),
}


def boot_id(root: Path) -> str:
    """The kernel's name for this boot; empty where it has none."""
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def cursor_file(state: Path, node: str) -> Path:
    """Several slurmd on one host don't share a cursor."""
    return state / f"{node}.cursor.json"


def load_cursor(state: Path, node: str) -> Cursor:
    """The cursor that the last look left; a fresh one if there is none that can be read."""
    data, problem = schema.load_json(cursor_file(state, node))
    values, problems = schema.read_object(data, _FIELDS, "")
    return Cursor() if problem or problems else Cursor(**values)


def save_cursor(state: Path, node: str, cursor: Cursor) -> Optional[str]:
    """Put the cursor down in one step; why not, if it can't be."""
    path = cursor_file(state, node)
    temporary = state / f".{path.name}.{os.urandom(8).hex()}"
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            json.dump(asdict(cursor), file)
        temporary.replace(path)
    except OSError as error:
        return f"the cursor can't be saved in {state}: {error.strerror}"
    return None
