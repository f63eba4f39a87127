"""The daemon: pass after pass, woken by hooks, with a heartbeat. It decides nothing.

systemd (or whoever) starts it anew if it dies: between two passes there is nothing to lose.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from slurm_flex.cycle import Cycle, Outside
from slurm_flex.errors import FlexError
from slurm_flex.publish import Publisher
from slurm_flex.sdnotify import Notifier
from slurm_flex.wake import Ear

_log = structlog.get_logger(__name__)

_OPENED_AT_THE_START: Final = ("run_dir", "state_dir", "metrics_port", "log_level")


class Daemon:
    """Runs until SIGTERM or SIGINT. SIGHUP reads both files again, and keeps the old ones if the
    new are bad. Everything that it needs is given to it."""

    def __init__(
        self,
        cycle: Cycle,
        ear: Ear,
        publisher: Publisher,
        notifier: Notifier,
        reload: Callable[[], Outside],
    ) -> None:
        self._cycle = cycle
        self._ear = ear
        self._publisher = publisher
        self._notifier = notifier
        self._reload = reload
        self._bad_files = ""

    def run(self) -> None:
        self._ear.mind(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self._notifier.send("READY=1")
        _log.info("ready", cluster=self._cycle.outside.site.cluster.id)
        while not told_to_end(self._ear):
            self._one_pass()
        self._notifier.send("STOPPING=1")
        _log.info("ended")

    def _one_pass(self) -> None:
        report = self._cycle.run()
        next_pass = self._publisher.publish(report, [self._bad_files] if self._bad_files else [])
        healthy = "all well" if report.is_healthy else f"{len(report.errors)} errors"
        self._notifier.send("WATCHDOG=1", f"STATUS=last pass: {healthy}")
        if not told_to_end(self._ear):
            self._ear.wait(next_pass.total_seconds())
        if signal.SIGHUP in self._ear.heard:
            self._ear.heard.discard(signal.SIGHUP)
            self._read_files_again()

    def _read_files_again(self) -> None:
        self._notifier.send("RELOADING=1")
        try:
            new = self._reload()
        except FlexError as error:
            if str(error) != self._bad_files:
                self._bad_files = str(error)
                _log.error("the old files stay in use", what=self._bad_files)
        else:
            self._bad_files = ""
            self._cycle.outside = _with_old_places(new, self._cycle.outside)
            _log.info("files read again")
        self._notifier.send("READY=1")


def _with_old_places(new: Outside, old: Outside) -> Outside:
    """What was opened at the start stays where it is until the next one."""
    kept = {key: getattr(old.site.settings, key) for key in _OPENED_AT_THE_START}
    changed = [key for key, value in kept.items() if getattr(new.site.settings, key) != value]
    if not changed:
        return new
    _log.warning("takes effect at the next start", settings=", ".join(changed))
    settings = new.site.settings.model_copy(update=kept)
    return replace(new, site=replace(new.site, settings=settings))


def told_to_end(ear: Ear) -> bool:
    """Whether a signal said so; asked between actions, too."""
    return bool(ear.heard & {signal.SIGTERM, signal.SIGINT})
