"""The status file: what the last pass saw and did, for people and programs without any rights.

`nodes`, `queue`, `why` and `status` read it; none of them asks Slurm or Compute Engine. It is
written whole and renamed, so that a reader sees one pass or another, never half of one.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slurm_flex.errors import FlexError
from slurm_flex.folders import make_folder

FILE_NAME: Final = "status.json"
FORMAT: Final = "slurm-flex-status/1"


def write(run_dir: Path, status: Mapping[str, Any]) -> None:
    """Replace the status file, readable by everybody. Raises OSError."""
    make_folder(run_dir)
    unfinished = run_dir / f".{FILE_NAME}.{os.getpid()}"
    try:
        unfinished.write_text(json.dumps(status, separators=(",", ":")), encoding="utf-8")
        unfinished.chmod(0o644)
        unfinished.replace(run_dir / FILE_NAME)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


def read(run_dir: Path) -> dict[str, Any]:
    """The status file. Raises FlexError: there is none, or it isn't one of this release's."""
    file = run_dir / FILE_NAME
    fix = "is slurm-flex running? `systemctl status slurm-flex` tells"
    try:
        status = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise FlexError("there is no status yet", where=str(file), fix=fix) from error
    except OSError as error:
        fix = f"it is meant for everybody: as root, chmod a+rx {run_dir} and the folders above it"
        raise FlexError(error.strerror or str(error), where=str(file), fix=fix) from error
    except (ValueError, RecursionError) as error:
        raise FlexError(f"is not JSON: {error}", where=str(file), fix=fix) from error
    if not isinstance(status, dict) or status.get("format") != FORMAT:
        raise FlexError(f"is not in the format {FORMAT}", where=str(file), fix=fix)
    return status
