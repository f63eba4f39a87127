"""Several calls at once, all of them over by a deadline.

The threads are daemons: a server that never answers delays neither the pass nor the exit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from slurm_flex.compute.errors import ComputeError, Unreachable
from slurm_flex.durations import format_duration
from slurm_flex.model.cloud import CloudError

K = TypeVar("K")
T = TypeVar("T")

WORKERS: Final = 8
"""Calls at once: fewer than the ten connections that a session keeps open."""


def gather(
    tasks: Mapping[K, Callable[[], T]], *, within: timedelta, workers: int = WORKERS
) -> dict[K, T | ComputeError]:
    """Run all tasks; each key gets its result, or the ComputeError that it raised.

    A task that isn't over `within` the deadline gets Unreachable; its thread is left behind and
    what it still brings is dropped. Any other exception is a defect of ours, and is raised.
    """
    todo: SimpleQueue[tuple[K, Callable[[], T]]] = SimpleQueue()
    for item in tasks.items():
        todo.put(item)
    results: dict[K, T | ComputeError] = {}
    defects: list[BaseException] = []
    lock = threading.Lock()
    over = threading.Event()
    given_up = threading.Event()

    def work() -> None:
        while not given_up.is_set():
            try:
                key, task = todo.get_nowait()
            except Empty:
                return
            try:
                result: T | ComputeError = task()
            except ComputeError as error:
                result = error
            except BaseException as defect:  # carried over to the thread that asked
                with lock:
                    defects.append(defect)
                over.set()
                return
            with lock:
                results[key] = result
                if len(results) == len(tasks):
                    over.set()

    if not tasks:
        return {}
    for number in range(min(workers, len(tasks))):
        threading.Thread(target=work, name=f"compute-{number}", daemon=True).start()
    over.wait(within.total_seconds())
    given_up.set()
    with lock:
        if defects:
            raise defects[0]
        late = f"no answer within {format_duration(within)}"
        return {
            key: results[key] if key in results else Unreachable(CloudError("timeout", late))
            for key in tasks
        }
