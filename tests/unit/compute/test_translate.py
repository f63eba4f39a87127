"""Google's messages in our words; nothing is guessed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from google.cloud import compute_v1
from hypothesis import given
from hypothesis import strategies as st

from slurm_flex.cluster import Cluster, Pool
from slurm_flex.compute.translate import UNMANAGED, join, member_of, request_of, time_of
from slurm_flex.model import CloudError

POOL = Pool(id="gx", zone="z", max_node_count=4)
CLUSTER = Cluster(id="c1", pools=(POOL,))
OURS = {"slurm-flex-cluster": "c1", "slurm-flex-pool": "gx"}


def quiet(_: str) -> None:
    """For texts that don't matter here."""


def vm(name: str, **more: Any) -> compute_v1.Instance:
    return compute_v1.Instance(name=name, **more)


def member(name: str, **more: Any) -> compute_v1.ManagedInstance:
    return compute_v1.ManagedInstance(name=name, **more)


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-12-01T04:00:00.123-08:00", 12),
        ("2026-12-01T12:00:00Z", 12),
        ("2026-12-01T12:00:00.123456789z", 12),
        ("2026-12-01T17:30:00+05:30", 12),
        ("2026-12-01T12:00:00+0000", 12),
    ],
)
def test_a_time_with_a_zone_is_the_same_moment_in_utc(text: str, hour: int) -> None:
    read = time_of(text, quiet)

    assert read is not None
    assert read.replace(microsecond=0) == datetime(2026, 12, 1, hour, tzinfo=timezone.utc)
    assert read.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01T12:00:00",
        "2026-12-01",
        "soon",
        "2026-13-01T12:00:00Z",
        "x" * 4096,
        "0001-01-01T00:00:00+23:59",
        "2026-12-01T12:00:00 UTC",
        "２026-12-01T12:00:00Z",
    ],
)
def test_a_time_that_is_not_sure_is_absent_and_told(text: str) -> None:
    told: list[str] = []

    assert time_of(text, told.append) is None
    assert len(told) == 1
    assert "absent" in told[0]


def test_no_time_is_absent_and_not_told() -> None:
    told: list[str] = []

    assert time_of("", told.append) is None
    assert told == []


@given(st.text())
def test_no_text_breaks_the_reading_of_times(text: str) -> None:
    read = time_of(text, quiet)

    assert read is None or read.tzinfo is timezone.utc


def test_an_instance_without_a_vm_is_a_place_in_the_queue() -> None:
    waiting = member_of(member("c1-gx-0", current_action="CREATING"), None, quiet)

    assert (waiting.id, waiting.status, waiting.action) == (None, None, "CREATING")
    assert not waiting.is_real


def test_a_members_end_is_the_groups_word_or_else_the_vms() -> None:
    end = "2026-12-08T04:00:00-08:00"
    status = {"scheduling": {"termination_timestamp": end}}
    plain = vm("c1-gx-0", id=7, resource_status=status, status="RUNNING", labels=OURS)
    moment = datetime(2026, 12, 8, 12, tzinfo=timezone.utc)

    by_vm = member_of(member("c1-gx-0", id=7), plain, quiet)
    group_end = {"termination_timestamp": "2026-12-07T12:00:00Z"}
    by_group = member_of(member("c1-gx-0", id=7, scheduling=group_end), plain, quiet)

    assert by_vm.terminates == moment
    assert by_group.terminates == moment - timedelta(days=1)


@pytest.mark.parametrize(
    ("scheduling", "upcoming", "hour"),
    [
        ("TERMINATE", {"window_start_time": "2026-12-01T04:00:00-08:00"}, 12),
        ("", {"window_start_time": "2026-12-01T12:00:00Z", "type_": "NEW_IN_2031"}, 12),
        ("TERMINATE", {"maintenance_status": "ONGOING"}, None),
        ("TERMINATE", {"window_start_time": "soon"}, None),
        ("TERMINATE", {}, None),
        ("MIGRATE", {"window_start_time": "2026-12-01T12:00:00Z"}, None),
    ],
)
def test_the_begin_of_a_maintenance_is_read_where_it_ends_the_vm(
    scheduling: str, upcoming: dict[str, str], hour: int | None
) -> None:
    listed = vm(
        "c1-gx-0", id=7, status="RUNNING", labels=OURS,
        scheduling={"on_host_maintenance": scheduling},
        resource_status={"upcoming_maintenance": upcoming},
    )  # fmt: skip
    begins = None if hour is None else datetime(2026, 12, 1, hour, tzinfo=timezone.utc)

    assert member_of(member("c1-gx-0", id=7), listed, quiet).maintenance == begins


def test_of_two_incarnations_the_one_that_was_seen_last_counts() -> None:
    old = member(
        "c1-gx-0", id=7, instance_status="STOPPING",
        scheduling={"termination_timestamp": "2026-12-01T12:00:00Z"},
    )  # fmt: skip
    new = vm("c1-gx-0", id=8, status="STAGING", labels=OURS)

    seen = member_of(old, new, quiet)

    assert (seen.id, seen.status, seen.terminates) == ("8", "STAGING", None)


def test_a_dying_namesake_of_a_place_in_the_queue_is_seen() -> None:
    waiting = member("c1-gx-0", current_action="CREATING")

    seen = member_of(waiting, vm("c1-gx-0", id=7, status="STOPPING", labels=OURS), quiet)

    assert seen.is_dying


def test_a_members_error_is_its_last_attempts_first() -> None:
    attempt = {"errors": {"errors": [{"code": "A", "message": "x"}, {"code": "B"}]}}

    assert member_of(member("n", last_attempt=attempt), None, quiet).error == CloudError("A", "x")
    nothing: dict[str, Any] = {"errors": {"errors": [{}]}}
    assert member_of(member("n", last_attempt=nothing), None, quiet).error is None
    half = {"errors": {"errors": [{"message": "only"}]}}
    assert member_of(member("n", last_attempt=half), None, quiet).error == CloudError("", "only")
    late = {"errors": {"errors": [{}, {"location": "x"}, {"code": "B"}]}}
    assert member_of(member("n", last_attempt=late), None, quiet).error == CloudError("B", "")


def test_a_request_by_number_has_no_nodes() -> None:
    read = request_of(
        compute_v1.InstanceGroupManagerResizeRequest(name="x", resize_by=3, state="ACCEPTED"), quiet
    )

    assert read.nodes == ()
    assert read.run_duration is None
    assert not read.is_own


def test_a_failed_request_has_its_error_and_a_waiting_one_its_last_attempt() -> None:
    said = {"errors": [{"code": "QUOTA_EXCEEDED", "message": "no\n'more'"}]}
    failed = compute_v1.InstanceGroupManagerResizeRequest(
        name="j1-1", state="FAILED", status={"error": said}, instances=[{"name": "c1-gx-0"}]
    )
    waits = compute_v1.InstanceGroupManagerResizeRequest(
        name="j1-1", state="ACCEPTED", status={"last_attempt": {"error": said}}
    )

    assert request_of(failed, quiet).error == CloudError("QUOTA_EXCEEDED", "no\n'more'")
    assert request_of(failed, quiet).last_attempt is None
    assert request_of(waits, quiet).last_attempt == CloudError("QUOTA_EXCEEDED", "no\n'more'")


def test_only_exact_names_and_our_labels_make_a_stray() -> None:
    instances = [
        vm("c1-gx-0", status="RUNNING", labels=OURS),
        vm("c1-gx-1", status="RUNNING"),
        vm("c1-gx-01", status="RUNNING"),
        vm("C1-GX-2", status="RUNNING"),
        vm("c1-gx-3.us-central1-a.c.p.internal", status="RUNNING", labels=OURS),
        vm("c1-gy-0", status="RUNNING", labels={**OURS, "slurm-flex-pool": "gy"}),
    ]

    seen = join(CLUSTER, POOL, [member("c1-gx-0", current_action="NONE")], instances, quiet)

    assert [(item.name, item.action) for item in seen] == [
        ("c1-gx-0", "NONE"),
        ("c1-gx-1", UNMANAGED),
        ("c1-gx-3.us-central1-a.c.p.internal", UNMANAGED),
    ]


def test_a_member_keeps_the_name_that_it_is_listed_under() -> None:
    url = "https://x/zones/z/instances/c1-gx-0"
    seen = join(
        CLUSTER, POOL,
        [compute_v1.ManagedInstance(instance=url), member("C1-GX-1.example.com")],
        [], quiet,
    )  # fmt: skip

    assert [item.name for item in seen] == ["c1-gx-0", "C1-GX-1.example.com"]
