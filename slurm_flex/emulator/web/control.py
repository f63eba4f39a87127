"""The owner's side: knobs, faults, time, bills and the world, under ``/emulator``."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from slurm_flex.durations import parse_duration
from slurm_flex.emulator.core import faults, knobs
from slurm_flex.emulator.core.faults import Fault
from slurm_flex.emulator.core.records import Bill
from slurm_flex.emulator.core.world import World
from slurm_flex.emulator.web.service import Service
from slurm_flex.errors import FlexError

Json = dict[str, Any]


def control(service: Service, verb: str, path: str, body: Json) -> Json:
    """Answer a call below ``/emulator/``. Raises FlexError for bad input, KeyError if unknown."""
    cloud = service.cloud
    head, _, tail = path.strip("/").partition("/")
    match (verb, head):
        case ("GET", "health"):
            return {"status": "ok", "now": _time(cloud.clock.now()), "calls": service.calls}
        case ("GET", "knobs"):
            return {"knobs": knobs.to_json(cloud.world.knobs), "about": knobs.describe()}
        case ("PATCH" | "POST", "knobs"):
            cloud.set_knobs(body)
            answer: Json = {"knobs": knobs.to_json(cloud.world.knobs)}
        case ("GET", "faults"):
            return {"faults": [_fault(f) for f in cloud.world.fault_table], "about": _about()}
        case ("POST", "faults"):
            set_ = service.set_fault(body)
            answer = {"fault": _fault(set_) if set_ else None}
        case ("DELETE", "faults"):
            answer = {"lifted": cloud.clear_fault(tail)}
        case ("POST", "advance"):
            cloud.skip(parse_duration(body.get("by", 0)))
            answer = {"now": _time(cloud.clock.now())}
        case ("GET", "billing"):
            return billing(cloud.world)
        case ("GET", "world"):
            return world_view(cloud.world)
        case ("GET", "limits"):
            return {"used": service.limits.used()}
        case ("POST", "end-all"):
            service.driver.end(list(cloud.world.instances))
            return {"ended": len(cloud.world.instances)}
        case _:
            raise KeyError(path)
    service.settle()
    return answer


def billing(world: World) -> Json:
    """VM seconds (emulated) by instance, from RUNNING until gone or stopped."""
    lines = [_bill(world, bill) for bill in world.bills]
    return {"seconds": sum(line["seconds"] for line in lines), "instances": lines}


def world_view(world: World) -> Json:
    """Everything at a glance, in the emulator's own words; for tests and people."""
    return {
        "now": _time(world.now),
        "groups": [
            {"name": g.name, "scope": g.scope.path, "project": g.project,
             "target_size": g.target_size, "deleting": g.deleting}
            for g in world.groups
        ],
        "requests": [
            {"name": r.name, "group": r.group.rsplit("/", 1)[-1], "state": r.state,
             "provisioning": r.provisioning, "nodes": r.names, "created": _time(r.created),
             "error": r.error, "last_attempt": r.last_attempt,
             "run_duration": r.run_duration.total_seconds() if r.run_duration else None}
            for r in world.requests
        ],
        "instances": [
            {"name": i.name, "id": i.id, "zone": i.zone, "status": i.status,
             "machine_type": i.machine_type, "group": i.group.rsplit("/", 1)[-1],
             "request": i.request.rsplit("/", 1)[-1], "created": _time(i.created),
             "started": _time(i.started), "terminates": _time(i.terminates)}
            for i in world.instances
        ],
        "members": [
            {"name": m.name, "group": m.group.rsplit("/", 1)[-1], "action": m.action,
             "id": m.id, "errors": m.errors}
            for m in world.members
        ],
        "templates": [t.name for t in world.templates],
        "operations": [
            {"name": o.name, "kind": o.kind, "status": o.status, "errors": o.errors}
            for o in world.operations
        ],
    }  # fmt: skip


def error_body(error: FlexError) -> Json:
    """What was wrong with a call of the owner's."""
    return {"error": {"what": error.what, "where": error.where, "fix": error.fix}}


def _bill(world: World, bill: Bill) -> Json:
    running = (world.now - bill.since).total_seconds() if bill.since else 0.0
    return {
        "name": bill.name,
        "id": bill.id,
        "zone": bill.zone,
        "machine_type": bill.machine_type,
        "group": bill.group.rsplit("/", 1)[-1],
        "request": bill.request.rsplit("/", 1)[-1],
        "seconds": bill.seconds + running,
        "running": bill.since is not None,
    }


def _fault(fault: Fault) -> Json:
    return {
        "id": fault.id,
        "name": fault.name,
        "where": fault.where,
        "params": fault.params,
        "left": fault.left,
        "until": _time(fault.until),
    }


def _about() -> list[Json]:
    return [
        {"name": k.name, "text": k.text, "where": k.where, "params": dict(k.params),
         "event": k.event}
        for k in faults.FAULTS.values()
    ]  # fmt: skip


def _time(when: datetime | None) -> str | None:
    return when.isoformat() if when else None
