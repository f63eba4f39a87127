"""What an operation says, with parts missing."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud import compute_v1

from slurm_flex.compute.fleet import Operation, Verdict
from slurm_flex.compute.operations import judge
from slurm_flex.model import CloudError

DONE = compute_v1.Operation.Status.DONE
INSERT = Operation("gx", "request", ("j51-1",), "operation-1", "us-central1-a")


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ([{"code": "QUOTA_EXCEEDED"}], CloudError("QUOTA_EXCEEDED", "")),
        ([{"message": "no"}], CloudError("", "no")),
        ([{}, {"code": "QUOTA_EXCEEDED", "message": "no"}], CloudError("QUOTA_EXCEEDED", "no")),
        ([{}], CloudError("UNKNOWN", "the operation failed without saying why")),
        ([], CloudError("UNKNOWN", "the operation failed without saying why")),
    ],
)
def test_an_error_with_missing_parts_is_a_failure_with_what_it_says(
    errors: list[dict[str, Any]], said: CloudError
) -> None:
    found = compute_v1.Operation(name="operation-1", status=DONE, error={"errors": errors})
    outcome = judge(INSERT, found)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.error == said


def test_an_empty_error_beside_an_http_status_is_that_status() -> None:
    found = compute_v1.Operation(
        name="operation-1",
        status=DONE,
        error={"errors": [{}]},
        http_error_status_code=403,
        http_error_message="FORBIDDEN",
    )
    assert judge(INSERT, found).error == CloudError("403", "FORBIDDEN")
