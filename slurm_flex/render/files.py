"""Put rendered files into slurm.conf's folder: whole or not at all, and nobody else's replaced."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.render.names import is_ours

_READABLE = 0o644  # slurm.conf is read by every user's commands


@dataclass(frozen=True)
class Written:
    """A file and what became of it: "written", "as it was", or "left alone" (somebody else's)."""

    path: Path
    outcome: str


def write_files(files: Mapping[str, str], folder: Path) -> list[Written]:
    """Write what differs. A file that no render wrote is left alone.

    Raises InputErrors for files that can't be written.
    """
    if not folder.is_dir():
        fix = "install Slurm's controller first, or name another folder with --folder"
        raise InputErrors([FlexError("no such folder", where=str(folder), fix=fix)])
    result: list[Written] = []
    errors: list[FlexError] = []
    for name, text in files.items():
        path = folder / name
        try:
            there = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
            if there == text:
                result.append(Written(path, "as it was"))
            elif there is not None and not is_ours(there):
                result.append(Written(path, "left alone"))
            else:
                _replace(path, text)
                result.append(Written(path, "written"))
        except OSError as error:
            errors.append(FlexError(error.strerror or str(error), where=str(path)))
    if errors:
        raise InputErrors(errors)
    return result


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_READABLE)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
