"""Slurm as it is installed on this host: its slurm.conf, its commands, its release, what runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.slurm_keys import Release
from slurm_flex.errors import FlexError
from slurm_flex.folders import user_name
from slurm_flex.render.conf_lines import read_conf
from slurm_flex.render.oracle import installed_release
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.errors import SlurmError
from slurm_flex.slurm.records import parse_nodes

SYSTEM_CONF: Final = "/etc/slurm/slurm.conf"
_DEFAULT_USER: Final = "root"  # man slurm.conf


@dataclass(frozen=True)
class Installed:
    """slurm_conf: where it is, or would be. commands: the site's own, wherever they are."""

    slurm_conf: Path
    commands: SlurmCommands

    @property
    def folder(self) -> Path:
        """Where rendered files go: a configless slurmd is sent files of slurm.conf's folder."""
        return self.slurm_conf.parent

    def scontrol(self) -> list[str]:
        """The argv of scontrol. Raises CommandMissing."""
        return [self.commands.find("scontrol")]

    def release(self) -> Release:
        """Raises FlexError where there is no scontrol, or one that doesn't say its release."""
        return installed_release(self.scontrol())

    def slurm_user(self) -> str | None:
        """Who slurmctld and its hooks run as, by slurm.conf; None where that can't be read."""
        try:
            lines = read_conf(self.slurm_conf)
        except FlexError:
            return None
        named = [line.value for line in lines if line.key.lower() == "slurmuser"]
        user = named[-1] if named else _DEFAULT_USER
        return user_name(int(user)) if user.isdecimal() else user

    def running(self) -> frozenset[str] | None:
        """The nodes that slurmctld shows as anything but powered down.

        None where it doesn't answer: then nobody knows. (Before 23.02 a node that is off may be
        hidden, so that a node it doesn't show is off as well.)
        """
        try:
            nodes = parse_nodes(self.commands.check("scontrol", "show", "node", "-o"))
        except SlurmError:
            return None
        return frozenset(node.name for node in nodes if not node.is_off)


def installed(settings: Settings, env: Mapping[str, str]) -> Installed:
    """What the settings and the environment (SLURM_CONF, PATH) lead to. Starts nothing."""
    conf = Path(settings.slurm_conf or env.get("SLURM_CONF") or SYSTEM_CONF)
    commands = SlurmCommands.from_settings(settings, env)
    return Installed(conf, commands)
