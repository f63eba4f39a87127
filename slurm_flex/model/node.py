"""A node and its state: the one place where Slurm's flags are read.

The rules ask a node whether it :attr:`Node.is_off`, never which letters stood in its state. State
sets are never compared for equality: flags come and go between releases (facts: slurm.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final

OWN_REASON: Final = "slurm-flex:"
"""Every reason that slurm-flex writes on a node starts so; any other is somebody else's."""
RELEASE_REASON: Final = "slurm-flex: release:"
"""The drain that hides an unallocated node from the scheduler before it is forced down."""
RETIRED_REASON: Final = "slurm-flex: no longer in the cluster file"

# The suffix letters of sinfo(1) and of scontrol before 21.08, as the flags that they stand for.
_SUFFIXES: Final = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "!": "POWER_DOWN",
    "$": "MAINT",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
# Words that releases and commands write differently for one and the same flag.
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "ALLOC": ("ALLOCATED",),
    "MIX": ("MIXED",),
    "COMP": ("COMPLETING",),
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAINING": ("ALLOCATED", "DRAIN"),
    "DRNG": ("ALLOCATED", "DRAIN"),
    "FAIL": ("DOWN",),
    "ERROR": ("DOWN",),
    "NO_RESPOND": ("NOT_RESPONDING",),
    "POWERED_UP": (),
    "REBOOT": ("REBOOT_REQUESTED",),
    "INVAL": ("INVALID_REG",),
    "MAINTENANCE": ("MAINT",),  # scontrol's word on every release; sinfo says MAINT
}
# POWER_UP is asked for, POWERING_UP under way: one thing to us. But a request that is repeated just
# before the node registers stays on it though it is up; it runs jobs and is suspended as any other
# (R 24.11.5, 26.05).
_NOT_UP: Final = frozenset({"POWERED_DOWN", "POWERING_DOWN"})
KNOWN_FLAGS: Final = frozenset(
    """
    IDLE ALLOCATED MIXED DOWN FUTURE UNKNOWN CLOUD DRAIN COMPLETING NOT_RESPONDING INVALID_REG
    POWERING_UP POWERED_DOWN POWERING_DOWN POWER_DOWN MAINT RESERVED PLANNED BLOCKED
    REBOOT_REQUESTED REBOOT_ISSUED REBOOT_CANCEL DYNAMIC_FUTURE DYNAMIC_NORM EXTERNAL
    POWER_DRAIN RES PERFCTRS UNDRAIN UPDATE RESUME
    """.split()
)
# What Slurm itself writes as the reason of a node: the start is fixed, details follow.
_SLURM_REASONS: Final = (
    "Not responding",
    "ResumeTimeout reached",
    "Node unexpectedly rebooted",
    "Low ",
    "gres/",
    "Duplicate jobid",
    "Reboot ASAP",
    "reboot timed out",
    "Invalid",
)


@lru_cache(maxsize=4096)
def parse_state(text: str) -> frozenset[str]:
    """The flags of a node state as Slurm prints it, in any release's spelling.

    Unknown words are kept (a new release may bring new ones) and mean nothing to any rule.
    """
    flags: set[str] = set()
    for word in re.split(r"[+,\s]+", text.strip().upper()):
        bare = word.rstrip("".join(_SUFFIXES))
        flags.update(_SUFFIXES[letter] for letter in word[len(bare) :])
        if bare:
            flags.update(_SYNONYMS.get(bare, (bare,)))
    if "POWER_UP" in flags:
        flags.remove("POWER_UP")
        if flags & _NOT_UP:
            flags.add("POWERING_UP")
    return frozenset(flags)


@dataclass(frozen=True, slots=True)
class Node:
    """A node as slurmctld sees it. `state` is Slurm's own text; the predicates read it."""

    name: str
    state: str
    reason: str | None = None
    reason_time: datetime | None = None
    reason_user: str | None = None
    instance_id: str | None = None
    boot_time: datetime | None = None
    comment: str | None = None
    flags: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "flags", parse_state(self.state))

    @property
    def unknown_flags(self) -> frozenset[str]:
        return self.flags - KNOWN_FLAGS

    @property
    def is_unknowable(self) -> bool:
        """FUTURE and UNKNOWN say nothing about the VM: some releases put CLOUD nodes there."""
        return bool(self.flags & {"FUTURE", "UNKNOWN"}) or not self.flags

    @property
    def is_allocated(self) -> bool:
        return bool(self.flags & {"ALLOCATED", "MIXED"})

    @property
    def is_completing(self) -> bool:
        return "COMPLETING" in self.flags

    @property
    def is_busy(self) -> bool:
        return self.is_allocated or self.is_completing

    @property
    def is_down(self) -> bool:
        return "DOWN" in self.flags

    @property
    def is_drained(self) -> bool:
        return "DRAIN" in self.flags

    @property
    def is_powering_up(self) -> bool:
        """Asked for, or on its way up."""
        return "POWERING_UP" in self.flags

    @property
    def is_powering_down(self) -> bool:
        return "POWERING_DOWN" in self.flags

    @property
    def is_powered_down(self) -> bool:
        return "POWERED_DOWN" in self.flags

    @property
    def is_power_down_requested(self) -> bool:
        return "POWER_DOWN" in self.flags

    @property
    def is_off(self) -> bool:
        """Powered down, and Slurm isn't about to power it up."""
        return (
            self.is_powered_down
            and not self.is_powering_up
            and not self.is_powering_down
            and not self.is_allocated
        )

    @property
    def is_about_to_power_up(self) -> bool:
        """Handed to a job and still off: ResumeRate lets Slurm start a job's nodes in parts."""
        return self.is_powered_down and self.is_allocated and not self.is_powering_down

    @property
    def is_believed_up(self) -> bool:
        """Slurm counts on a running slurmd (or had one until it lost it)."""
        return not (
            self.is_powered_down
            or self.is_powering_up
            or self.is_powering_down
            or self.is_unknowable
        )

    @property
    def is_rebooting(self) -> bool:
        return bool(self.flags & {"REBOOT_REQUESTED", "REBOOT_ISSUED"})

    @property
    def is_not_responding(self) -> bool:
        return "NOT_RESPONDING" in self.flags

    @property
    def is_registration_invalid(self) -> bool:
        return "INVALID_REG" in self.flags

    @property
    def has_own_reason(self) -> bool:
        return bool(self.reason) and str(self.reason).startswith(OWN_REASON)

    @property
    def has_slurm_reason(self) -> bool:
        return bool(self.reason) and str(self.reason).startswith(_SLURM_REASONS)

    @property
    def timed_out_resuming(self) -> bool:
        """From 23.02 Slurm appends its text to a reason that is already there."""
        return "ResumeTimeout reached" in (self.reason or "")

    @property
    def is_held(self) -> bool:
        """Somebody else drained or downed it: not wanted, and not ours to end.

        A bare DOWN or DRAIN without any reason is not one of ours either.
        """
        if not (self.is_down or self.is_drained):
            return False
        if self.has_own_reason or self.has_slurm_reason:
            return False
        if self.timed_out_resuming and not self.is_drained:
            return False  # Slurm appended its text to what was left of an older reason
        return not (self.is_registration_invalid and not self.reason)

    @property
    def has_own_drain(self) -> bool:
        return self.is_drained and self.has_own_reason

    @property
    def has_release_drain(self) -> bool:
        return self.is_drained and (self.reason or "").startswith(RELEASE_REASON)

    @property
    def is_retired(self) -> bool:
        """It left the cluster file and goes when it is idle; the drain's reason stays behind."""
        return (self.reason or "").startswith(RETIRED_REASON)

    @property
    def has_health_drain(self) -> bool:
        return self.has_own_drain and not self.has_release_drain and not self.is_retired
