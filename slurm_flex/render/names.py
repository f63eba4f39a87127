"""File names and paths of what is rendered, and who wrote a file."""

from __future__ import annotations

from typing import Final

MAIN_FILE: Final = "slurm-flex.conf"
"""Included by slurm.conf. It lies beside it, not in a folder of its own: a configless slurmd gets
included files of the same folder only (measured on 22.05)."""

GRES_FILE: Final = "gres.conf"

_MARK: Final = "# Written by slurm-flex"


def header(release: object, *about: str) -> list[str]:
    """The first lines of a rendered file."""
    return [
        f"{_MARK} render from cluster_config.json and slurm-flex.toml, for Slurm {release}.",
        "# What is changed here by hand is lost with the next render.",
        *(f"# {line}" if line else "#" for line in about),
    ]


def is_ours(text: str) -> bool:
    """A file that an earlier render wrote; anything else belongs to somebody else."""
    return text.startswith(_MARK)
