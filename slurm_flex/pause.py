"""Pausing a pool: a file beside the settings, so that it outlives memory, and `ls` shows it.

A paused pool gets no new VM. What is up stays, what goes down goes.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Final

from slurm_flex.cluster.settings import SYSTEM_FILE
from slurm_flex.errors import FlexError
from slurm_flex.folders import make_folder

FOLDER_NAME: Final = "paused"
_POOL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")


def folder_beside(settings_path: Path | None) -> Path:
    """Where the files are: `paused/` in the folder of slurm-flex.toml."""
    return (settings_path or SYSTEM_FILE).parent / FOLDER_NAME


def paused_pools(settings_path: Path | None) -> frozenset[str]:
    """The pools that are paused. Raises FlexError: not knowing is not the same as none."""
    folder = folder_beside(settings_path)
    try:
        return frozenset(file.name for file in folder.iterdir() if _POOL.match(file.name))
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise FlexError(error.strerror or str(error), where=str(folder)) from error


def pause(settings_path: Path | None, pool: str, why: str) -> Path:
    """Pause a pool. `why` is kept in the file, for whoever looks. Raises FlexError."""
    file = folder_beside(settings_path) / pool
    try:
        make_folder(file.parent)
        file.write_text(why + "\n", encoding="utf-8")
        file.chmod(0o644)
    except OSError as error:
        raise _not_allowed(file, error) from error
    return file


def unpause(settings_path: Path | None, pool: str) -> None:
    """End the pause; one that isn't there is fine. Raises FlexError."""
    file = folder_beside(settings_path) / pool
    try:
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
    except OSError as error:
        raise _not_allowed(file, error) from error


def _not_allowed(file: Path, error: OSError) -> FlexError:
    fix = "run it as root, or as the owner of that folder"
    return FlexError(error.strerror or str(error), where=str(file), fix=fix)
