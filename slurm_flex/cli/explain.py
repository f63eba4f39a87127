"""explain STATE: the words and letters of sinfo, squeue and slurm-flex, in a sentence."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from slurm_flex.cli.output import print_json, print_table
from slurm_flex.cli.reading import Json
from slurm_flex.errors import FlexError

# What each means here, where nodes are Flex-start VMs (facts: what-users-see.md).
PHASES: Final = {
    "off": "Powered down: no VM, nothing billed. Once a job is placed there it is asked for.",
    "asked": "Slurm wants the node up; no VM and no request exist yet.",
    "queued": "A resize request names it and waits for capacity. `slurm-flex queue` has its age.",
    "booting": "Its VM exists; slurmd has not registered yet.",
    "up": "VM and slurmd are there. `slurm-flex nodes` shows when it ends.",
    "ending": "Slurm counts on it, and its VM has ended or is going: it is taken down.",
    "leaving": "Slurm powers it down; usable again after SuspendTimeout.",
    "sick": "A health check of ours drained it; once idle it is replaced.",
    "held": "Somebody else drained or downed it; slurm-flex leaves it alone.",
    "unknown": "Slurm or Compute Engine couldn't be asked: nothing is decided.",
}
LETTERS: Final = {
    "~": "Powered down. Alone (idle~) it is off and costs nothing.",
    "#": "Powering up: for a Flex-start node mostly the wait for capacity, which may take hours.",
    "%": "Powering down, unusable for SuspendTimeout.",
    "!": "Will power down; jobs may still run on it.",
    "*": "Not responding: no VM, no slurmd, or still booting. `slurm-flex why NODE` tells which.",
    "$": "In a maintenance reservation. One named slurm-flex-... is the end of the node's life, "
    "slurm-flex-hold-... a pool that waits, slurm-flex-drain... a drain that is just being made.",
    "@": "A reboot is pending.",
    "^": "A reboot is under way.",
    "-": "Planned by the backfill scheduler for a larger job.",
}
STATES: Final = {
    "idle": "Up and free.",
    "alloc": "All of it is given to jobs. With # the jobs wait for the VM.",
    "mix": "A part of it is given to jobs. With # the jobs wait for the VM.",
    "down": "Out of service. With ~ and our reason it returns by itself when the back-off is over.",
    "drain": "No new jobs. A reason that starts with slurm-flex: is ours, any other is a person's.",
    "drng": "As drain, while jobs still run on it.",
    "comp": "A job is just ending there.",
    "maint": "In a maintenance reservation, see $.",
    "inval": "slurmd registered with other hardware than slurm.conf says.",
    "futr": "Slurm doesn't count on it; some releases put cloud nodes there by mistake.",
}
JOB_STATES: Final = {
    "PD": "Pending. `slurm-flex why JOB` says for what.",
    "CF": "Configuring: it has its nodes, and waits for their VMs.",
    "R": "Running; in its first seconds perhaps still in the prolog.",
    "CG": "Completing.",
    "BeginTime": "Sent back after a node was lost (120 s by Slurm), or delayed by a back-off.",
    "Resources": "Nothing that fits is free.",
    "Priority": "Other jobs come first.",
    "ReqNodeNotAvail": "The nodes it needs are busy, drained, or reserved; often the end of life.",
    "JobHeldAdmin": "Held by an administrator.",
    "JobHoldMaxRequeue": "Sent back too often: scontrol release JOB.",
    "NODE_FAIL": "Its node ended under it. Batch jobs are requeued, srun and salloc can't be.",
}
EVENTS: Final = {
    "REQUEST_CREATED": "A resize request of ours is in Compute Engine's list.",
    "REQUEST_ACCEPTED": "It stands in the queue for capacity, or was granted at once.",
    "REQUEST_FAILED": "A launch failed; the text is Google's reason, the job has a back-off.",
    "REQUEST_CANCELLED": "Nobody wants its nodes, it waited too long, or somebody cancelled it.",
    "RESUME_TIMEOUT": "Slurm gave up waiting for a node; a live request keeps its place.",
    "NODE_EXPIRING": "A job would outlast its node: it was told.",
    "NODE_EXPIRED": "A VM ended on time: its Flex-start limit, or its host's maintenance.",
    "NODE_COMPLETING": "A job's end hangs on a node.",
    "BOOT_FAILED": "A VM came, and its slurmd did not register in time.",
    "VM_LOST": "A VM is gone before its time.",
    "VM_DELETION": "A VM was given back.",
    "VM_REPORT_AND_REPLACEMENT": "A VM failed a check, fell silent or stayed in repair: "
    "it is replaced.",
    "VM_PROLOG_ERROR": "A node failed a check before a job, or its prolog failed.",
    "VM_EPILOG_ERROR": "A node failed a check after a job, or its epilog failed.",
    "VM_CONTINUOUS_GPU_ERROR": "A node failed a check of its GPUs that isn't a job's.",
    "VM_SCAN_ERROR": "A node failed another check that isn't a job's.",
    "VM_SLURM_DRAIN": "A node was drained, by a check or by a person.",
    "VM_SLURM_POWER_DOWN": "Slurm powers a node down that has a VM.",
    "VM_REBOOT": "A reboot of a node was asked for.",
    "FOREIGN_VM": "A VM that isn't ours is in our group; it is left alone.",
    "POOL_VANISHED": "Many VMs are gone at once: it is looked again before anything is done.",
    "POOL_SICK": "Many nodes are sick at once: none is replaced, a person must look.",
    "BREAKER_OPEN": "Launches of a pool fail for a reason that retries don't mend.",
    "BREAKER_CLOSED": "The pool's probe came up: launches go on.",
    "UNKNOWN_STATE": "Slurm prints a node state that no rule knows.",
}
_TABLES: Final = {
    "phase of slurm-flex": PHASES,
    "letter behind a node's state": LETTERS,
    "state of a node": STATES,
    "state or reason of a job": JOB_STATES,
    "kind of event": EVENTS,
}
_LONG: Final = {
    "POWERED_DOWN": "~", "POWERING_UP": "#", "POWERING_DOWN": "%", "POWER_DOWN": "!",
    "NOT_RESPONDING": "*", "MAINT": "$", "MAINTENANCE": "$",
    "REBOOT_REQUESTED": "@", "REBOOT_ISSUED": "^",
    "PLANNED": "-", "ALLOCATED": "alloc", "MIXED": "mix", "DRAINED": "drain", "DRAINING": "drng",
    "COMPLETING": "comp", "INVALID_REG": "inval", "FUTURE": "futr", "PENDING": "PD",
    "CONFIGURING": "CF", "RUNNING": "R", "CLOUD": "",
}  # fmt: skip


def explain(
    state: Annotated[
        str | None,
        typer.Argument(help="A state as sinfo, squeue or slurm-flex print it, or an event's kind."),
    ] = None,
    as_json: Json = False,
) -> None:
    """What a state means: idle~, mix#, down*, CF, BeginTime, queued. Without one: all of them.

    Examples:

      slurm-flex explain 'mix#'

      slurm-flex explain IDLE+CLOUD+POWERING_UP

      slurm-flex explain BeginTime
    """
    found = _all() if state is None else meanings(state)
    if not found:
        raise FlexError(f"{state} is no state we know", fix="`slurm-flex explain` lists them all")
    if as_json:
        print_json([{"word": word, "is": kind, "means": text} for word, kind, text in found])
    else:
        print_table(("WORD", "IS A", "MEANS"), found, empty="")


def meanings(state: str) -> list[tuple[str, str, str]]:
    """Each word and letter of a state with its kind and meaning; what isn't known is left out."""
    found: list[tuple[str, str, str]] = []
    for part in state.strip("() ").replace(",", "+").split("+"):
        whole = part.strip()
        bare = whole.rstrip("".join(LETTERS)) or whole
        for word in (bare, *whole[len(bare) :]):
            found += _lookup(_LONG.get(word.upper(), word))
    return list(dict.fromkeys(found))


def _lookup(word: str) -> list[tuple[str, str, str]]:
    return [
        (known, kind, text)
        for kind, table in _TABLES.items()
        for known, text in table.items()
        if known == word or (len(word) > 1 and known.lower() == word.lower())
    ]


def _all() -> list[tuple[str, str, str]]:
    return [(word, kind, text) for kind, table in _TABLES.items() for word, text in table.items()]
