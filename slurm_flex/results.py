"""What became of an action: a value, never an exception, so that one failure stops nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_flex.actions import Action
from slurm_flex.memory import Pending
from slurm_flex.model.memory import Answer


@dataclass(frozen=True, slots=True)
class Result:
    """`error` is one line, empty if the action is done or under way. `answer` is what the next
    plan must know of a failed launch, `pending` what has to be looked at later."""

    action: Action
    error: str = ""
    answer: Answer | None = None
    pending: tuple[Pending, ...] = ()
    finished_nonces: tuple[str, ...] = ()
    """Calls that are over, by the key of their nonce."""

    @property
    def ok(self) -> bool:
        return not self.error
