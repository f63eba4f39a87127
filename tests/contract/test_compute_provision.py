"""apply: from a cluster file to templates and groups, and back to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from google.cloud import compute_v1

from slurm_flex.compute import open_fleet
from slurm_flex.compute.errors import NotFound
from slurm_flex.compute.fleet import Verdict
from slurm_flex.compute.provision import ProvisionPlan, StepKind
from slurm_flex.compute.workshop import Stage, StepResult
from slurm_flex.model import CLUSTER_LABEL
from tests.contract.site import (
    IMAGE,
    PROJECT,
    Cloud,
    cloud,
    cluster_of,
    cpu_pool,
    pool,
    startup_script,
)

ZONE = "us-central1-a"


@pytest.fixture
def site() -> Iterator[Cloud]:
    with cloud(cluster_of(pool("gx"))) as found:
        yield found


def carry_out(site: Cloud, plan: ProvisionPlan) -> list[StepResult]:
    told: list[StepResult] = []
    results = site.fleet.workshop.carry_out(plan, told.append)
    assert [item for item in told if item.stage is not Stage.STARTED] == list(results)
    return list(results)


def apply(site: Cloud) -> list[StepResult]:
    """Apply, and verify by planning again."""
    results = carry_out(site, site.fleet.workshop.plan())
    assert all(item.error is None for item in results), results
    assert site.fleet.workshop.plan() == ProvisionPlan()
    return results


def with_cluster(site: Cloud, **changes: Any) -> Cloud:
    """The same cloud under a changed cluster file."""
    cluster = replace(site.cluster, **changes)
    fleet = open_fleet(cluster, site.settings, startup_script)
    return Cloud(site.emulator, cluster, site.settings, fleet)


def kinds(plan: ProvisionPlan) -> list[StepKind]:
    return [step.kind for step in plan.steps]


def get_group(site: Cloud, name: str) -> compute_v1.InstanceGroupManager:
    client = site.client(compute_v1.InstanceGroupManagersClient)
    found: compute_v1.InstanceGroupManager = client.get(
        project=PROJECT, zone=ZONE, instance_group_manager=name
    )
    return found


def patch_group(site: Cloud, name: str, **body: Any) -> None:
    client = site.client(compute_v1.InstanceGroupManagersClient)
    client.patch_unary(
        project=PROJECT,
        zone=ZONE,
        instance_group_manager=name,
        instance_group_manager_resource=compute_v1.InstanceGroupManager(body),
    )


def test_a_dry_run_names_every_step_and_does_none(site: Cloud) -> None:
    plan = site.fleet.workshop.plan()

    assert kinds(plan) == [
        StepKind.CREATE_TEMPLATE,
        StepKind.CREATE_TEMPLATE,
        StepKind.CREATE_GROUP,
        StepKind.CREATE_GROUP,
        StepKind.CREATE_LOGIN,
    ]
    assert plan.steps[3].text == f"create group c1-gx in {ZONE}"
    assert site.emulator.world()["templates"] == []
    assert site.emulator.world()["groups"] == []


def test_apply_makes_what_flex_start_demands(site: Cloud) -> None:
    apply(site)

    group = get_group(site, "c1-gx")
    assert group.target_size == 0
    assert group.instance_lifecycle_policy.default_action_on_failure == "DO_NOTHING"
    assert group.update_policy.type_ == "OPPORTUNISTIC"
    assert group.list_managed_instances_results == "PAGINATED"
    client = site.client(compute_v1.InstanceTemplatesClient)
    name = group.versions[0].instance_template.rpartition("/")[2]
    made = client.get(project=PROJECT, instance_template=name).properties
    assert made.scheduling.provisioning_model == "FLEX_START"
    assert made.scheduling.instance_termination_action == "DELETE"
    assert made.scheduling.on_host_maintenance == "TERMINATE"
    assert made.scheduling.max_run_duration.seconds == 604800
    assert made.reservation_affinity.consume_reservation_type == "NO_RESERVATION"
    assert made.labels[CLUSTER_LABEL] == "c1"
    assert made.disks[0].initialize_params.source_image == IMAGE
    assert made.metadata.items[0].value == startup_script(site.pool("gx"))


def test_the_login_pool_is_kept_at_its_size_by_name(site: Cloud) -> None:
    apply(site)
    assert [vm.name for vm in site.running("login", 1).instances] == ["c1-login-0"]

    larger = with_cluster(site, pools=_resized(site, "login", 3))
    plan = larger.fleet.workshop.plan()
    assert kinds(plan) == [StepKind.CREATE_LOGIN]
    apply(larger)
    names = [vm.name for vm in larger.running("login", 3).instances]
    assert names == ["c1-login-0", "c1-login-1", "c1-login-2"]

    smaller = with_cluster(site, pools=_resized(site, "login", 1))
    assert kinds(smaller.fleet.workshop.plan()) == [StepKind.DELETE_LOGIN]
    carry_out(smaller, smaller.fleet.workshop.plan())
    assert [vm.name for vm in smaller.running("login", 1).instances] == ["c1-login-0"]


def test_a_changed_pool_gets_a_new_template_and_its_vms_stay(site: Cloud) -> None:
    apply(site)
    site.ask("gx", "j51-1", ["c1-gx-0"])
    before = site.running("gx", 1)
    old = get_group(site, "c1-gx").versions[0].instance_template

    labelled = replace(site.pool("gx"), labels={"team": "vision"})
    changed = with_cluster(site, pools=(site.pool("login"), labelled))
    plan = changed.fleet.workshop.plan()
    assert kinds(plan) == [
        StepKind.CREATE_TEMPLATE,
        StepKind.PATCH_GROUP,
        StepKind.DELETE_TEMPLATE,
    ]
    assert "instance_template" in plan.steps[1].text
    apply(changed)

    assert get_group(site, "c1-gx").versions[0].instance_template != old
    assert len(site.emulator.world()["templates"]) == 2
    assert changed.running("gx", 1).instances[0].id == before.instances[0].id
    changed.ask("gx", "j52-1", ["c1-gx-1"])
    labels = {vm.name: vm.labels for vm in changed.running("gx", 2).instances}
    assert (labels["c1-gx-1"] or {}).get("team") == "vision"


def test_a_group_that_somebody_changed_is_mended(site: Cloud) -> None:
    apply(site)
    patch_group(
        site, "c1-gx",
        instance_lifecycle_policy={"default_action_on_failure": "REPAIR"},
        list_managed_instances_results="PAGELESS",
    )  # fmt: skip

    plan = site.fleet.workshop.plan()

    assert kinds(plan) == [StepKind.PATCH_GROUP]
    assert "REPAIR -> DO_NOTHING" in plan.steps[0].text
    assert "PAGELESS -> PAGINATED" in plan.steps[0].text
    apply(site)


def test_a_group_of_anothers_is_neither_changed_nor_adopted(site: Cloud) -> None:
    other = with_cluster(site, labels={"owner": "somebody"})
    client = site.client(compute_v1.InstanceTemplatesClient)
    properties = compute_v1.InstanceProperties(
        machine_type="n2-standard-8",
        disks=[{"boot": True, "initialize_params": {"source_image": IMAGE}}],
        network_interfaces=[{"network": "global/networks/default"}],
    )
    template = compute_v1.InstanceTemplate(name="c1-gx-mine", properties=properties)
    client.insert_unary(project=PROJECT, instance_template_resource=template)
    groups = site.client(compute_v1.InstanceGroupManagersClient)
    body = compute_v1.InstanceGroupManager(
        name="c1-gx",
        target_size=0,
        instance_template=f"projects/{PROJECT}/global/instanceTemplates/c1-gx-mine",
    )
    groups.insert_unary(project=PROJECT, zone=ZONE, instance_group_manager_resource=body)

    plan = other.fleet.workshop.plan()

    assert not [step for step in plan.steps if step.pool == "gx" or "c1-gx" in step.name]
    assert any("c1-gx in us-central1-a is not ours" in note for note in plan.notes)
    carry_out(other, plan)
    destroy = other.fleet.workshop.plan_destroy()
    assert not [step for step in destroy.steps if step.name in ("c1-gx", "c1-gx-mine")]
    carry_out(other, destroy)
    assert [item["name"] for item in site.emulator.world()["groups"]] == ["c1-gx"]
    assert site.emulator.world()["templates"] == ["c1-gx-mine"]


def test_a_pool_that_left_the_file_leaves_when_it_is_empty(site: Cloud) -> None:
    apply(site)
    site.ask("gx", "j51-1", ["c1-gx-0"])
    group = site.running("gx", 1)
    without = with_cluster(site, pools=(site.pool("login"),))

    plan = without.fleet.workshop.plan()
    assert plan.steps == ()
    assert "it goes when it is empty" in plan.notes[0]

    operations = site.fleet.delete_instances(site.pool("gx"), ["c1-gx-0"], nonce="1", group=group)
    site.finish(*operations)
    site.read_until("gx", lambda seen: not seen.instances)
    site.finish(site.fleet.delete_request(site.pool("gx"), "j51-1", nonce="1"))
    assert kinds(without.fleet.workshop.plan()) == [
        StepKind.DELETE_GROUP,
        StepKind.DELETE_TEMPLATE,
    ]
    apply(without)


def test_one_pool_that_fails_stops_no_other() -> None:
    with cloud(cluster_of(pool("gx", zone="us-central1-b"), cpu_pool("cpu"))) as site:
        site.emulator.faults.set("permission_denied", zone="us-central1-b")

        plan = site.fleet.workshop.plan()
        results = carry_out(site, plan)

        failed = [item for item in results if item.stage is Stage.FAILED]
        assert [item.step.name for item in failed] == ["c1-gx"]
        assert failed[0].error is not None and failed[0].error.fix
        assert {item["name"] for item in site.emulator.world()["groups"]} == {"c1-login", "c1-cpu"}


def test_destroy_takes_down_what_is_ours_and_nothing_else(site: Cloud) -> None:
    apply(site)
    site.ask("gx", "j51-1", ["c1-gx-0"])
    site.running("gx", 1)
    site.insert_foreign_vm("c1-odd", {CLUSTER_LABEL: "c1", "slurm-flex-pool": "gx"})
    site.insert_foreign_vm("c1-gx-2", {CLUSTER_LABEL: "other"})
    site.running("gx", 3)
    site.emulator.faults.set("stockout")
    site.ask("gx", "j52-1", ["c1-gx-1"])

    plan = site.fleet.workshop.plan_destroy()

    assert kinds(plan)[0] is StepKind.CANCEL_REQUEST
    assert [(step.kind, step.name) for step in plan.steps if step.nodes or step.zone == ""] == [
        (StepKind.DELETE_TEMPLATE, name) for name in sorted(site.emulator.world()["templates"])
    ]
    assert all(item.stage is Stage.DONE for item in carry_out(site, plan))
    world = site.emulator.world()
    assert (world["groups"], world["templates"], world["requests"]) == ([], [], [])
    left = [item["name"] for item in world["instances"] if item["status"] != "STOPPING"]
    assert left == ["c1-gx-2"]
    assert site.fleet.workshop.plan_destroy() == ProvisionPlan()


def test_the_daemon_makes_a_missing_group_step_by_step(site: Cloud) -> None:
    gx = site.pool("gx")
    steps = []
    for _ in range(4):
        operation = site.fleet.ensure_group(gx)
        steps.append((operation.target[0].rpartition("-")[0] or "", operation.verdict))
        site.finish(operation)

    assert [verdict for _, verdict in steps] == [
        Verdict.PENDING,  # the template
        Verdict.PENDING,  # the group
        Verdict.ALREADY,
        Verdict.ALREADY,
    ]
    assert site.read("gx").exists
    assert [step.pool for step in site.fleet.workshop.plan().steps] == ["login"] * 3


def test_two_at_once_make_one_group(site: Cloud) -> None:
    gx = site.pool("gx")
    site.finish(site.fleet.ensure_group(gx))

    both = [site.fleet.ensure_group(gx), site.fleet.ensure_group(gx)]

    assert {one.verdict for one in site.finish(*both)} <= {Verdict.DONE, Verdict.ALREADY}
    assert len(site.emulator.world()["groups"]) == 1


def test_a_group_that_is_gone_is_made_anew(site: Cloud) -> None:
    apply(site)
    client = site.client(compute_v1.InstanceGroupManagersClient)
    client.delete_unary(project=PROJECT, zone=ZONE, instance_group_manager="c1-gx")
    site.read_until("gx", lambda group: not group.exists)
    with pytest.raises(NotFound):
        site.ask("gx", "j51-1")

    apply(site)

    assert site.read("gx").exists


def _resized(site: Cloud, pool_id: str, count: int) -> tuple[Any, ...]:
    return tuple(
        replace(item, min_node_count=count, max_node_count=count) if item.id == pool_id else item
        for item in site.cluster.pools
    )
