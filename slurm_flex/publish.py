"""After a pass: the status file, the numbers, one line in the log if something happened."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import structlog

from slurm_flex import status_file
from slurm_flex.cycle import Report
from slurm_flex.metrics import Metrics
from slurm_flex.status import Health, digest

_log = structlog.get_logger(__name__)


ON_ITS_WAY: Final = frozenset(("asked", "queued", "booting", "ending", "leaving"))
"""Phases that change by themselves: worth a look every busy_interval."""


class Publisher:
    """Tells the world how passes went. What it can't write is logged, and stops nothing."""

    def __init__(self, started: datetime, metrics: Metrics | None = None) -> None:
        self._started = started
        self._metrics = metrics
        self._heartbeat: datetime | None = None
        self._cannot_write = ""

    def publish(self, report: Report, more_errors: Sequence[str] = ()) -> timedelta:
        """Tell of a pass. Returns how long until the next one, unless a hook wakes us."""
        if report.is_healthy:
            self._heartbeat = report.snapshot.now
        health = Health(
            version=installed_version(),
            pid=os.getpid(),
            started=self._started,
            heartbeat=self._heartbeat,
            next_pass=timedelta(0),
            errors=[*more_errors, *report.errors],
            notices=report.notices,
            acting=report.snapshot.slurm.primary,
        )
        status = digest(report.snapshot, report.memory, health, report.events)
        next_pass = _pause(status, report)
        status["daemon"]["next_pass"] = next_pass.total_seconds()
        self._write(Path(report.snapshot.settings.run_dir), status)
        if self._metrics is not None:
            self._metrics.note_calls([call.program for call in report.calls])
            self._metrics.note_pass(status, report.results, report.took)
        if report.did:
            did = ", ".join(f"{count} {kind}" for kind, count in sorted(report.did.items()))
            failed = sum(1 for one in report.results if not one.ok)
            _log.info("pass", did=did, failed=failed, seconds=round(report.took.total_seconds(), 2))
        return next_pass

    def _write(self, run_dir: Path, status: dict[str, object]) -> None:
        try:
            status_file.write(run_dir, status)
            self._cannot_write = ""
        except OSError as error:
            if str(error) != self._cannot_write:
                self._cannot_write = str(error)
                _log.error("the status file can't be written", what=self._cannot_write)


def _pause(status: Mapping[str, Any], report: Report) -> timedelta:
    phases = {phase for pool in status["pools"] for phase in pool["phases"]}
    settings = report.snapshot.settings
    busy = bool(phases & ON_ITS_WAY) or report.on_the_way > 0
    return settings.busy_interval if busy else settings.interval


def installed_version() -> str:
    try:
        return version("slurm-flex")
    except PackageNotFoundError:
        return "unknown"
