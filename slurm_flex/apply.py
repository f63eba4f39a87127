"""Do what was decided, stage by stage: results are values, and nothing waits for the cloud.

Within a stage calls to Compute Engine run side by side, and Slurm gets its updates in batches.
What stops something comes before what lets something go, and that before what starts something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from slurm_flex.actions import Action, Event, PoolAction
from slurm_flex.cloud_acts import apply_cloud
from slurm_flex.compute.fleet import Fleet
from slurm_flex.memory import MemoryFileError, Store
from slurm_flex.model import Snapshot
from slurm_flex.results import Result
from slurm_flex.slurm.controller import SlurmController
from slurm_flex.slurm_acts import NOT_DONE, apply_slurm


@dataclass(frozen=True)
class Hands:
    """Where actions go, and where what was begun is written down."""

    controller: SlurmController
    fleet: Fleet
    store: Store
    clock: Callable[[], datetime]


def apply(
    actions: Sequence[Action],
    snapshot: Snapshot,
    hands: Hands,
    *,
    told_to_end: Callable[[], bool] = lambda: False,
) -> list[Result]:
    """Apply actions in the order in which plan gave them. Never raises for one that fails.

    `told_to_end` is asked between stages: what isn't begun by then is left to the next pass.
    """
    results: list[Result] = []
    for _, stage in groupby(actions, key=lambda action: action.stage):
        together = list(stage)
        if told_to_end():
            results += [Result(action, NOT_DONE) for action in together]
            continue
        cloud = [action for action in together if isinstance(action, PoolAction)]
        slurm = [a for a in together if not isinstance(a, (PoolAction, Event))]
        results += [Result(action) for action in together if isinstance(action, Event)]
        if slurm:
            results += apply_slurm(slurm, hands.controller, hands.clock, told_to_end)
        if cloud:
            done = apply_cloud(cloud, snapshot, hands.fleet, hands.store)
            results += _written_down(done, hands.store)
    return results


def _written_down(results: Iterable[Result], store: Store) -> list[Result]:
    """Keep what has to be looked at later. If that fails nothing is lost but a reason: the next
    listing tells how it went."""
    done = list(results)
    try:
        store.keep_pending(one for result in done for one in result.pending)
        store.forget_nonces(key for result in done for key in result.finished_nonces)
    except MemoryFileError as error:
        done = [
            Result(one.action, one.error or f"sent, but not written down: {error}", one.answer)
            for one in done
        ]
    return done
