"""Changing the fleet: sent once whatever happens to the answer, and judged by what Google says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from slurm_flex.compute.errors import (
    AlreadyExists,
    BadConfiguration,
    ConditionNotMet,
    NotFound,
    PermissionDenied,
    Unreachable,
)
from slurm_flex.compute.fleet import Operation, Verdict
from slurm_flex.compute.mutations import CONSOLE_BYTES
from slurm_flex.failures import Failure, classify
from slurm_flex.model import CLUSTER_LABEL
from tests.contract.site import WEEK, Cloud, cloud, cluster_of, cpu_pool, pool, until


@pytest.fixture
def site() -> Iterator[Cloud]:
    with cloud(cluster_of(pool("gx"), cpu_pool("cpu"))) as found:
        found.make_groups()
        yield found


@pytest.mark.parametrize("fault", ["reset_before", "reset_after", "bad_gateway", "rate_limited"])
def test_a_request_is_made_once_though_its_answer_was_lost(site: Cloud, fault: str) -> None:
    site.emulator.faults.set(fault, times=1, method="*esizeRequests.insert")

    outcome = site.ask("gx", "j51-1")

    assert outcome.verdict is Verdict.DONE
    assert [request["name"] for request in site.emulator.world()["requests"]] == ["j51-1"]


def test_the_same_request_with_the_same_nonce_is_the_same_operation(site: Cloud) -> None:
    nodes = site.cluster.node_names("gx")
    first = site.fleet.request(site.pool("gx"), "j51-1", nodes, WEEK, nonce="1")
    again = site.fleet.request(site.pool("gx"), "j51-1", nodes, WEEK, nonce="1")

    assert again.name == first.name


def test_a_request_whose_name_is_there_is_adopted(site: Cloud) -> None:
    site.ask("gx", "j51-1", ["c1-gx-0"])

    outcome = site.ask("gx", "j51-1", ["c1-gx-0"], nonce="other")

    assert outcome.verdict is Verdict.ALREADY


def test_a_request_whose_name_another_one_has_is_refused(site: Cloud) -> None:
    site.ask("gx", "j51-1", ["c1-gx-0"])

    with pytest.raises(AlreadyExists, match="j51-1"):
        site.ask("gx", "j51-1", ["c1-gx-2"], nonce="other")


def test_a_request_for_a_node_that_another_request_names_is_refused(site: Cloud) -> None:
    site.ask("gx", "j51-1", ["c1-gx-0"])

    with pytest.raises(AlreadyExists, match="c1-gx-0"):
        site.ask("gx", "j52-1", ["c1-gx-0"])


def test_a_request_without_a_group_says_what_is_missing() -> None:
    with cloud(cluster_of(pool("gx"))) as site, pytest.raises(NotFound) as caught:
        site.ask("gx", "j51-1")

    assert "slurm-flex apply" in caught.value.fix


def test_a_short_life_is_asked_for_as_the_shortest_that_is_granted(site: Cloud) -> None:
    short = timedelta(seconds=30)
    operation = site.fleet.request(site.pool("gx"), "j51-1", ["c1-gx-0"], short, nonce="1")
    site.finish(operation)

    assert site.read("gx").requests[0].run_duration == timedelta(minutes=10)


@pytest.mark.parametrize("with_http_status", [True, False])
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("quota_on_insert", Failure.QUOTA),
        ("active_requests_quota", Failure.ACTIVE_REQUESTS),
        ("insert_error", Failure.CAPACITY),
    ],
)
def test_an_operation_that_fails_is_no_success(
    site: Cloud, fault: str, kind: Failure, with_http_status: bool
) -> None:
    site.emulator.knobs.set(operation_http_status=with_http_status)
    site.emulator.faults.set(fault)

    outcome = site.ask("gx", "j51-1")

    assert outcome.verdict is Verdict.FAILED
    assert outcome.error is not None
    assert classify(outcome.error) is kind


def test_a_request_that_failed_says_why_in_the_list(site: Cloud) -> None:
    text = "Quota 'SSD' \"x\" exceeded.\n$(reboot) %s 용량 부족"
    site.emulator.faults.set("request_fails", code="QUOTA_EXCEEDED", message=text)
    site.ask("gx", "j51-1")

    group = site.read_until("gx", lambda seen: seen.requests[0].is_terminal)

    assert group.requests[0].is_failed
    assert group.requests[0].error is not None
    assert (group.requests[0].error.code, group.requests[0].error.message) == (
        "QUOTA_EXCEEDED",
        text,
    )


def test_a_waiting_request_is_taken_back(site: Cloud) -> None:
    site.emulator.faults.set("stockout")
    site.ask("gx", "j51-1")

    (outcome,) = site.finish(site.fleet.cancel_request(site.pool("gx"), "j51-1", nonce="1"))

    assert outcome.verdict is Verdict.DONE
    group = site.read("gx")
    assert group.requests[0].is_cancelled
    assert group.instances == ()


@pytest.mark.parametrize("shape", ["http", "operation"])
def test_a_cancel_that_comes_too_late_is_over(site: Cloud, shape: str) -> None:
    site.emulator.faults.set("stockout")
    site.ask("gx", "j51-1")
    site.emulator.faults.set("cancel_race", shape=shape)

    (outcome,) = site.finish(site.fleet.cancel_request(site.pool("gx"), "j51-1", nonce="1"))

    assert outcome.verdict is Verdict.ALREADY
    assert outcome.error is not None
    assert site.running("gx", 4).complete


def test_cancelling_and_forgetting_what_is_gone_are_successes(site: Cloud) -> None:
    gx = site.pool("gx")

    assert site.fleet.cancel_request(gx, "j51-1", nonce="1").verdict is Verdict.ALREADY
    assert site.fleet.delete_request(gx, "j51-1", nonce="1").verdict is Verdict.ALREADY


def test_a_waiting_request_is_not_forgotten(site: Cloud) -> None:
    site.emulator.faults.set("stockout")
    site.ask("gx", "j51-1")

    with pytest.raises(ConditionNotMet):
        site.fleet.delete_request(site.pool("gx"), "j51-1", nonce="1")


def test_a_final_request_is_forgotten_and_its_vms_stay(site: Cloud) -> None:
    site.ask("gx", "j51-1")
    site.running("gx", 4)

    site.finish(site.fleet.delete_request(site.pool("gx"), "j51-1", nonce="1"))

    group = site.running("gx", 4)
    assert group.requests == ()


def test_vms_are_ended_though_some_of_them_are_gone(site: Cloud) -> None:
    site.ask("gx", "j51-1", ["c1-gx-0", "c1-gx-1"])
    group = site.running("gx", 2)

    names = ["c1-gx-0", "c1-gx-1", "c1-gx-2"]
    operations = site.fleet.delete_instances(site.pool("gx"), names, nonce="1", group=group)

    assert len(operations) == 1
    assert site.finish(*operations)[0].verdict is Verdict.DONE
    left = site.read_until("gx", lambda seen: not seen.instances)
    assert left.target_size == 0
    again = site.fleet.delete_instances(site.pool("gx"), names, nonce="2", group=left)
    assert site.finish(*again)[0].verdict in (Verdict.DONE, Verdict.ALREADY)


def test_a_second_deletion_of_the_same_name_is_not_swallowed(site: Cloud) -> None:
    gx = site.pool("gx")
    for attempt in (1, 2):
        site.ask("gx", f"j51-{attempt}", ["c1-gx-0"])
        group = site.running("gx", 1)
        incarnation = str(group.instances[0].id)
        site.finish(*site.fleet.delete_instances(gx, ["c1-gx-0"], nonce=incarnation, group=group))
        site.read_until("gx", lambda seen: not seen.instances)


def test_places_in_a_queue_are_named_apart_from_vms(site: Cloud) -> None:
    site.emulator.knobs.set(delete_queued_member="allow")
    site.ask("gx", "j51-1", ["c1-gx-0"])
    site.running("gx", 1)
    site.emulator.faults.set("stockout")
    site.ask("gx", "j52-1", ["c1-gx-1"])
    group = site.read_until("gx", lambda seen: len(seen.instances) == 2)

    names = ["c1-gx-0", "c1-gx-1"]
    operations = site.fleet.delete_instances(site.pool("gx"), names, nonce="1", group=group)

    assert [one.target for one in operations] == [("c1-gx-0",), ("c1-gx-1",)]
    assert {one.verdict for one in site.finish(*operations)} == {Verdict.DONE}
    site.read_until("gx", lambda seen: not seen.instances)


def test_a_deletion_that_is_refused_is_a_failed_operation_and_stops_no_other(site: Cloud) -> None:
    site.emulator.faults.set("permission_denied", method="*deleteInstances")

    (operation,) = site.fleet.delete_instances(site.pool("gx"), ["c1-gx-0"], nonce="1")

    (outcome,) = site.fleet.poll([operation])
    assert outcome.verdict is Verdict.FAILED
    assert outcome.error is not None
    assert classify(outcome.error) is Failure.PERMISSION


def test_our_vm_outside_of_its_group_is_ended_and_anothers_is_not(site: Cloud) -> None:
    site.insert_foreign_vm("c1-gx-0", {CLUSTER_LABEL: "c1", "slurm-flex-pool": "gx"})
    site.insert_foreign_vm("c1-gx-1", {CLUSTER_LABEL: "other"})
    group = site.running("gx", 2)

    names = ["c1-gx-0", "c1-gx-1"]
    site.finish(*site.fleet.delete_instances(site.pool("gx"), names, nonce="1", group=group))

    left = site.read_until("gx", lambda seen: len(seen.instances) == 1)
    assert left.instances[0].name == "c1-gx-1"
    assert left.instances[0].is_running


def test_plain_vms_come_by_name(site: Cloud) -> None:
    operations = site.fleet.create_instances(
        site.pool("cpu"), site.cluster.node_names("cpu"), nonce="1"
    )

    assert [one.verdict for one in site.finish(*operations)] == [Verdict.DONE]
    group = site.running("cpu", 2)
    assert {item.name for item in group.instances} == {"c1-cpu-0", "c1-cpu-1"}
    (again,) = site.finish(*site.fleet.create_instances(site.pool("cpu"), ["c1-cpu-0"], nonce="2"))
    assert again.verdict is Verdict.ALREADY


def test_a_plain_vm_that_cant_come_says_why(site: Cloud) -> None:
    site.emulator.faults.set("stockout")

    site.finish(*site.fleet.create_instances(site.pool("cpu"), ["c1-cpu-0"], nonce="1"))

    group = site.read_until("cpu", lambda seen: any(item.error for item in seen.instances))
    assert group.instances[0].error is not None
    assert classify(group.instances[0].error) is Failure.CAPACITY


def test_an_operation_that_nobody_remembers_is_over(site: Cloud) -> None:
    old = Operation("gx", "request", ("j1-1",), "operation-of-last-month", "us-central1-a")

    assert site.fleet.poll([old])[0].verdict is Verdict.UNKNOWN


def test_an_operation_that_cant_be_asked_after_is_still_pending(site: Cloud) -> None:
    operation = site.fleet.request(site.pool("gx"), "j51-1", ["c1-gx-0"], WEEK, nonce="1")
    site.emulator.faults.set("permission_denied", method="*perations.get")

    assert site.fleet.poll([operation])[0].verdict is Verdict.PENDING


def test_a_refused_call_is_a_typed_error_that_says_what_to_do(site: Cloud) -> None:
    site.emulator.faults.set("permission_denied")

    with pytest.raises(PermissionDenied) as caught:
        site.ask("gx", "j51-1")

    assert "request j51-1" in caught.value.where
    assert "doctor" in caught.value.fix
    assert caught.value.failure is Failure.PERMISSION


def test_a_bad_name_is_a_bad_configuration(site: Cloud) -> None:
    with pytest.raises(BadConfiguration):
        site.ask("gx", "Not-A-Name")


def test_nobody_listening_is_unreachable_within_the_timeout() -> None:
    with cloud(cluster_of(pool("gx")), cloud_timeout="1s") as site:
        site.emulator.kill()
        with pytest.raises(Unreachable):
            site.ask("gx", "j51-1")


def test_no_host_is_reported_for_a_flex_start_vm(site: Cloud) -> None:
    site.ask("gx", "j51-1", ["c1-gx-0"])
    site.running("gx", 1)

    operation = site.fleet.report_host(site.pool("gx"), "c1-gx-0", reason="Xid 79", nonce="1")

    (outcome,) = site.finish(operation)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.error is not None
    assert outcome.error.code == "INSTANCES_WITHOUT_RESERVATION_NOT_SUPPORTED"
    assert classify(outcome.error) is Failure.CONFIG


def test_the_console_of_a_vm_is_read(site: Cloud) -> None:
    site.ask("gx", "j51-1", ["c1-gx-0"])
    site.running("gx", 1)

    text = until(lambda: site.fleet.console(site.pool("gx"), "c1-gx-0"), bool)

    assert "c1-gx-0" in text
    assert len(text) <= CONSOLE_BYTES
    with pytest.raises(NotFound):
        site.fleet.console(site.pool("gx"), "c1-gx-3")
