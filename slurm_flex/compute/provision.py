"""What `slurm-flex apply` would do: the differences between the cluster file and the cloud.

Pure: an inventory and the cluster in, steps out. They are shown, then carried out in their order
(:mod:`slurm_flex.compute.workshop`), and planned again, when nothing must be left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from slurm_flex.cluster import Cluster, Pool
from slurm_flex.compute.compare import Difference, missing_parts
from slurm_flex.compute.groups import PATCHED, GroupSpec, differences
from slurm_flex.compute.inventory import FoundGroup, Inventory
from slurm_flex.compute.templates import TemplateSpec
from slurm_flex.hostlist import fold


class StepKind(str, Enum):
    """In the order in which they are carried out."""

    CREATE_TEMPLATE = "create template"
    CREATE_GROUP = "create group"
    PATCH_GROUP = "change group"
    CREATE_LOGIN = "create login node"
    DELETE_LOGIN = "delete login node"
    CANCEL_REQUEST = "cancel request"
    DELETE_GROUP = "delete group"
    DELETE_INSTANCE = "delete instance"
    DELETE_TEMPLATE = "delete template"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Step:
    """One change. pool is empty for what belongs to no pool of the file; zone for templates."""

    kind: StepKind
    name: str
    pool: str = ""
    zone: str = ""
    why: str = ""
    changes: tuple[Difference, ...] = ()
    nodes: tuple[str, ...] = ()
    group: str = ""
    body: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    @property
    def text(self) -> str:
        """One line for people."""
        what = f"{self.kind} {', '.join(self.nodes) or self.name}"
        where = f" in {self.zone}" if self.zone else ""
        why = "; ".join(str(change) for change in self.changes) or self.why
        return f"{what}{where}" + (f" ({why})" if why else "")


@dataclass(frozen=True)
class Blueprint:
    """What a pool needs: its template and its group."""

    pool: Pool
    template: TemplateSpec
    group: GroupSpec


@dataclass(frozen=True)
class ProvisionPlan:
    """Steps in order, and notes: what `apply` sees and leaves to a person.

    obstacles: those of the notes that keep a pool from working.
    """

    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        return not self.steps


def plan_apply(cluster: Cluster, blueprints: Mapping[str, Blueprint], there: Inventory
) -> ProvisionPlan:  # fmt: skip
    """The steps from what is there to what the cluster file says.

    `blueprints` has one for each pool. Nothing foreign is touched, no VM of a compute pool ended.
    """
    steps: list[Step] = []
    notes: list[str] = []
    for blueprint in blueprints.values():
        for item in _pool_steps(cluster, blueprint, there):
            if isinstance(item, Step):
                steps.append(item)
            else:
                notes.append(item)
    obstacles = tuple(notes)
    for item in _leftovers(blueprints, there):
        if isinstance(item, Step):
            steps.append(item)
        else:
            notes.append(item)
    order = list(StepKind)
    steps.sort(key=lambda step: order.index(step.kind))
    return ProvisionPlan(tuple(steps), tuple(notes), obstacles)


def plan_destroy(there: Inventory) -> ProvisionPlan:
    """The steps that take down all that is ours, in order, and nothing else."""
    steps: list[Step] = []
    own = [group for group in there.groups if group.is_own]
    for group in own:
        steps += (
            Step(StepKind.CANCEL_REQUEST, name, zone=group.zone, group=group.name)
            for name in group.waiting
        )
    for group in own:
        why = f"with {fold(group.members)}" if group.members else "empty"
        steps.append(Step(StepKind.DELETE_GROUP, group.name, zone=group.zone, why=why))
    steps += (
        Step(StepKind.DELETE_INSTANCE, item.name, zone=item.zone, why="in no group, but ours")
        for item in there.strays
    )
    steps += (Step(StepKind.DELETE_TEMPLATE, item.name) for item in there.templates if item.is_own)
    foreign = [*(x.name for x in there.groups if not x.is_own),
               *(x.name for x in there.templates if not x.is_own)]  # fmt: skip
    notes = [f"{name} bears one of our names but is not ours; it stays" for name in foreign]
    return ProvisionPlan(tuple(steps), tuple(notes))


def _pool_steps(cluster: Cluster, blueprint: Blueprint, there: Inventory) -> Iterator[Step | str]:
    pool, template, group = blueprint.pool, blueprint.template, blueprint.group
    known = there.template(template.name)
    found = there.group(group.name, group.zone)
    if known is not None and not known.is_own:
        yield f"the template {template.name} is not ours; delete or rename it"
        return
    if found is not None and not found.is_own:
        yield f"the group {group.name} in {group.zone} is not ours; delete or rename it"
        return
    if known is None:
        why = f"{pool.machine_type}, {pool.provisioning_model.value}"
        yield Step(
            StepKind.CREATE_TEMPLATE, template.name, pool=pool.id, body=template.body,
            why=_other_than_before(template, found, there) or why,
        )  # fmt: skip
    else:
        yield from _altered(template, known.properties)
    if found is None:
        yield Step(
            StepKind.CREATE_GROUP, group.name, pool=pool.id, zone=group.zone, body=group.body
        )
    else:
        yield from _changes(pool, group, found)
    if pool.is_login:
        yield from _login_steps(cluster, pool, found)


def _other_than_before(template: TemplateSpec, group: FoundGroup | None, there: Inventory) -> str:
    """What the new template has other than the one that the group uses; empty without one."""
    used = [there.template(name) for name in sorted(group.templates)] if group else []
    before = next((item for item in used if item is not None and item.is_own), None)
    if before is None:
        return ""
    parts = [*missing_parts(template.properties, before.properties)]
    plain = [str(part) for part in parts if not part.path.startswith("metadata")]
    plain += ["another startup script"] if len(plain) < len(parts) else []
    return "; ".join(plain) or f"less than {before.name} has"


def _altered(template: TemplateSpec, found: Mapping[str, Any]) -> Iterator[str]:
    """Templates can't be changed; one whose content is not what its name says is a riddle."""
    for part in missing_parts(template.properties, found):
        yield f"the template {template.name} was altered by Compute Engine: {part}"


def _changes(pool: Pool, group: GroupSpec, found: FoundGroup) -> Iterator[Step | str]:
    parts = tuple(differences(group, found.body))
    for part in parts:
        if part.foreign:
            yield f"the group {group.name} has {part.path} ({part.found}), which must go"
    own = tuple(part for part in parts if not part.foreign)
    if own:
        # A stale fingerprint is refused: what somebody else changed meanwhile isn't overwritten.
        body = {key: group.body[key] for key in PATCHED}
        body |= {key: found.body[key] for key in ("fingerprint",) if found.body.get(key)}
        yield Step(
            StepKind.PATCH_GROUP, group.name, pool=pool.id, zone=group.zone,
            changes=own, body=body,
        )  # fmt: skip


def _login_steps(cluster: Cluster, pool: Pool, found: FoundGroup | None) -> Iterator[Step]:
    """The login pool is kept at its size, by name: c1-login-0 and so on."""
    wanted = cluster.node_names(pool)
    there = found.members if found else ()
    missing = tuple(name for name in wanted if name not in there)
    surplus = tuple(name for name in there if name not in wanted)
    for kind, nodes in ((StepKind.CREATE_LOGIN, missing), (StepKind.DELETE_LOGIN, surplus)):
        if nodes:
            yield Step(
                kind, nodes[0], pool=pool.id, zone=pool.zone, nodes=nodes,
                group=cluster.group_name(pool), why=f"the pool has {len(wanted)}",
            )  # fmt: skip


def _leftovers(blueprints: Mapping[str, Blueprint], there: Inventory) -> Iterator[Step | str]:
    """What the cluster file had once: groups of pools that are gone, templates out of use."""
    wanted = {(item.group.name, item.group.zone) for item in blueprints.values()}
    keep = {item.template.name for item in blueprints.values()}
    for group in there.groups:
        if not group.is_own or (group.name, group.zone) in wanted:
            continue
        if group.is_empty:
            why = "no pool of the cluster file, and empty"
            yield Step(StepKind.DELETE_GROUP, group.name, zone=group.zone, why=why)
        else:
            keep |= group.templates
            yield (
                f"the group {group.name} in {group.zone} belongs to no pool any more and has "
                f"{len(group.members)} instances; it goes when it is empty"
            )
    for template in there.templates:
        if template.is_own and template.name not in keep:
            yield Step(StepKind.DELETE_TEMPLATE, template.name, why="out of use")
