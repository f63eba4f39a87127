"""Put the parts together: both files in, the two sides that are asked and told out.

The one place that knows which backend is behind a Protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.site import Site, load_site
from slurm_flex.compute import open_fleet
from slurm_flex.cycle import Outside
from slurm_flex.errors import InputErrors
from slurm_flex.memory import MemoryFileError, Opened, open_journal, open_store
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


def look_once(env: Mapping[str, str]) -> tuple[Snapshot, Memory]:
    """What a pass would see now, and the memory that it would have. Changes nothing.

    Memory that can't be read by us, or isn't there, is an empty one.
    """
    outside = load_outside(env)
    seen = observe(outside.site, outside.controller, outside.fleet, datetime.now(timezone.utc))
    return seen.snapshot, _memory(outside.site.settings)


def _memory(settings: Settings) -> Memory:
    try:
        journal = open_journal(Path(settings.state_dir))
    except MemoryFileError:
        return Memory()
    try:
        return journal.load()
    except (MemoryFileError, InputErrors):
        return Memory()
    finally:
        journal.close()
