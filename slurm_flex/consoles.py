"""The last words of VMs that failed to boot or fell ill, kept for whoever looks into it.

One file an incarnation, state_dir/consoles/NODE-TIME.log, 0600: a console may hold secrets.
"""

from __future__ import annotations

import contextlib
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Final

from slurm_flex.folders import make_folder

FOLDER: Final = "consoles"
KEPT: Final = 200
SHOWN_LINES: Final = 20


def save_console(state_dir: Path, node: str, now: datetime, text: str) -> None:
    """Keep what a VM said before it is deleted.

    A disk that is full must not keep the VM alive: what can't be saved is let go.
    """
    folder = state_dir / FOLDER
    with contextlib.suppress(OSError):
        make_folder(folder, 0o700)
        file = folder / f"{node}-{now:%Y%m%dT%H%M%SZ}.log"
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as out:
            out.write(text)
        for old in sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime)[:-KEPT]:
            old.unlink()


def last_console(state_dir: Path, node: str) -> tuple[Path, list[str]] | None:
    """The newest console kept of a node and its last lines; None if there is none to read."""
    name = re.compile(re.escape(node) + r"-\d{8}T\d{6}Z\.log")
    with contextlib.suppress(OSError):
        kept = [one for one in (state_dir / FOLDER).iterdir() if name.fullmatch(one.name)]
        newest = max(kept, key=lambda one: one.name, default=None)
        if newest is not None:
            lines = newest.read_text(encoding="utf-8", errors="replace").splitlines()
            return newest, [line for line in lines if line.strip()][-SHOWN_LINES:]
    return None
