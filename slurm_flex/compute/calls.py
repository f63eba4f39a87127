"""One call to Google: with a deadline, repeated while that may help, failing with a typed error.

Everything that we call is a read or carries a requestId, so that every call may be repeated, even
if the first answer was lost. The client library's own retry is off: it repeats neither 429 nor
403 rateLimitExceeded nor lost connections (facts: compute-engine.md, section 4).
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Protocol, TypeVar

import requests
from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.auth.exceptions import GoogleAuthError, TransportError
from google.protobuf.json_format import ParseError  # type: ignore[import-untyped]
from tenacity import Retrying, retry_if_exception, wait_random_exponential

from slurm_flex.compute.credentials import SIGN_IN_FIX
from slurm_flex.compute.errors import (
    RATE_LIMIT_REASONS,
    ApiDisabled,
    ComputeError,
    PermissionDenied,
    UnexpectedAnswer,
    Unreachable,
    error_of_status,
)
from slurm_flex.disabled_api import disabled_api
from slurm_flex.model.cloud import CloudError

_FIRST_WAIT: Final = 0.25
_LONGEST_WAIT: Final = 8.0
_SHORTEST_TRY: Final = 0.05
# What the library puts before Google's words: "POST https://.../projects/p:getIamPolicy: ".
_REQUEST_LINE: Final = re.compile(r"^[A-Z]+ https?://\S+: ")

R_contra = TypeVar("R_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
T = TypeVar("T")


class Method(Protocol[R_contra, T_co]):
    """A method of a generated client."""

    def __call__(self, request: R_contra, *, retry: None, timeout: float) -> T_co: ...


class Caller:
    """Makes calls. Shared by threads; counts every try that goes over the wire.

    timeout: for one call, its repetitions included.
    """

    def __init__(
        self,
        timeout: timedelta,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._timeout = timeout.total_seconds()
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._tries: Counter[str] = Counter()

    @property
    def tries(self) -> Counter[str]:
        """Calls over the wire so far, such as "Instances.list"."""
        with self._lock:
            return self._tries.copy()

    def __call__(
        self, method: Method[R, T], request: R, *, where: str, until: float | None = None
    ) -> T:
        """The method's answer. `until` (of the clock) ends it earlier than the timeout would.

        Raises ComputeError that names `where`.
        """
        end = self._clock() + self._timeout
        end = end if until is None else min(end, until)
        retrying = Retrying(
            stop=lambda state: self._clock() + state.upcoming_sleep >= end,
            wait=wait_random_exponential(multiplier=_FIRST_WAIT, max=_LONGEST_WAIT),
            retry=retry_if_exception(_may_pass),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            answer: T = retrying(self._try, method, request, end)
            return answer
        except (GoogleAPICallError, RetryError) as error:
            raise _of_api(error, where) from error
        except (requests.RequestException, TransportError) as error:
            raise Unreachable(CloudError("unreachable", str(error)), where=where) from error
        except GoogleAuthError as error:
            refused = CloudError("unauthenticated", str(error))
            raise PermissionDenied(refused, where=where, fix=SIGN_IN_FIX) from error
        except ParseError as error:
            raise UnexpectedAnswer(CloudError("unreadable", str(error)), where=where) from error

    def _try(self, method: Method[R, T], request: R, end: float) -> T:
        """One try. A third of the timeout at most, so that a hanging one leaves time for more."""
        left = min(end - self._clock(), max(self._timeout / 3, 1.0))
        with self._lock:
            self._tries[_name(method)] += 1
        try:
            return method(request, retry=None, timeout=max(left, _SHORTEST_TRY))
        except (AttributeError, TypeError, ValueError) as error:
            # The library stumbles over an error body that is JSON, but not an object.
            raise ParseError(f"{type(error).__name__}: {error}") from error


def _name(method: object) -> str:
    owner = type(getattr(method, "__self__", method)).__name__.removesuffix("Client")
    return f"{owner}.{getattr(method, '__name__', 'call')}"


def _may_pass(error: BaseException) -> bool:
    """Whether the same call may succeed a moment later."""
    if isinstance(error, GoogleAPICallError):
        status = int(error.code or 0)
        return status in (429, 500, 502, 503, 504) or (
            status == 403 and _reason(error) in RATE_LIMIT_REASONS
        )
    return isinstance(error, (requests.RequestException, TransportError, ParseError))


def _of_api(error: GoogleAPICallError | RetryError, where: str) -> ComputeError:
    if isinstance(error, RetryError):
        return Unreachable(CloudError("unreachable", str(error)), where=where)
    api = disabled_api({"error": {"message": error.message, "errors": error.errors,
                                  "details": error.details}})  # fmt: skip
    if api is not None:
        return ApiDisabled(api, where=where)
    first = _first(error)
    message = _REQUEST_LINE.sub("", str(first.get("message") or error.message or ""))
    return error_of_status(int(error.code or 0), _reason(error), message, where)


def _reason(error: GoogleAPICallError) -> str:
    """errors[0].reason, as Compute Engine has it, or ErrorInfo's, as the newer APIs do."""
    return str(_first(error).get("reason") or error.reason or "")


def _first(error: GoogleAPICallError) -> dict[str, object]:
    """errors[0] of the answer's body, or nothing: the body is untrusted."""
    errors = error.errors
    first = errors[0] if isinstance(errors, (list, tuple)) and errors else None
    return first if isinstance(first, dict) else {}
