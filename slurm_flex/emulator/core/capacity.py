"""Whether the cloud has room, and what it says when it hasn't: stockouts, places and quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from slurm_flex.durations import parse_duration
from slurm_flex.emulator.core.errors import Problem
from slurm_flex.emulator.core.faults import Fault
from slurm_flex.emulator.core.world import World

AMPLE: Final = 1_000_000.0
_FAMILY_CPUS: Final = {
    "n2": "N2_CPUS",
    "c2": "C2_CPUS",
    "c3": "C3_CPUS",
    "e2": "E2_CPUS",
    "a2": "A2_CPUS",
}
NO_ROOM: Final = "There are currently not enough resources available to fulfill the request."
NO_ROOM_YET: Final = (
    "Waiting for resources. Currently there are not enough resources available to fulfill the "
    "request. Expected time is "
)


@dataclass(frozen=True)
class Need:
    """What is asked for: ``count`` VMs of one type in one zone, all at once."""

    project: str
    zone: str
    machine_type: str
    count: int
    preemptible: bool
    group: str = ""
    request: str = ""
    since: datetime | None = None

    @property
    def places(self) -> dict[str, str]:
        """Where it is, for faults."""
        return {
            "project": self.project,
            "zone": self.zone,
            "machine_type": self.machine_type,
            "group": self.group,
            "request": self.request,
        }


def refusal(world: World, need: Need) -> Problem | None:
    """Why these VMs can't be made now, or None. A fault that applies is used up by asking."""
    if fault := world.fault("quota_last_attempt", **need.places):
        return quota_problem(world, need, fault)
    if fault := world.fault("stockout", **need.places):
        return stockout(need, fault)
    return _quota(world, need) or _places(world, need)


def stockout(need: Need, fault: Fault | None = None, estimate: str = "") -> Problem:
    """The error of a zone without capacity, with or without an estimate."""
    estimate = fault.text("estimate", estimate) if fault else estimate
    code = "ZONE_RESOURCE_POOL_EXHAUSTED" + ("_WITH_DETAILS" if estimate else "")
    message = NO_ROOM
    metadata = {"vmType": need.machine_type, "attachment": ""}
    if estimate:
        when = "indefinite." if estimate.startswith("9999") else f"{estimate}."
        message = NO_ROOM_YET + when
        metadata["estimatedAvailabilityTime"] = estimate
    detail: dict[str, Any] = {
        "errorInfo": {
            "reason": "resource_availability",
            "domain": "compute.googleapis.com",
            "metadatas": metadata,
        }
    }
    if fault:
        code, message = fault.text("code", code), fault.text("message", message)
    return Problem(code, message, 503, (detail,))


def quota_problem(world: World, need: Need, fault: Fault | None, metric: str = "") -> Problem:
    """QUOTA_EXCEEDED in the words of the public record (two spaces before Limit)."""
    metric = metric or metrics(world, need)[0][0]
    limit = limit_of(world, region_of(world, need.zone), metric)
    if fault:
        metric = fault.text("metric", metric)
        limit = float(fault.params.get("limit", 0 if limit == AMPLE else limit))
    return quota_exceeded(metric, limit, region_of(world, need.zone))


def quota_exceeded(metric: str, limit: float, region: str) -> Problem:
    """QUOTA_EXCEEDED for a metric in a region."""
    return Problem(
        "QUOTA_EXCEEDED",
        f"Quota '{metric}' exceeded.  Limit: {limit:.1f} in region {region}.",
        403,
        (
            {
                "quotaInfo": {
                    "metricName": f"compute.googleapis.com/{metric.lower()}",
                    "limitName": f"{metric.replace('_', '-')}-per-project-region",
                    "limit": limit,
                    "dimensions": {"region": region},
                }
            },
        ),
    )


def region_of(world: World, zone: str) -> str:
    """The region of a zone, also of one that the catalog doesn't know."""
    return world.catalog.zone_region(zone) or zone.rsplit("-", 1)[0]


def metrics(world: World, need: Need) -> list[tuple[str, int]]:
    """The quota metrics that such VMs use, and how much of each one VM takes.

    Flex-start and Spot take preemptible quota; where none was granted, the standard one."""
    machine = world.catalog.machine_types.get(need.machine_type)
    if machine is None:
        return [("CPUS", 1)]
    region = region_of(world, need.zone)
    found: list[tuple[str, int]] = []
    if machine.accelerator:
        metric = world.catalog.accelerators[machine.accelerator].metric
        found.append((_preemptible(world, region, metric, need), machine.accelerator_count))
    cpus = _FAMILY_CPUS.get(machine.family, "CPUS")
    preemptible_cpus = need.preemptible and limit_of(world, region, "PREEMPTIBLE_CPUS") > 0
    found.append(("PREEMPTIBLE_CPUS" if preemptible_cpus else cpus, machine.cpus))
    return found


def limit_of(world: World, region: str, metric: str) -> float:
    """The limit of a metric in a region."""
    rule = best_rule(world.knobs.quotas, f"{region}/{metric}")
    if rule is None:
        rule = best_rule(world.knobs.quotas, metric)
    return AMPLE if rule is None else float(rule)


def usage(world: World, project: str, region: str) -> dict[str, float]:
    """How much of each metric is in use in a region."""
    used: dict[str, float] = {}
    for (owner, zone, machine_type), count in world.in_use.items():
        if owner != project or region_of(world, zone) != region or not count:
            continue
        name, _, model = machine_type.partition("|")
        need = Need(project, zone, name, 1, model == "preemptible")
        for metric, each in metrics(world, need):
            used[metric] = used.get(metric, 0.0) + each * count
        used["INSTANCES"] = used.get("INSTANCES", 0.0) + count
    return used


def best_rule(rules: Mapping[str, Any], name: str) -> Any:
    """The value of the longest pattern that fits a name, or None."""
    fitting = [pattern for pattern in rules if fnmatchcase(name, pattern)]
    return rules[max(fitting, key=len)] if fitting else None


def count_in(world: World, need: Need, by: int) -> None:
    """Count VMs of that kind in (or out, with a negative number)."""
    model = "preemptible" if need.preemptible else "standard"
    world.in_use[(need.project, need.zone, f"{need.machine_type}|{model}")] += by


def _preemptible(world: World, region: str, metric: str, need: Need) -> str:
    name = f"PREEMPTIBLE_{metric}"
    return name if need.preemptible and limit_of(world, region, name) > 0 else metric


def _quota(world: World, need: Need) -> Problem | None:
    if not world.knobs.quotas:
        return None
    region = region_of(world, need.zone)
    used = usage(world, need.project, region)
    for metric, each in metrics(world, need):
        if used.get(metric, 0.0) + each * need.count > limit_of(world, region, metric):
            return quota_problem(world, need, None, metric)
    return None


def _places(world: World, need: Need) -> Problem | None:
    rule = best_rule(world.knobs.capacity, f"{need.zone}/{need.machine_type}")
    if rule is None or rule == "now":
        return None
    if rule == "never":
        return stockout(need)
    if isinstance(rule, (int, float)):
        taken = sum(
            count
            for (_, zone, kind), count in world.in_use.items()
            if zone == need.zone and kind.partition("|")[0] == need.machine_type
        )
        return stockout(need) if taken + need.count > rule else None
    waited = world.now - (need.since or world.now)
    return stockout(need) if waited < world.delay(parse_duration(rule)) else None


def wait_left(world: World, need: Need) -> datetime | None:
    """When a rule such as "90s" will have been waited out; None for other rules."""
    rule = best_rule(world.knobs.capacity, f"{need.zone}/{need.machine_type}")
    if not isinstance(rule, str) or rule in ("now", "never") or need.since is None:
        return None
    return need.since + world.delay(parse_duration(rule))
