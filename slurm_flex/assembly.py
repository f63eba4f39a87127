"""Put the parts together: both files in, the two sides that are asked and told out.

The one place that knows which backend is behind a Protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.site import Site, load_site
from slurm_flex.compute import open_fleet
from slurm_flex.cycle import Outside
from slurm_flex.errors import InputErrors
from slurm_flex.hook_site import may_be_a_file
from slurm_flex.memory import FILE_NAME, MemoryFileError, Opened, open_journal, open_store
from slurm_flex.model import Memory, Snapshot
from slurm_flex.observe import observe
from slurm_flex.slurm import open_controller
from slurm_flex.startup_scripts import StartupScripts

if TYPE_CHECKING:
    from slurm_flex.compute.workshop import Workshop


def load_outside(env: Mapping[str, str]) -> Outside:
    """Read both files and sign in. Raises FlexError: bad files, or no credentials."""
    return connect(load_site(env))


def connect(site: Site) -> Outside:
    """The two sides of a site."""
    scripts = StartupScripts(site.cluster, site.settings)
    fleet = open_fleet(site.cluster, site.settings, scripts)
    return Outside(site, open_controller(site.settings), fleet)


def open_workshop(site: Site) -> Workshop:
    """What `apply` works with. Raises FlexError: no credentials."""
    scripts = StartupScripts(site.cluster, site.settings)
    return open_fleet(site.cluster, site.settings, scripts).workshop


def memory_opener(settings: Settings) -> Callable[[datetime], Opened]:
    """What opens the memory in the state folder, and opens it anew after a failure."""
    return lambda now: open_store(Path(settings.state_dir), now)


@dataclass(frozen=True)
class Look:
    """What a pass would see now, and the memory that it would have. complaint: why that memory
    isn't the daemon's but an empty one."""

    snapshot: Snapshot
    memory: Memory
    complaint: str = ""


def look_once(env: Mapping[str, str]) -> Look:
    """Changes nothing. Raises FlexError: bad files, or no credentials."""
    outside = load_outside(env)
    seen = observe(outside.site, outside.controller, outside.fleet, datetime.now(timezone.utc))
    try:
        return Look(seen.snapshot, _memory(outside.site.settings))
    except (MemoryFileError, InputErrors) as error:
        return Look(seen.snapshot, Memory(), f"without the daemon's memory: {error}")


def _memory(settings: Settings) -> Memory:
    """Raises MemoryFileError, and InputErrors for one that no release wrote."""
    state_dir = Path(settings.state_dir)
    if not may_be_a_file(state_dir / FILE_NAME):
        return Memory()  # no pass has been yet
    journal = open_journal(state_dir)
    try:
        return journal.load()
    finally:
        journal.close()
