"""What slurm-flex needs of the site's own slurm.conf, where it sets nothing itself.

Each requirement looks at the value that is in force and says which line would meet it; render
--check and doctor print that line, and render --full writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from slurm_flex.cluster.model import Cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.slurm_keys import Release
from slurm_flex.text import whole_number

_DIRECT: Final = 65533  # the largest TreeWidth: no node forwards to another


@dataclass(frozen=True)
class Requirement:
    """A key of slurm.conf, what of it is needed, and why.

    words: options that the comma-separated value must hold. value: what it must be instead.
    least: what it must be at least. needed: without it something fails; else it is advised.
    default: what is in force where nothing is set.
    """

    key: str
    why: str
    words: tuple[str, ...] = ()
    value: str = ""
    least: int = 0
    needed: bool = True
    default: str | None = None

    def is_met_by(self, value: str | None) -> bool:
        value = self.default if value is None else value
        if self.words:
            return not self._missing(value)
        if self.least:
            return (whole_number(value or "") or 0) >= self.least
        return value is not None and value.lower() == self.value.lower()

    def line(self, value: str | None) -> str:
        """The whole line that meets it, keeping what is in force."""
        if not self.words:
            return f"{self.key}={self.value}"
        kept = [value] if value else []
        return f"{self.key}={','.join([*kept, *self._missing(value)])}"

    def _missing(self, value: str | None) -> list[str]:
        """Words that aren't there; ``a|b`` is met by either and written as the first."""
        there = {word.split("=")[0].strip().lower() for word in (value or "").split(",")}
        return [
            word.split("|")[0] for word in self.words if there.isdisjoint(word.lower().split("|"))
        ]


def requirements(cluster: Cluster, settings: Settings, release: Release) -> Iterator[Requirement]:
    """What the site's slurm.conf must have, most important first."""
    yield Requirement(
        "SlurmctldParameters",
        "a node that was down or drained when its VM went is usable again once it is off",
        words=("idle_on_node_suspend",),
    )
    yield Requirement(
        "SlurmctldParameters",
        "nodes get their configuration from slurmctld",
        ("enable_configless",),
    )
    if release < Release(23, 11):  # later releases always take the address from registration
        yield Requirement(
            "SlurmctldParameters",
            "a new VM has a new address, which it tells when it registers",
            words=("cloud_reg_addrs|cloud_dns",),
        )
    if release < Release(23, 2):
        yield Requirement(
            "PrivateData",
            "nodes that are off are otherwise hidden from everybody, slurm-flex included",
            words=("cloud",),
        )
    yield Requirement(
        "ReturnToService",
        "a node that Slurm took for lost comes back when it registers",
        value="2",
    )
    yield Requirement(
        "JobRequeue",
        "a job whose node ends starts again on a new one",
        value="1",
        default="1",
    )
    if settings.gpu_files != "none":
        yield from _for_gpus(cluster)
    if settings.health_checks:
        yield Requirement(
            "SchedulerParameters",
            "a job whose node failed its check waits for another node instead of for a person",
            words=("nohold_on_prolog_fail",),
        )
        yield Requirement(
            "PrologFlags",
            "nodes are checked before the job begins, all of them, not at its first step",
            words=("Alloc|Contain|X11",),
        )
    yield Requirement(
        "CommunicationParameters",
        "a new VM of the same name has another address",
        words=("NoAddrCache",),
        needed=False,
    )
    if sum(pool.max_node_count for pool in cluster.compute_pools) > 1:
        yield Requirement(
            "TreeWidth",
            "slurmctld talks to each node itself: nodes can't always reach each other by name",
            value=str(_DIRECT),
            least=max(50, sum(pool.max_node_count for pool in cluster.compute_pools)),
            needed=False,
        )


def _for_gpus(cluster: Cluster) -> Iterator[Requirement]:
    if any(pool.accelerator_count for pool in cluster.compute_pools):
        yield Requirement("GresTypes", "GPUs are a GRES", words=("gpu",))
        yield Requirement("SelectType", "jobs can ask for GPUs", value="select/cons_tres")


def meeting(found: Iterator[Requirement], values: Mapping[str, str]) -> dict[str, str]:
    """Values (by key as given) brought to where all requirements are met."""
    result = dict(values)
    for one in found:
        name = next((key for key in result if key.lower() == one.key.lower()), one.key)
        if not one.is_met_by(result.get(name)):
            result[name] = one.line(result.get(name)).partition("=")[2]
    return result
