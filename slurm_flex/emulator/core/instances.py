"""The life of a VM: PROVISIONING, STAGING, RUNNING, STOPPING, gone. Its owner listens to
the events ``instance.running``, ``.stopping``, ``.expiring``, ``.gone`` and ``.terminated``."""

from __future__ import annotations

from datetime import datetime, timedelta

from slurm_flex.emulator.core import operations
from slurm_flex.emulator.core.capacity import Need, count_in
from slurm_flex.emulator.core.errors import not_found
from slurm_flex.emulator.core.records import Bill, Instance, Json
from slurm_flex.emulator.core.world import World, on_timer

ENDED = ("STOPPING", "TERMINATED")


def create(
    world: World,
    project: str,
    zone: str,
    name: str,
    body: Json,
    *,
    group: str = "",
    request: str = "",
    run_duration: timedelta | None = None,
) -> Instance:
    """Begin a VM. The caller has seen to capacity and to its name."""
    instance = Instance(
        project=project,
        name=name,
        id=world.new_id(),
        created=world.now,
        zone=zone,
        body=body,
        group=group,
        request=request,
        run_duration=run_duration,
        address=_address(world),
        host=f"{world.random.getrandbits(128):032x}",
    )
    world.instances.add(instance)
    count_in(world, need_of(instance), +1)
    world.bills.add(
        Bill(project, name, instance.id, world.now, zone, instance.machine_type, group, request)
    )
    if run_duration and world.knobs.run_duration_starts == "created":
        _end_at(world, instance, world.now + run_duration)
    world.after(world.knobs.provision_delay, "instance.stage", instance.path, instance.id)
    return instance


def need_of(instance: Instance) -> Need:
    """What it takes of the cloud's capacity."""
    model = instance.body.get("scheduling", {}).get("provisioningModel", "STANDARD")
    return Need(
        instance.project, instance.zone, instance.machine_type, 1, model in ("FLEX_START", "SPOT")
    )


def places(instance: Instance) -> dict[str, str]:
    """Where it is, for faults."""
    return {
        "project": instance.project,
        "zone": instance.zone,
        "machine_type": instance.machine_type,
        "group": instance.group.rsplit("/", 1)[-1],
        "request": instance.request.rsplit("/", 1)[-1],
        "instance": instance.name,
    }


def get(world: World, project: str, zone: str, name: str) -> Instance:
    """An instance by name or numeric id. Raises 404."""
    path = f"projects/{project}/zones/{zone}/instances/{name}"
    found = world.instances.get(path)
    if found is None and name.isdigit():
        siblings = world.instances.under(f"{project}/{zone}")
        found = next((item for item in siblings if item.id == name), None)
    if found is None:
        raise not_found(path)
    return found


def stop(world: World, instance: Instance, then: str = "gone") -> None:
    """Begin its end: STOPPING, then gone or TERMINATED. One that is ending stays as it is."""
    if instance.status == "STOPPING":
        return
    if instance.status == "TERMINATED" or instance.status in ("PROVISIONING", "STAGING"):
        world.after(timedelta(), f"instance.{then}", instance.path, instance.id)
        instance.status = "STOPPING"
        world.tell("instance.stopping", instance)
        return
    instance.status = "STOPPING"
    if world.knobs.guest_while_stopping == "dies":
        world.end_guest(instance)
    world.after(world.knobs.stopping_delay, f"instance.{then}", instance.path, instance.id)
    world.tell("instance.stopping", instance)


def lose(world: World, instance: Instance) -> None:
    """Let it be gone at once."""
    _gone(world, instance.path, instance.id)


def set_end(world: World, instance: Instance, when: timedelta) -> None:
    """Let its end of life be ``when`` from now; the listing says so at once."""
    _end_at(world, instance, world.now + when)


def host_error(world: World, instance: Instance) -> None:
    """The host breaks: TERMINATED, or REPAIRING and RUNNING again with automaticRestart."""
    if instance.status != "RUNNING":
        return
    if instance.body.get("scheduling", {}).get("automaticRestart"):
        repair(world, instance, world.knobs.repair_delay)
    else:
        _terminated(world, instance.path, instance.id)


def repair(world: World, instance: Instance, back_in: timedelta | None) -> None:
    """It is REPAIRING, and RUNNING again in so long; None: it stays so."""
    if instance.status != "RUNNING":
        return
    world.end_guest(instance)
    instance.status = "REPAIRING"
    close_bill(world, instance)
    if back_in is not None:
        world.after(back_in, "instance.run", instance.path, instance.id)


def preempt(world: World, instance: Instance) -> None:
    """Compute Engine takes it back: STOPPING, then TERMINATED, or gone where DELETE is asked."""
    action = instance.body.get("scheduling", {}).get("instanceTerminationAction", "STOP")
    stop(world, instance, "gone" if action == "DELETE" else "terminated")


def announce_maintenance(world: World, instance: Instance, within: timedelta, kind: str) -> None:
    """Show an upcoming maintenance that begins ``within`` from now and lasts an hour.

    Announced anew it moves; with type NONE it is called off."""
    start = world.now + within
    if kind == "NONE":
        instance.maintenance = {}
        return
    instance.maintenance = {
        "type": kind,
        "windowStartTime": start.isoformat(),
        "windowEndTime": (start + timedelta(hours=1)).isoformat(),
    }
    world.at(start, "instance.maintenance", instance.path, instance.id)


def begin_maintenance(world: World, instance: Instance) -> None:
    """The host is maintained now: a VM that can't migrate goes down as by a host error."""
    scheduling = instance.body.get("scheduling", {})
    model = scheduling.get("provisioningModel", "STANDARD")
    usual = "MIGRATE" if model == "STANDARD" else "TERMINATE"
    if scheduling.get("onHostMaintenance", usual) == "TERMINATE":
        host_error(world, instance)


def _end_at(world: World, instance: Instance, when: object) -> None:
    instance.terminates = when  # type: ignore[assignment]
    if instance.terminates is not None:
        world.at(instance.terminates, "instance.end_of_life", instance.path, instance.id)


def alive(world: World, path: str, id_: str) -> Instance | None:
    """The instance of that path, if it is still the one with this id."""
    found = world.instances.get(path)
    return found if found and found.id == id_ else None


@on_timer("instance.stage")
def _stage(world: World, path: str, id_: str) -> None:
    instance = alive(world, path, id_)
    if instance is None or instance.status != "PROVISIONING":
        return
    instance.status = "STAGING"
    slow = world.fault("slow_boot", **places(instance))
    extra = slow.duration("delay", timedelta(minutes=1)) if slow else timedelta()
    world.after(world.knobs.boot_delay + extra, "instance.run", path, id_)


@on_timer("instance.run")
def _run(world: World, path: str, id_: str) -> None:
    instance = alive(world, path, id_)
    if instance is None or instance.status not in ("STAGING", "REPAIRING"):
        return
    first = instance.started is None
    instance.status = "RUNNING"
    instance.running_since = world.now
    instance.started = world.now
    if instance.run_duration and first and instance.terminates is None:
        _end_at(world, instance, world.now + instance.run_duration)
    bill = world.bills.get(f"projects/{instance.project}/bills/{instance.id}")
    if bill:
        bill.since = world.now
    if not world.fault("no_guest", **places(instance)):
        world.start_guest(instance)
    world.tell("instance.running", instance)


@on_timer("instance.end_of_life")
def _end_of_life(world: World, path: str, id_: str) -> None:
    instance = alive(world, path, id_)
    if instance is None or instance.terminates is None or instance.status in ENDED:
        return
    if instance.terminates > world.now:
        return  # moved meanwhile; a later timer is set for that
    late = world.knobs.end_of_life_lateness
    if fault := world.fault("late_end_of_life", **places(instance)):
        late += fault.duration("by", timedelta(seconds=30))
    if late:
        world.at(world.now + late, "instance.expire", path, id_)
    else:
        _expire(world, path, id_)


@on_timer("instance.maintenance")
def _maintenance(world: World, path: str, id_: str) -> None:
    """It begins, if it is still announced for now: what can't move to another host goes down."""
    instance = alive(world, path, id_)
    if instance is None or not instance.maintenance:
        return
    if datetime.fromisoformat(instance.maintenance["windowStartTime"]) > world.now:
        return  # moved meanwhile; a later timer is set for that
    instance.maintenance = {}
    begin_maintenance(world, instance)


@on_timer("instance.expire")
def _expire(world: World, path: str, id_: str) -> None:
    instance = alive(world, path, id_)
    if instance is None or instance.status in ENDED:
        return
    world.tell("instance.expiring", instance)
    action = instance.body.get("scheduling", {}).get("instanceTerminationAction", "STOP")
    gone = bool(instance.group) or action == "DELETE"
    stop(world, instance, "gone" if gone else "terminated")


@on_timer("instance.terminated")
def _terminated(world: World, path: str, id_: str) -> None:
    instance = alive(world, path, id_)
    if instance is None:
        return
    instance.status = "TERMINATED"
    instance.stopped = world.now
    world.end_guest(instance)
    close_bill(world, instance)
    count_in(world, need_of(instance), -1)
    world.tell("instance.terminated", instance)


@on_timer("instance.gone")
def _gone(world: World, path: str, id_: str) -> None:
    instance = alive(world, path, id_)
    if instance is None:
        return
    world.end_guest(instance)
    close_bill(world, instance)
    if instance.stopped is None:
        count_in(world, need_of(instance), -1)
    world.instances.remove(instance)
    operations.release(world, instance.delete_operation)
    world.tell("instance.gone", instance)


def close_bill(world: World, instance: Instance) -> None:
    """Add the time since it ran to what it cost."""
    bill = world.bills.get(f"projects/{instance.project}/bills/{instance.id}")
    if bill and bill.since:
        bill.seconds += (world.now - bill.since).total_seconds()
        bill.since, bill.until = None, world.now


def _address(world: World) -> str:
    number = world.random.randrange(2, 2**20 - 2)
    return f"10.{128 + (number >> 16)}.{(number >> 8) & 255}.{number & 255}"
