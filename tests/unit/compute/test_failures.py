"""Google's errors as one word each, and its texts as one line each."""

from __future__ import annotations

import pytest

from slurm_flex.failures import Failure, classify
from slurm_flex.model import CloudError
from slurm_flex.text import one_line

QUOTA_TEXT = "Quota 'SSD_TOTAL_GB' exceeded.  Limit: 125.0 in region us-central1."
ACTIVE_TEXT = "Quota 'ACTIVE_RESIZE_REQUESTS' exceeded.  Limit: 100.0 in region us-central1."
IMAGE_TEXT = (
    "Instance 'c1-gx-0' creation failed: Required 'compute.images.useReadOnly' permission for "
    "'projects/p/global/images/i' (when acting as '123@cloudservices.gserviceaccount.com')"
)


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", "", Failure.CAPACITY),
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "quota was fine", Failure.CAPACITY),
        ("RESOURCE_POOL_EXHAUSTED", "There are currently not enough ...", Failure.CAPACITY),
        ("QUEUING_INFEASIBLE_NO_CAPACITY", "Could not create ...", Failure.CAPACITY),
        ("QUOTA_EXCEEDED", QUOTA_TEXT, Failure.QUOTA),
        ("LIMIT_EXCEEDED", "Exceeded limit 'MAX_INSTANCES_IN_INSTANCE_GROUP'", Failure.QUOTA),
        ("quotaExceeded", "", Failure.QUOTA),
        ("QUOTA_EXCEEDED", ACTIVE_TEXT, Failure.ACTIVE_REQUESTS),
        ("PERMISSIONS_ERROR", IMAGE_TEXT, Failure.PERMISSION),
        ("PERMISSION_DENIED", "This feature is not supported.", Failure.PERMISSION),
        ("forbidden", "Required 'compute.x' permission for 'y'", Failure.PERMISSION),
        ("accessNotConfigured", "", Failure.PERMISSION),
        ("INVALID_ARGUMENT", "Specified maxRunDuration is too short.", Failure.CONFIG),
        ("INVALID_MACHINE_TYPE", "Specified machine type is invalid.", Failure.CONFIG),
        ("INVALID_GPU_TYPE", "", Failure.CONFIG),
        ("UNSUPPORTED_OPERATION", "Requests without accelerators ...", Failure.CONFIG),
        ("AGGREGATE_RESERVATION_NOT_EXIST", "Queued Resource Manager ...", Failure.CONFIG),
        ("CONDITION_NOT_MET", "Constraint vmExternalIpAccess violated", Failure.CONFIG),
        ("notFound", "The resource 'projects/p' was not found", Failure.CONFIG),
        ("IP_SPACE_EXHAUSTED", "", Failure.IP_SPACE),
        ("IP_SPACE_EXHAUSTED_WITH_DETAILS", "", Failure.IP_SPACE),
        ("INSTANCE_PREEMPTED", "", Failure.PREEMPTED),
        ("BOOT_FAILED", "", Failure.BOOT),
        ("BOOT_DISK_NOT_FOUND", "", Failure.CONFIG),
        ("ACTIVE_RESIZE_REQUESTS", "", Failure.ACTIVE_REQUESTS),
        ("rateLimitExceeded", "Quota exceeded for quota metric", Failure.UNKNOWN),
        ("RATE_LIMIT_EXCEEDED", "", Failure.UNKNOWN),
        ("backendError", "", Failure.UNKNOWN),
        ("SOMETHING_NEW", "never seen", Failure.UNKNOWN),
    ],
)
def test_a_code_says_what_kind_of_failure_it_is(code: str, message: str, kind: Failure) -> None:
    assert classify(CloudError(code, message)) is kind


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("There are currently not enough resources available.", Failure.CAPACITY),
        (QUOTA_TEXT, Failure.QUOTA),
        (ACTIVE_TEXT, Failure.ACTIVE_REQUESTS),
        (IMAGE_TEXT, Failure.PERMISSION),
        ("", Failure.UNKNOWN),
        ("한국어\n$(rm -rf /) %s \"'", Failure.UNKNOWN),
        ("'" * 4096, Failure.UNKNOWN),
    ],
)
def test_without_a_code_the_text_says_it(message: str, kind: Failure) -> None:
    assert classify(CloudError("", message)) is kind


def test_a_failure_is_written_as_its_word() -> None:
    assert f"{Failure.ACTIVE_REQUESTS}" == str(Failure.ACTIVE_REQUESTS) == "active_requests"


def test_a_hostile_text_becomes_one_line_of_at_most_the_limit() -> None:
    hostile = 'a "quoted"\r\n\tline\x00 $(reboot) %s \x1b[31m \u202e 한국어 \u2028\ud800 end'

    assert one_line(hostile) == 'a "quoted" line $(reboot) %s [31m 한국어 end'


@pytest.mark.parametrize("text", ["x" * 4096, "말 " * 2000, "\n" * 4096 + "x" * 300])
def test_a_long_text_is_cut_with_an_ellipsis(text: str) -> None:
    shown = one_line(text)

    assert len(shown) <= 200
    assert shown.endswith("…")


def test_a_text_of_exactly_the_limit_stays_whole() -> None:
    assert one_line("x" * 200) == "x" * 200
    assert one_line("abc", 3) == "abc"
    assert one_line("abcd", 3) == "ab…"
    assert one_line("abcd", 0) == ""
