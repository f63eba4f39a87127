"""What can go wrong between us and slurmctld, a type for each way."""

from __future__ import annotations

import re
from typing import Final

from slurm_flex.errors import FlexError


class SlurmError(FlexError):
    """Something that Slurm, or the way to it, refused."""


class CommandMissing(SlurmError):
    """scontrol, squeue or scancel isn't where it should be."""


class ConfigurationBroken(SlurmError):
    """Slurm's own client can't read its slurm.conf."""


class SlurmctldUnreachable(SlurmError):
    """No answer: slurmctld is down, on standby, too slow, or munge doesn't work.

    Nothing is known after it, neither what is nor whether a change was made.
    """


class SlurmctldTooSlow(SlurmctldUnreachable):
    """It is there and didn't answer in time; the next command may find it less busy."""


class PermissionDenied(SlurmError):
    """Slurm knows what was meant and doesn't let us: we are neither SlurmUser nor root."""


class InvalidTarget(SlurmError):
    """The job, node or reservation doesn't exist (any more)."""


class NotSupported(SlurmError):
    """This release of Slurm can't do it."""


class ParseError(SlurmError):
    """Slurm printed something that this release of slurm-flex can't read."""


class SlurmRefused(SlurmError):
    """Any other refusal, in Slurm's own words."""


_KINDS: Final[tuple[tuple[type[SlurmError], re.Pattern[str], str], ...]] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE), fix)
    for kind, pattern, fix in (
        (
            SlurmctldTooSlow,
            r"socket timed out",
            "see whether slurmctld is overloaded: sdiag",
        ),
        (
            SlurmctldUnreachable,
            r"unable to contact slurm controller|connection refused|"
            r"zero bytes were transmitted|standby mode|connection timed out|slurmctld.* down",
            "see whether slurmctld runs: systemctl status slurmctld",
        ),
        (
            SlurmctldUnreachable,
            r"authentication (?:error|fail)|invalid authentication|\bmunge",
            "see whether munged runs here and shares slurmctld's key",
        ),
        (
            ConfigurationBroken,
            r"unable to process configuration|parse error in file|parsing error at|"
            r"cannot stat file|could not establish a configuration source",
            "mend slurm.conf, or set slurm_conf in slurm-flex.toml",
        ),
        (
            PermissionDenied,
            r"invalid user id|permission denied|not permitted|must be root|not authorized",
            "run slurm-flex as SlurmUser",
        ),
        (
            InvalidTarget,
            r"invalid node name|invalid job id|requested reservation is invalid|"
            r"(?:node|job|reservation) \S+ not found|invalid job array",
            "",
        ),
        (NotSupported, r"no valid entity in update command|unsupported|invalid flag", ""),
    )
)


def classify(said: str, *, where: str = "") -> SlurmError:
    """The error that a Slurm command's words stand for (LC_ALL=C)."""
    words = " ".join(said.split()) or "refused without a word"
    shown = words if len(words) <= 300 else words[:297] + "..."
    for kind, pattern, fix in _KINDS:
        if pattern.search(words):
            return kind(shown, where=where, fix=fix)
    return SlurmRefused(shown, where=where)
