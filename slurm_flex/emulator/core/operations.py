"""Operations: PENDING, RUNNING, DONE; with an error or without; forgotten after a while."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from slurm_flex.emulator.core.errors import ApiError, Problem, not_found
from slurm_flex.emulator.core.records import Operation, Record, RequestId
from slurm_flex.emulator.core.scopes import Scope, last_segment
from slurm_flex.emulator.core.world import World, on_timer

HTTP_MESSAGES = {
    400: "BAD REQUEST",
    403: "FORBIDDEN",
    404: "NOT FOUND",
    409: "CONFLICT",
    412: "PRECONDITION FAILED",
    429: "TOO MANY REQUESTS",
    503: "SERVICE UNAVAILABLE",
}


def start(
    world: World,
    kind: str,
    scope: Scope,
    target: Record | None,
    *,
    project: str,
    request_id: str = "",
    target_path: str = "",
    held: bool = False,
    user: str = "",
) -> Operation:
    """Begin an operation. ``held``: it is not done before :func:`release` says so."""
    millis = int(world.now.timestamp() * 1000)
    tail = f"{world.random.getrandbits(32):08x}-{world.random.getrandbits(32):08x}"
    operation = Operation(
        project=project,
        name=f"operation-{millis}-{world.random.getrandbits(52):013x}-{tail}",
        id=world.new_id(),
        created=world.now,
        scope=scope,
        kind=kind,
        target_path=target.path if target else target_path,
        target_id=target.id if target else "0",
        user=user or f"slurm@{project}.iam.gserviceaccount.com",
        client_id=request_id,
        held=held,
    )
    world.operations.add(operation)
    if request_id:
        remember(world, project, request_id, operation)
    slow = world.fault("slow_operations", **places(operation))
    delay = world.knobs.op_delay + (
        slow.duration("delay", timedelta(minutes=1)) if slow else timedelta()
    )
    world.after(delay / 2, "operation.run", operation.path)
    world.after(delay, "operation.done", operation.path)
    return operation


def places(operation: Operation) -> dict[str, str]:
    """Where an operation happens, for faults."""
    return {
        "method": operation.kind,
        "zone": operation.scope.name,
        "project": operation.project,
        "group": _group_of(operation.target_path),
    }


def fail(world: World, operation: Operation, *problems: Problem) -> None:
    """Note why it failed; it is DONE when its time has come."""
    operation.errors = [problem.body() for problem in problems]
    if world.knobs.operation_http_status and problems:
        operation.http_code = problems[0].http
        operation.http_message = HTTP_MESSAGES.get(problems[0].http, "BAD REQUEST")


def release(world: World, path: str) -> None:
    """What an operation waited for has happened."""
    operation = world.operations.get(path)
    if operation is None or not operation.held:
        return
    operation.held = False
    if operation.status == "WAITING":
        _finish(world, operation)


def repeated(world: World, project: str, request_id: str) -> Operation | None:
    """The operation that this requestId led to before, if it is remembered."""
    if not request_id:
        return None
    if not _is_uuid(request_id):
        raise ApiError(
            400,
            "invalid",
            f"Invalid value for field 'requestId': '{request_id}'. Must be a valid non-zero UUID.",
        )
    seen = world.request_ids.get(f"projects/{project}/requestIds/{request_id.lower()}")
    return world.operations.get(seen.operation) if seen else None


def remember(world: World, project: str, request_id: str, operation: Operation) -> None:
    """Note that this requestId led to this operation."""
    seen = RequestId(project, request_id.lower(), operation.id, world.now, operation.path)
    world.request_ids.add(seen)
    world.at(world.now + world.knobs.request_id_window, "operation.forget_request_id", seen.path)


def get(world: World, project: str, scope: Scope, name: str) -> Operation:
    """An operation by name or numeric id. Raises 404."""
    path = f"projects/{project}/{scope.path}/operations/{name}"
    found = world.operations.get(path)
    if found is None and name.isdigit():
        siblings = world.operations.under(f"{project}/{scope.path}")
        found = next((item for item in siblings if item.id == name), None)
    if found is None or world.fault("lost_operations", **places(found)):
        raise not_found(path)
    return found


@on_timer("operation.run")
def _run(world: World, path: str) -> None:
    operation = world.operations.get(path)
    if operation and operation.status == "PENDING":
        operation.status = "RUNNING"
        operation.started = world.now


@on_timer("operation.done")
def _done(world: World, path: str) -> None:
    operation = world.operations.get(path)
    if operation is None:
        return
    if operation.held:
        operation.status = "WAITING"
    else:
        _finish(world, operation)


def _finish(world: World, operation: Operation) -> None:
    operation.started = operation.started or world.now
    operation.status = "DONE"
    operation.ended = world.now
    world.at(world.now + world.knobs.operation_retention, "operation.forget", operation.path)


@on_timer("operation.forget")
def _forget(world: World, path: str) -> None:
    operation = world.operations.get(path)
    if operation:
        world.operations.remove(operation)


@on_timer("operation.forget_request_id")
def _forget_request_id(world: World, path: str) -> None:
    seen = world.request_ids.get(path)
    if seen and seen.created + world.knobs.request_id_window <= world.now:
        world.request_ids.remove(seen)


def _group_of(path: str) -> str:
    _, found, tail = path.partition("/instanceGroupManagers/")
    return tail.split("/", 1)[0] if found else ""


def _is_uuid(text: str) -> bool:
    digits = text.replace("-", "")
    return (
        len(text) == 36
        and len(digits) == 32
        and digits.strip("0") != ""
        and all(c in "0123456789abcdefABCDEF" for c in digits)
    )


def body(operation: Operation, wire: Any) -> dict[str, Any]:
    """The operation as the API writes it; ``wire`` makes its links and times."""
    shown = "RUNNING" if operation.status == "WAITING" else operation.status
    answer: dict[str, Any] = {
        "kind": "compute#operation",
        "id": operation.id,
        "name": operation.name,
        "operationType": operation.kind,
        "targetLink": wire.link(operation.target_path),
        "targetId": operation.target_id,
        "status": shown,
        "user": operation.user,
        "progress": 100 if shown == "DONE" else 0,
        "insertTime": wire.time(operation.created),
        "selfLink": wire.link(operation.path),
    }
    if operation.scope.kind in ("zone", "region"):
        answer[operation.scope.kind] = wire.link(
            f"projects/{operation.project}/{operation.scope.path}"
        )
    if operation.started:
        answer["startTime"] = wire.time(operation.started)
    if operation.ended:
        answer["endTime"] = wire.time(operation.ended)
    if operation.client_id:
        answer["clientOperationId"] = operation.client_id
    if shown == "DONE" and operation.errors:
        answer["error"] = {"errors": operation.errors}
        if operation.http_code:
            answer["httpErrorStatusCode"] = operation.http_code
            answer["httpErrorMessage"] = operation.http_message
    return answer


def target_name(operation: Operation) -> str:
    """The bare name of what it is about."""
    return last_segment(operation.target_path)
