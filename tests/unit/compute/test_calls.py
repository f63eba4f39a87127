"""Calls: repeated while that may help, over in time, failing with a type."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import requests
from google.api_core.exceptions import GoogleAPICallError, from_http_response
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError

from slurm_flex.compute import errors
from slurm_flex.compute.calls import Caller
from slurm_flex.compute.errors import ComputeError, Unreachable, error_of_operation
from slurm_flex.compute.gather import gather
from slurm_flex.model import CloudError


class Clock:
    """Time that passes only when somebody sleeps, or a call takes some."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Server:
    """Answers with these, one after the other, the last for ever; takes `lasting` for each."""

    def __init__(self, clock: Clock, *answers: object, lasting: float = 0.0) -> None:
        self.answers: Iterator[object] = iter(answers)
        self.last: object = None
        self.clock = clock
        self.lasting = lasting
        self.timeouts: list[float] = []

    def __call__(self, request: str, *, retry: None, timeout: float) -> str:
        self.timeouts.append(timeout)
        self.clock.now += min(self.lasting, timeout)
        self.last = next(self.answers, self.last)
        if isinstance(self.last, BaseException):
            raise self.last
        return f"{self.last} to {request}"


def http(status: int, reason: str = "", message: str = "no", body: bytes = b"") -> Exception:
    """What the library raises for an answer."""
    response = requests.Response()
    response.status_code = status
    first = {"reason": reason, "message": message, "domain": "global"}
    said = {"error": {"code": status, "message": message, "errors": [first] if reason else []}}
    response._content = body or json.dumps(said).encode()
    response.request = requests.Request("GET", "http://x/y").prepare()
    found: GoogleAPICallError = from_http_response(response)  # type: ignore[no-untyped-call]
    return found


def untyped(kind: type[Exception], text: str) -> Exception:
    """An exception of google.auth, whose constructors have no types."""
    make: Callable[[str], Exception] = kind
    return make(text)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def caller(clock: Clock, seconds: float = 30) -> Caller:
    return Caller(timedelta(seconds=seconds), clock=clock, sleep=clock.sleep)


PASSING = [
    http(429),
    http(403, "rateLimitExceeded"),
    http(403, "userRateLimitExceeded"),
    http(500),
    http(502, body=b"<html>bad gateway</html>"),
    http(503, "backendError"),
    requests.ConnectionError("reset"),
    requests.exceptions.ChunkedEncodingError("broken"),
    requests.Timeout("slow"),
    untyped(TransportError, "metadata"),
]


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_may_pass_is_asked_again(clock: Clock, error: Exception) -> None:
    server = Server(clock, error, error, "yes")

    assert caller(clock)(server, "a", where="x") == "yes to a"
    assert len(server.timeouts) == 3
    assert len(clock.slept) == 2
    assert all(seconds >= 0 for seconds in clock.slept)


LASTING = [
    (http(400, "invalid"), errors.BadConfiguration),
    (http(401), errors.PermissionDenied),
    (http(403, "forbidden"), errors.PermissionDenied),
    (http(403, "accessNotConfigured"), errors.PermissionDenied),
    (http(403, "quotaExceeded"), errors.QuotaExceeded),
    (http(404, "notFound"), errors.NotFound),
    (http(409, "alreadyExists"), errors.AlreadyExists),
    (http(412, "conditionNotMet"), errors.ConditionNotMet),
    (http(400, "resourceInUseByAnotherResource"), errors.InUse),
    (http(418), ComputeError),
    (untyped(DefaultCredentialsError, "none"), errors.PermissionDenied),
    (untyped(RefreshError, "expired"), errors.PermissionDenied),
]


@pytest.mark.parametrize(("error", "kind"), LASTING, ids=repr)
def test_what_doesnt_pass_is_a_typed_error_at_once(
    clock: Clock, error: Exception, kind: type[ComputeError]
) -> None:
    server = Server(clock, error)

    with pytest.raises(ComputeError) as caught:
        caller(clock)(server, "a", where="group c1-gx")

    assert type(caught.value) is kind
    assert caught.value.where == "group c1-gx"
    assert len(server.timeouts) == 1


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_a_call_is_over_by_its_timeout_whatever_happens(clock: Clock, error: Exception) -> None:
    server = Server(clock, error, lasting=4)

    with pytest.raises((errors.Unreachable, errors.RateLimited)):
        caller(clock)(server, "a", where="x")

    assert clock.now <= 30 + 0.1
    assert len(server.timeouts) > 2


def test_no_try_may_take_all_of_the_time(clock: Clock) -> None:
    server = Server(clock, requests.Timeout("slow"), "yes", lasting=60)

    assert caller(clock)(server, "a", where="x") == "yes to a"
    assert server.timeouts[0] == 10


def test_a_reading_that_ends_earlier_ends_its_calls(clock: Clock) -> None:
    server = Server(clock, http(503), lasting=1)

    with pytest.raises(Unreachable):
        caller(clock)(server, "a", where="x", until=2.0)

    assert clock.now <= 2.1


@pytest.mark.parametrize("body", [b'"text"', b"[]", b'{"error": "text"}', b"null", b"\xff\xfe"])
def test_an_error_that_cant_be_read_is_an_error_all_the_same(clock: Clock, body: bytes) -> None:
    def answer(request: str, *, retry: None, timeout: float) -> str:
        raise http(500, body=body)

    with pytest.raises(Unreachable):
        caller(clock, 1)(answer, "a", where="x")


def test_texts_of_errors_are_one_line_and_the_answer_is_kept_as_it_came(clock: Clock) -> None:
    text = "quotes ' \" and\nlines $(reboot) %s 용량"
    with pytest.raises(ComputeError) as caught:
        caller(clock)(Server(clock, http(400, "invalid", text)), "a", where="x")

    assert caught.value.error == CloudError("invalid", text)
    assert "\n" not in str(caught.value)


def test_tries_are_counted_by_name(clock: Clock) -> None:
    call = caller(clock)
    call(Server(clock, http(503), "yes"), "a", where="x")

    assert call.tries.total() == 2


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", errors.CapacityExhausted),
        ("QUOTA_EXCEEDED", errors.QuotaExceeded),
        ("IP_SPACE_EXHAUSTED", errors.IpSpaceExhausted),
        ("PERMISSIONS_ERROR", errors.PermissionDenied),
        ("INVALID_MACHINE_TYPE", errors.BadConfiguration),
        ("RESOURCE_ALREADY_EXISTS", errors.AlreadyExists),
        ("RESOURCE_NOT_FOUND", errors.NotFound),
        ("RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", errors.InUse),
        ("NEW_IN_2027", ComputeError),
    ],
)
def test_a_failed_operation_has_the_same_types(code: str, kind: type[ComputeError]) -> None:
    assert type(error_of_operation(CloudError(code, "x"), "here")) is kind


def test_tasks_run_side_by_side_and_each_has_its_own_end() -> None:
    both = threading.Barrier(2, timeout=10)

    def fails() -> int:
        both.wait()
        raise Unreachable(CloudError("unreachable", "x"))

    def works() -> int:
        both.wait()
        return 7

    found = gather({"a": fails, "b": works}, within=timedelta(seconds=10))

    assert found["b"] == 7
    assert isinstance(found["a"], Unreachable)


def test_a_task_that_hangs_delays_nobody() -> None:
    hangs = threading.Event()
    tasks: dict[str, Callable[[], object]] = {"slow": hangs.wait, "fast": lambda: 1}
    started = time.monotonic()

    found = gather(tasks, within=timedelta(seconds=0.2))

    hangs.set()
    assert time.monotonic() - started < 2
    assert found["fast"] == 1
    assert isinstance(found["slow"], Unreachable)


def test_tasks_are_answered_in_their_order_and_none_is_fine() -> None:
    tasks: dict[int, Callable[[], int]] = {at: lambda at=at: at for at in range(50)}  # type: ignore[misc]

    assert list(gather(tasks, within=timedelta(seconds=10)).values()) == list(range(50))
    assert gather({}, within=timedelta(seconds=1)) == {}


def test_a_defect_of_ours_is_not_hidden() -> None:
    def broken() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        gather({"a": broken}, within=timedelta(seconds=10))
