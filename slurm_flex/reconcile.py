"""Passes without a daemon, by hand or by a hook. The acting lock is free between two of them, so
that a daemon that starts takes over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from slurm_flex.acting import ActingLock, SomebodyActs, take_lock
from slurm_flex.cluster.settings import Settings
from slurm_flex.cycle import Cycle, Report
from slurm_flex.publish import Publisher
from slurm_flex.wake import poke


def passes(
    settings: Settings,
    open_cycle: Callable[[], Cycle],
    publisher: Publisher,
    sleep: Callable[[float], None],
    *,
    once: bool,
    patience: timedelta,
) -> Report | None:
    """One pass, or as many as it takes until nothing is on its way: the report of the last.

    None: a daemon runs, and was woken. Another one-shot is waited for no longer than `patience` a
    pass; raises SomebodyActs then. `open_cycle` is called under the lock: it reads the memory.
    """
    cycle: Cycle | None = None
    try:
        while True:
            lock = _lock_unless_a_daemon_runs(Path(settings.run_dir), patience)
            if lock is None:
                return None
            with lock:
                if cycle is None:
                    cycle = open_cycle()
                else:
                    cycle.read_memory_again()
                report = cycle.run()
                pause = publisher.publish(report)
            if once or (pause == settings.interval and not report.did):
                return report
            sleep(pause.total_seconds())
    finally:
        if cycle is not None:
            cycle.close()


def _lock_unless_a_daemon_runs(run_dir: Path, patience: timedelta) -> ActingLock | None:
    if poke(run_dir):
        return None
    try:
        return take_lock(run_dir, patience=patience)
    except SomebodyActs:
        if poke(run_dir):
            return None
        raise
