"""What Compute Engine may answer instead of what was asked for: one type for each thing to do next.

An error carries Google's code and text as they came (`error`), for the next plan to judge and for
people to read; `failure` is its class.
"""

from __future__ import annotations

from typing import ClassVar, Final

from slurm_flex.disabled_api import REASON, DisabledApi
from slurm_flex.errors import FlexError
from slurm_flex.failures import Failure, classify
from slurm_flex.model.cloud import CloudError
from slurm_flex.text import one_line


class ComputeError(FlexError):
    """A call to Compute Engine that didn't do what it was for."""

    FIX: ClassVar[str] = ""

    def __init__(self, error: CloudError, *, where: str = "", fix: str = "") -> None:
        self.error = error
        said = one_line(error.message) or "Compute Engine gave no text"
        code = one_line(error.code, 60)
        super().__init__(f"{code}: {said}" if code else said, where=where, fix=fix or self.FIX)

    @property
    def failure(self) -> Failure:
        return classify(self.error)


class CapacityExhausted(ComputeError):
    FIX = "wait, or use another zone or machine type"


class QuotaExceeded(ComputeError):
    FIX = "ask for more quota in the Cloud console, IAM & Admin > Quotas"


class ActiveRequestsExceeded(QuotaExceeded):
    FIX = "wait until requests leave the queue, or ask for more ACTIVE_RESIZE_REQUESTS"


class IpSpaceExhausted(ComputeError):
    FIX = "expand the subnetwork, or delete what uses its addresses"


class PermissionDenied(ComputeError):
    FIX = "grant what is missing; `slurm-flex doctor` names it"


class ApiDisabled(PermissionDenied):
    """The project hasn't enabled the API; no right helps before that."""

    def __init__(self, api: DisabledApi, *, where: str = "") -> None:
        super().__init__(CloudError(REASON, api.what), where=where, fix=api.fix)
        # All that the next plan, the breaker and a job's comment see of it: so with the command.
        self.error = CloudError(REASON, f"{api.service} is not enabled: {api.fix}")


class BadConfiguration(ComputeError):
    FIX = "change the cluster file, then run `slurm-flex apply`"


class NotFound(ComputeError):
    FIX = "`slurm-flex apply` makes what is missing"


class AlreadyExists(ComputeError):
    pass


class ConditionNotMet(ComputeError):
    """The thing is not in the state that the call needs (HTTP 412)."""


class InUse(ComputeError):
    """Something else still needs the thing."""


class RateLimited(ComputeError):
    FIX = "nothing: slurm-flex asks again later"


class Unreachable(ComputeError):
    """No answer, or none in time, or a server's own error: nothing is known."""

    FIX = "check the network and https://status.cloud.google.com"


class UnexpectedAnswer(Unreachable):
    """An answer that can't be read, or only a part of one."""


_BY_FAILURE: Final[dict[Failure, type[ComputeError]]] = {
    Failure.CAPACITY: CapacityExhausted,
    Failure.QUOTA: QuotaExceeded,
    Failure.ACTIVE_REQUESTS: ActiveRequestsExceeded,
    Failure.PERMISSION: PermissionDenied,
    Failure.CONFIG: BadConfiguration,
    Failure.IP_SPACE: IpSpaceExhausted,
}
_BY_STATUS: Final[dict[int, tuple[str, type[ComputeError]]]] = {
    400: ("badRequest", BadConfiguration),
    401: ("unauthenticated", PermissionDenied),
    403: ("forbidden", PermissionDenied),
    404: ("notFound", NotFound),
    409: ("alreadyExists", AlreadyExists),
    412: ("conditionNotMet", ConditionNotMet),
    429: ("rateLimitExceeded", RateLimited),
}
RATE_LIMIT_REASONS: Final = frozenset({"rateLimitExceeded", "userRateLimitExceeded"})


def error_of_status(status: int, reason: str, message: str, where: str) -> ComputeError:
    """The error for an HTTP status; `reason` is errors[0].reason, empty if there was none."""
    if status >= 500:
        return Unreachable(CloudError(reason or "backendError", message), where=where)
    code, kind = _BY_STATUS.get(status, ("", ComputeError))
    error = CloudError(reason or code or str(status), message)
    if status == 403 and reason in RATE_LIMIT_REASONS:
        kind = RateLimited
    elif reason == "resourceInUseByAnotherResource":
        kind = InUse
    elif status in (400, 403):
        kind = _BY_FAILURE.get(classify(error), kind)
    return kind(error, where=where)


def error_of_operation(error: CloudError, where: str) -> ComputeError:
    """The error for an operation that ended badly."""
    code = error.code.upper()
    if "ALREADY_EXISTS" in code:
        return AlreadyExists(error, where=where)
    if "NOT_FOUND" in code:
        return NotFound(error, where=where)
    if code == "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE":
        return InUse(error, where=where)
    return _BY_FAILURE.get(classify(error), ComputeError)(error, where=where)
