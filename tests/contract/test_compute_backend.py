"""Reading the fleet: whole or not at all, in few calls, whatever the other side does."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta, timezone

import pytest

from slurm_flex.compute.errors import PermissionDenied, Unreachable
from slurm_flex.compute.translate import UNMANAGED
from slurm_flex.model import CLUSTER_LABEL, Group
from tests.contract.site import WEEK, Cloud, cloud, cluster_of, cpu_pool, pool

ZONE_B = "us-central1-b"


@pytest.fixture
def site() -> Iterator[Cloud]:
    with cloud(cluster_of(pool("gx"), pool("gy", zone=ZONE_B), cpu_pool("cpu"))) as found:
        yield found


def test_a_pool_without_a_group_is_empty_and_known_to_be_so(site: Cloud) -> None:
    survey = site.fleet.read(site.cluster.pools)

    assert dict(survey.errors) == {}
    assert set(survey) == {"login", "gx", "gy", "cpu"}
    assert all(group == Group(exists=False) for group in survey.values())


def test_a_request_that_waits_is_seen_with_its_last_answer_and_its_places(site: Cloud) -> None:
    site.make_groups()
    site.emulator.faults.set("stockout", group="c1-gx")
    assert site.ask("gx", "j51-1").error is None

    group = site.read_until("gx", lambda seen: seen.requests[0].last_attempt is not None)

    request = group.requests[0]
    assert (request.name, request.state, request.is_live) == ("j51-1", "ACCEPTED", True)
    assert request.nodes == site.cluster.node_names("gx")
    assert request.run_duration == WEEK
    assert request.created is not None and request.created.tzinfo is timezone.utc
    assert request.last_attempt is not None
    assert request.last_attempt.code == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert group.target_size == 4
    assert [item.name for item in group.instances] == list(request.nodes)
    for place in group.instances:
        assert (place.id, place.status, place.action) == (None, None, "CREATING")
        assert not place.is_real


def test_a_vm_is_seen_with_its_labels_its_age_and_its_end(site: Cloud) -> None:
    site.make_groups()
    site.ask("gx", "j51-1", ["c1-gx-0", "c1-gx-2"])

    site.running("gx", 2)
    group = site.read_until("gx", lambda seen: seen.requests[0].is_succeeded)

    for vm in group.instances:
        assert vm.id is not None and vm.id.isdigit()
        assert vm.is_labelled("c1")
        assert vm.labels is not None and vm.labels["slurm-flex-pool"] == "gx"
        assert vm.created is not None and vm.terminates is not None
        assert timedelta(0) <= vm.terminates - vm.created - WEEK < timedelta(seconds=5)
        assert vm.terminates.tzinfo is timezone.utc


def test_an_announced_maintenance_is_read_moves_is_called_off_and_ends_the_vm(site: Cloud) -> None:
    site.make_groups()
    site.ask("gx", "j51-1", ["c1-gx-0", "c1-gx-1"])
    vm, other = site.running("gx", 2).instances
    assert (vm.maintenance, other.maintenance) == (None, None)

    for hours in (5, 9):
        site.emulator.faults.set("maintenance", instance=vm.name, within=f"{hours}h")
        vm, other = site.read("gx").instances
        assert vm.created is not None and vm.maintenance is not None
        assert (
            timedelta(0) < vm.maintenance - vm.created - timedelta(hours=hours) < timedelta(0, 30)
        )
        assert other.maintenance is None
    site.emulator.faults.set("maintenance", instance=vm.name, type="NONE")
    assert site.read("gx").instances[0].maintenance is None
    site.emulator.faults.set("maintenance", instance=vm.name, within="1s", type="UNSCHEDULED")

    ended = site.read_until("gx", lambda group: not group.instances[0].is_alive)

    assert [one.is_dead for one in ended.instances] == [True, False]


def test_the_maintenance_of_a_vm_that_moves_to_another_host_is_none_to_us(site: Cloud) -> None:
    site.make_groups()
    site.finish(*site.fleet.create_instances(site.pool("cpu"), ["c1-cpu-0"], nonce="1"))
    site.running("cpu", 1)
    site.emulator.faults.set("maintenance", instance="c1-cpu-0", within="5h")

    assert site.read("cpu").instances[0].maintenance is None


def test_a_pass_takes_two_calls_a_zone_and_two_a_flex_start_pool(site: Cloud) -> None:
    site.make_groups()
    site.ask("gx", "j51-1")
    site.running("gx", 4)

    survey = site.fleet.read(site.cluster.compute_pools)

    zones, flex_pools, other_pools = 2, 2, 1
    assert survey.calls == 2 * zones + 2 * flex_pools + other_pools
    before = site.fleet.calls
    site.fleet.read(site.cluster.compute_pools)
    assert site.fleet.calls - before == {
        "InstanceGroupManagers.list": zones,
        "Instances.list": zones,
        "InstanceGroupManagers.list_managed_instances": flex_pools + other_pools,
        "InstanceGroupManagerResizeRequests.list": flex_pools,
    }


def test_a_pool_larger_than_a_page_is_seen_whole() -> None:
    with cloud(cluster_of(pool("gx", count=620))) as site:
        site.make_groups()
        site.ask("gx", "j51-1")
        group = site.running("gx", 620)

        started = time.monotonic()
        survey = site.fleet.read(site.cluster.compute_pools)

        print(f"620 instances: {survey.calls} calls, {time.monotonic() - started:.2f} s")
        assert {item.name for item in survey["gx"].instances} == set(site.cluster.node_names("gx"))
        assert all(item.is_labelled("c1") for item in group.instances)
        assert survey.calls == 2 + 2 + 1 + 1  # one page more of instances and of managed ones


def test_empty_pages_are_turned(site: Cloud) -> None:
    site.make_groups()
    site.ask("gx", "j51-1")
    site.running("gx", 4)
    site.emulator.faults.set("empty_pages")

    assert len(site.read("gx").instances) == 4


@pytest.mark.parametrize("field", ["state", "currentAction", "status"])
def test_words_from_the_future_are_taken_as_they_come(site: Cloud, field: str) -> None:
    site.make_groups()
    site.emulator.faults.set("stockout", times=1)
    site.ask("gx", "j51-1")
    site.running("gx", 4)
    site.emulator.faults.set("unknown_field")
    site.emulator.faults.set("unknown_enum", field=field, value="NEW_IN_2027")

    group = site.read("gx")

    assert group.complete
    seen = {
        "state": group.requests[0].state,
        "currentAction": group.instances[0].action,
        "status": group.instances[0].status,
    }
    assert seen[field] == "NEW_IN_2027"
    assert group.instances[0].is_alive


def test_one_pool_that_cant_be_read_hides_no_other(site: Cloud) -> None:
    site.make_groups()
    site.emulator.faults.set("permission_denied", group="c1-gx")

    survey = site.fleet.read(site.cluster.compute_pools)

    assert not survey["gx"].complete
    assert survey["gx"].instances == ()
    assert survey["gy"].complete and survey["cpu"].complete
    assert set(survey.errors) == {"gx"}
    assert isinstance(survey.errors["gx"], PermissionDenied)


def test_a_zone_that_doesnt_answer_makes_its_pools_unknown_and_no_other() -> None:
    cluster = cluster_of(pool("gx"), pool("gy", zone=ZONE_B))
    with cloud(cluster, cloud_timeout="1s") as site:
        site.make_groups()
        site.emulator.faults.set("unreachable_zone", zone=ZONE_B)

        survey = site.fleet.read(cluster.compute_pools)

        assert survey["gx"].complete
        assert not survey["gy"].complete
        assert isinstance(survey.errors["gy"], Unreachable)


def test_a_reading_is_over_by_its_deadline() -> None:
    cluster = cluster_of(pool("gx"), pool("gy", zone=ZONE_B))
    with cloud(cluster, observe_deadline="1s", cloud_timeout="30s") as site:
        site.make_groups()
        site.emulator.faults.set("slow_answers", zone=ZONE_B, delay="20s")
        started = time.monotonic()

        survey = site.fleet.read(cluster.compute_pools)

        assert time.monotonic() - started < 3
        assert not survey["gy"].complete
        assert isinstance(survey.errors["gy"], Unreachable)


def test_nobody_listening_makes_every_pool_unknown() -> None:
    cluster = cluster_of(pool("gx"))
    with cloud(cluster, cloud_timeout="1s") as site:
        site.make_groups()
        site.emulator.kill()

        survey = site.fleet.read(cluster.compute_pools)

        assert survey["gx"] == Group(complete=False)
        assert isinstance(survey.errors["gx"], Unreachable)


@pytest.mark.parametrize(
    "fault",
    """rate_limited too_many_requests unavailable server_error bad_gateway reset_before
    reset_after""".split(),
)
def test_what_passes_by_itself_is_asked_again(site: Cloud, fault: str) -> None:
    site.make_groups()
    site.ask("gx", "j51-1")
    site.running("gx", 4)
    before = site.calls()
    site.emulator.faults.set(fault, times=2)

    survey = site.fleet.read([site.pool("gx")])

    assert survey["gx"].complete
    assert len(survey["gx"].instances) == 4
    assert site.calls() - before == 4 + 2


def test_what_doesnt_pass_is_asked_once(site: Cloud) -> None:
    site.make_groups()
    site.emulator.faults.set("permission_denied", group="c1-gx")

    survey = site.fleet.read([site.pool("gx")])

    # Two lists of the zone, and the first of the pool's own.
    assert survey.calls == 3


def test_a_vm_with_a_nodes_name_and_foreign_labels_is_seen_as_what_it_is(site: Cloud) -> None:
    site.make_groups()
    site.insert_foreign_vm("c1-gx-1", {CLUSTER_LABEL: "other"})
    site.insert_foreign_vm("c1-gx-1b", {})

    group = site.running("gx", 1)

    assert [item.name for item in group.instances] == ["c1-gx-1"]
    assert group.instances[0].action == UNMANAGED
    assert not group.instances[0].is_labelled("c1")


def test_a_vm_of_ours_that_left_its_group_is_still_seen(site: Cloud) -> None:
    site.make_groups()
    site.insert_foreign_vm("c1-odd", {CLUSTER_LABEL: "c1", "slurm-flex-pool": "gx"})

    group = site.running("gx", 1)

    assert [item.name for item in group.instances] == ["c1-odd"]
    assert site.read("cpu").instances == ()


def test_reading_commands_dont_import_googles_library() -> None:
    code = (
        "import sys, slurm_flex.compute, slurm_flex.compute.fleet, slurm_flex.compute.templates\n"
        "import slurm_flex.compute.errors, slurm_flex.compute.groups, slurm_flex.compute.gather\n"
        "print([name for name in sys.modules if name.startswith('google')])"
    )

    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert done.stdout.strip() == "[]", done.stderr
