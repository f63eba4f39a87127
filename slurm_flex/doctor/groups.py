"""Templates and groups: as they should be, or what `slurm-flex apply` would do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from slurm_flex.cluster import Cluster
from slurm_flex.compute.provision import ProvisionPlan, StepKind
from slurm_flex.doctor.check import Check, error, ok, warn

NAME: Final = "templates and groups"


class Planner(Protocol):
    """What the doctor needs of a workshop."""

    def plan(self) -> ProvisionPlan: ...


def templates_and_groups(cluster: Cluster, workshop: Planner) -> Iterator[Check]:
    """One check a pool that differs, or one for all that is well. Raises FlexError."""
    plan = workshop.plan()
    for note in plan.notes:
        yield (error if note in plan.obstacles else warn)(NAME, note)
    for pool in cluster.pools:
        steps = [step.text for step in plan.steps if step.pool == pool.id]
        if steps:
            yield warn(f"group {cluster.group_name(pool)}", "; ".join(steps), "slurm-flex apply")
    unused = [step for step in plan.steps if step.kind is StepKind.DELETE_TEMPLATE]
    others = [step.text for step in plan.steps if not step.pool and step not in unused]
    if others:
        yield warn(NAME, "; ".join(others), "slurm-flex apply")
    if len(plan.steps) == len(unused) and not plan.notes:
        more = f"; {len(unused)} old templates go with the next `slurm-flex apply`"
        yield ok(NAME, f"as the cluster file says{more if unused else ''}")
