"""The emulated cloud as one thing: a world, its clock, and what acts on it from outside."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from slurm_flex.durations import parse_duration

# Each of these registers what its timers and events do.
from slurm_flex.emulator.core import (
    capacity,
    groups,
    instances,
    knobs,
    members,
    operations,
    queue,
)
from slurm_flex.emulator.core.clock import Clock
from slurm_flex.emulator.core.faults import Fault, FaultOrder, read_order
from slurm_flex.emulator.core.records import Instance
from slurm_flex.emulator.core.world import World, on_timer

Json = dict[str, Any]
__all__ = ["Cloud", "capacity", "groups", "members", "operations"]


class Cloud:
    """A world that follows a clock. ``tick`` first, then look or act."""

    def __init__(self, world: World, clock: Clock) -> None:
        self.world = world
        self.clock = clock

    def tick(self) -> None:
        """Let everything happen that is due by now."""
        self.world.advance(self.clock.now())

    def skip(self, by: timedelta) -> None:
        """Let emulated time pass at once, with all that happens in it."""
        self.clock.skip(by)
        self.tick()

    def set_knobs(self, values: Mapping[str, object]) -> None:
        """Change knobs, now. Raises InputErrors."""
        self.world.knobs = knobs.change(self.world.knobs, values)
        self.world.soon("queue.wake")
        self.tick()

    def set_fault(self, body: Mapping[str, Any]) -> Fault | None:
        """Put a condition in force, or let an event happen. Raises FlexError."""
        order = read_order(body)
        self.tick()
        if order.kind.event:
            for instance in _matching(self.world, order.where):
                _happen(self.world, order, instance)
            self.tick()
            return None
        return self._condition(order)

    def clear_fault(self, id_: str = "") -> int:
        """Lift one condition, or all; returns how many were lifted."""
        lifted = [f for f in self.world.fault_table if id_ in ("", f.id, f.name)]
        for fault in lifted:
            self.world.fault_table.remove(fault)
        self.world.soon("queue.wake")
        self.tick()
        return len(lifted)

    def _condition(self, order: FaultOrder) -> Fault:
        world = self.world
        until = world.now + world.delay(order.lasting) if order.lasting is not None else None
        fault = Fault(
            project="",
            name=order.kind.name,
            id=world.new_id(),
            created=world.now,
            where=order.where,
            params=order.params,
            left=order.times,
            until=until,
        )
        world.fault_table.add(fault)
        if until:
            world.at(until, "fault.over", fault.path)
        world.soon("queue.wake")
        self.tick()
        return fault


def _matching(world: World, where: Mapping[str, str]) -> list[Instance]:
    found = []
    for instance in world.instances:
        places = instances.places(instance)
        if all(fnmatchcase(places.get(key, ""), pattern) for key, pattern in where.items()):
            found.append(instance)
    return found


def _happen(world: World, order: FaultOrder, instance: Instance) -> None:
    within = parse_duration(order.params.get("in", "0s"))
    name = order.kind.name
    if name == "instance_lost":
        instances.lose(world, instance)
    elif name == "host_error":
        repair = order.params.get("repair")
        if repair is None:
            instances.host_error(world, instance)
        else:
            back_in = None if repair == "never" else parse_duration(repair)
            instances.repair(world, instance, back_in)
    elif name == "preempted":
        instances.preempt(world, instance)
    elif name == "guest_died":
        world.end_guest(instance)
    elif name == "end_of_life":
        instances.set_end(world, instance, within)
    elif name == "maintenance":
        delay = parse_duration(order.params.get("in", "1h"))
        kind = str(order.params.get("type", "SCHEDULED"))
        instances.announce_maintenance(world, instance, delay, kind)


@on_timer("fault.over")
def _fault_over(world: World, path: str) -> None:
    fault = world.fault_table.get(path)
    if fault:
        world.fault_table.remove(fault)
        queue.wake(world)
