"""Operations: looked at by us, with our endpoint, and judged by their errors.

The library's own waiting asks Google's public endpoint whatever endpoint was set, and takes an
operation whose error has no HTTP status for a success (facts: compute-engine.md, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from google.cloud import compute_v1

from slurm_flex.actions import (
    CancelRequest,
    CreateGroup,
    CreateInstances,
    DeleteInstances,
    DeleteRequest,
    ReportHost,
)
from slurm_flex.compute.calls import Caller
from slurm_flex.compute.clients import Clients
from slurm_flex.compute.errors import ComputeError, NotFound
from slurm_flex.compute.fleet import Operation, Outcome, Verdict
from slurm_flex.compute.gather import gather
from slurm_flex.compute.translate import first_error
from slurm_flex.failures import code_words
from slurm_flex.model.cloud import CloudError

_THERE: Final = ("ALREADY_EXISTS",)
_GONE: Final = ("NOT_FOUND",)
_FINAL: Final = ("CONDITION_NOT_MET", "NOT_FOUND")
_ALREADY: Final = {
    CancelRequest.KIND: _FINAL,
    DeleteRequest.KIND: _GONE,
    DeleteInstances.KIND: _GONE,
    CreateInstances.KIND: _THERE,
    CreateGroup.KIND: _THERE,
    ReportHost.KIND: ("FAILED_WITH_UNEXPECTED_STATUS",),  # it was reported before
}
"""By kind of action: the codes that say that nothing was left to do. A request is not among them:
its own name may be taken, or that of one of its nodes, and only a look tells."""


def is_already(kind: str, target: Sequence[str], error: CloudError) -> bool:
    """Whether an error of this action means that what it was for is so already."""
    code = code_words(error)
    if not any(word in code for word in _ALREADY.get(kind, ())):
        return False
    # One taken name fails the whole call: the others were not made.
    return kind != CreateInstances.KIND or len(target) == 1


def judge(operation: Operation, found: compute_v1.Operation) -> Outcome:
    """What an operation, as read, says. Errors count whatever its HTTP status fields say."""
    if found.status != compute_v1.Operation.Status.DONE:
        return Outcome(operation, Verdict.PENDING)
    error = _error_of(found)
    if error is None:
        return Outcome(operation, Verdict.DONE)
    if is_already(operation.kind, operation.target, error):
        return Outcome(operation, Verdict.ALREADY, error)
    return Outcome(operation, Verdict.FAILED, error)


def _error_of(found: compute_v1.Operation) -> CloudError | None:
    if (error := first_error(found.error.errors)) is not None:
        return error
    if found.http_error_status_code >= 400 or found.http_error_message:
        return CloudError(str(found.http_error_status_code or ""), found.http_error_message)
    return (
        CloudError("UNKNOWN", "the operation failed without saying why")
        if ("error" in found)
        else None
    )


def poll(
    clients: Clients,
    call: Caller,
    project: str,
    operations: Sequence[Operation],
    *,
    within: timedelta,
) -> tuple[Outcome, ...]:
    """Look at all of them at once; see Fleet.poll."""
    asked = {at: partial(_look, clients, call, project, item) for at, item in enumerate(operations)}
    found = gather(asked, within=within)
    return tuple(_outcome(item, found[at]) for at, item in enumerate(operations))


def _look(clients: Clients, call: Caller, project: str, operation: Operation) -> Outcome:
    if operation.verdict is not Verdict.PENDING or not operation.name:
        return Outcome(operation, operation.verdict, operation.error)
    where = f"operation {operation.name}"
    if operation.scope:
        found = call(
            clients.zone_operations.get,
            compute_v1.GetZoneOperationRequest(
                project=project, zone=operation.scope, operation=operation.name
            ),
            where=where,
        )
    else:
        found = call(
            clients.global_operations.get,
            compute_v1.GetGlobalOperationRequest(project=project, operation=operation.name),
            where=where,
        )
    return judge(operation, found)


def _outcome(operation: Operation, found: Outcome | ComputeError) -> Outcome:
    if isinstance(found, NotFound):
        return Outcome(operation, Verdict.UNKNOWN)
    if isinstance(found, ComputeError):
        return Outcome(operation, Verdict.PENDING, found.error)
    return found


def started(operation: Operation, answer: compute_v1.Operation) -> Operation:
    """The handle of what a mutation's answer set off; an operation that is over at once says so."""
    outcome = judge(operation, answer)
    return replace(operation, name=answer.name, verdict=outcome.verdict, error=outcome.error)
