"""Templates and groups: what each kind of pool is made from."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from google.cloud import compute_v1

from slurm_flex.cluster import BootDisk, Cluster, Pool, Provisioning, ReservationAffinity
from slurm_flex.cluster.settings import Settings, parse_settings
from slurm_flex.compute.compare import missing_parts
from slurm_flex.compute.groups import differences, group_of
from slurm_flex.compute.templates import template_of
from slurm_flex.errors import FlexError

SETTINGS = parse_settings({"node_image": "projects/p/global/images/family/nodes"})
GPU = Pool(
    id="a3u",
    zone="us-central1-b",
    machine_type="a3-ultragpu-8g",
    accelerator_type="NVIDIA_H200_141GB",
    accelerator_count=8,
    max_node_count=2,
)
CPU = Pool(
    id="cpu",
    zone="us-central1-b",
    machine_type="n2-standard-8",
    provisioning_model=Provisioning.ON_DEMAND,
    max_node_count=2,
)
CLUSTER = Cluster(id="c1", project="p", region="us-central1", pools=(GPU, CPU))


def properties(pool: Pool, cluster: Cluster = CLUSTER, script: str = "") -> Any:
    return template_of(cluster, SETTINGS, pool, script).properties


def test_a_flex_start_template_is_as_compute_engine_demands() -> None:
    made = properties(GPU, script="#!/bin/bash\n")

    assert made["scheduling"] == {
        "provisioning_model": "FLEX_START",
        "instance_termination_action": "DELETE",
        "max_run_duration": {"seconds": 604800},
        "on_host_maintenance": "TERMINATE",
        "automatic_restart": False,
        "preemptible": False,
    }
    assert made["reservation_affinity"] == {"consume_reservation_type": "NO_RESERVATION"}
    assert made["guest_accelerators"] == [
        {"accelerator_type": "nvidia-h200-141gb", "accelerator_count": 8}
    ]
    assert made["metadata"] == {"items": [{"key": "startup-script", "value": "#!/bin/bash\n"}]}
    assert made["labels"] == {"slurm-flex-cluster": "c1", "slurm-flex-pool": "a3u"}


@pytest.mark.parametrize(("wanted", "granted"), [(30, 600), (600, 600), (7200, 7200)])
def test_a_short_life_is_the_shortest_that_is_granted(wanted: int, granted: int) -> None:
    pool = replace(GPU, run_duration=timedelta(seconds=wanted))

    assert properties(pool)["scheduling"]["max_run_duration"] == {"seconds": granted}


def test_the_clusters_and_the_pools_labels_are_on_the_vm_and_never_over_ours() -> None:
    cluster = replace(CLUSTER, labels={"team": "a", "slurm-flex-cluster": "forged"})
    pool = replace(GPU, labels={"team": "b", "cost": "x"})

    assert properties(pool, cluster)["labels"] == {
        "team": "b",
        "cost": "x",
        "slurm-flex-cluster": "c1",
        "slurm-flex-pool": "a3u",
    }


@pytest.mark.parametrize(
    ("machine_type", "disk"),
    [
        ("a3-ultragpu-8g", "hyperdisk-balanced"),
        ("a3-megagpu-8g", "pd-ssd"),
        ("a4-highgpu-8g", "hyperdisk-balanced"),
        ("h4d-standard-192", "hyperdisk-balanced"),
        ("n2-standard-8", "pd-ssd"),
        ("z9-unheard-of", "pd-ssd"),
    ],
)
def test_a_disk_without_a_type_has_its_familys(machine_type: str, disk: str) -> None:
    pool = replace(CPU, machine_type=machine_type)

    assert properties(pool)["disks"][0]["initialize_params"]["disk_type"] == disk


def test_a_disk_is_as_the_pool_says() -> None:
    pool = replace(GPU, boot_disk=BootDisk("pd-ssd", 200), node_image="projects/q/global/images/i")

    assert properties(pool)["disks"] == [
        {
            "boot": True,
            "auto_delete": True,
            "initialize_params": {
                "source_image": "projects/q/global/images/i",
                "disk_type": "pd-ssd",
                "disk_size_gb": 200,
            },
        }
    ]


def test_a_pool_without_any_image_is_refused_by_name() -> None:
    with pytest.raises(FlexError, match="a3u has no image") as caught:
        template_of(CLUSTER, Settings(), GPU)

    assert "node_image" in caught.value.fix


def test_a_startup_script_that_is_too_long_is_refused() -> None:
    with pytest.raises(FlexError, match="bytes"):
        properties(GPU, script="x" * (256 * 1024 + 1))


def test_only_a_pool_with_public_ips_has_an_external_address() -> None:
    with_nat = properties(replace(GPU, enable_public_ips=True))["network_interfaces"][0]

    assert with_nat["access_configs"] == [{"name": "External NAT", "type_": "ONE_TO_ONE_NAT"}]
    assert "access_configs" not in properties(GPU)["network_interfaces"][0]


def test_the_network_is_the_clusters_or_the_default() -> None:
    own = replace(
        CLUSTER,
        network="https://www.googleapis.com/compute/v1/projects/h/global/networks/n",
        subnetwork="projects/h/regions/us-central1/subnetworks/s",
        service_account="sa@p.iam.gserviceaccount.com",
    )

    assert properties(CPU)["network_interfaces"] == [{"network": "global/networks/default"}]
    assert properties(CPU)["service_accounts"][0]["email"] == "default"
    assert properties(CPU, own)["network_interfaces"] == [
        {
            "network": "projects/h/global/networks/n",
            "subnetwork": "projects/h/regions/us-central1/subnetworks/s",
        }
    ]
    assert properties(CPU, own)["service_accounts"][0]["email"] == "sa@p.iam.gserviceaccount.com"
    assert properties(GPU)["network_interfaces"][0]["nic_type"] == "GVNIC"


def test_plain_machines_migrate_and_gpus_dont() -> None:
    gpu = replace(GPU, provisioning_model=Provisioning.ON_DEMAND)

    assert properties(CPU)["scheduling"] == {
        "provisioning_model": "STANDARD",
        "on_host_maintenance": "MIGRATE",
        "automatic_restart": False,
    }
    assert properties(gpu)["scheduling"]["on_host_maintenance"] == "TERMINATE"
    assert properties(replace(CPU, is_login=True))["scheduling"]["automatic_restart"]


def test_a_spot_pool_is_preemptible() -> None:
    spot = properties(replace(GPU, provisioning_model=Provisioning.SPOT))["scheduling"]

    assert (spot["provisioning_model"], spot["preemptible"]) == ("SPOT", True)
    assert spot["instance_termination_action"] == "DELETE"


@pytest.mark.parametrize(
    ("machine_type", "model"),
    [("a3-ultragpu-8g", "RESERVATION_BOUND"), ("a3-megagpu-8g", "STANDARD")],
)
def test_a_reservation_is_consumed_by_name(machine_type: str, model: str) -> None:
    affinity = ReservationAffinity(
        "SPECIFIC_RESERVATION", "compute.googleapis.com/reservation-name", ("r1",)
    )
    made = properties(
        replace(
            GPU,
            machine_type=machine_type,
            provisioning_model=Provisioning.RESERVATION,
            reservation_affinity=affinity,
        )
    )

    assert made["reservation_affinity"] == {
        "consume_reservation_type": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["r1"],
    }
    assert made["scheduling"]["provisioning_model"] == model


def test_confidential_machines_say_so() -> None:
    made = properties(replace(CPU, confidential_instance_type="SEV_SNP"))

    assert made["confidential_instance_config"] == {
        "enable_confidential_compute": True,
        "confidential_instance_type": "SEV_SNP",
    }
    assert made["scheduling"]["on_host_maintenance"] == "TERMINATE"


def test_a_template_is_named_after_its_content() -> None:
    first = template_of(CLUSTER, SETTINGS, GPU)

    assert first.name == template_of(CLUSTER, SETTINGS, replace(GPU, max_node_count=99)).name
    assert first.name.startswith("c1-a3u-")
    assert len(first.name) == len("c1-a3u-") + 8
    others = {
        template_of(CLUSTER, SETTINGS, replace(GPU, labels={"a": "b"})).name,
        template_of(CLUSTER, SETTINGS, GPU, "#!/bin/sh\n").name,
        template_of(replace(CLUSTER, service_account="x@y"), SETTINGS, GPU).name,
        template_of(CLUSTER, SETTINGS, replace(GPU, run_duration=timedelta(days=1))).name,
    }
    assert len(others) == 4
    assert first.name not in others


@pytest.mark.parametrize("pool", [GPU, CPU, replace(CPU, enable_public_ips=True)])
def test_bodies_are_what_googles_library_takes(pool: Pool) -> None:
    template = template_of(CLUSTER, SETTINGS, pool, "#!/bin/sh\n")
    made = compute_v1.InstanceTemplate(template.body)
    group = compute_v1.InstanceGroupManager(dict(group_of(CLUSTER, pool, template).body))

    back = compute_v1.InstanceProperties.to_dict(made.properties)
    assert list(missing_parts(template.properties, back)) == []
    assert group.versions[0].instance_template.endswith(template.name)


def test_a_group_neither_repairs_nor_scales_nor_updates_by_itself() -> None:
    group = group_of(CLUSTER, GPU, template_of(CLUSTER, SETTINGS, GPU)).body

    assert group["target_size"] == 0
    assert group["instance_lifecycle_policy"] == {"default_action_on_failure": "DO_NOTHING"}
    assert group["update_policy"]["type_"] == "OPPORTUNISTIC"
    assert group["list_managed_instances_results"] == "PAGINATED"
    login = replace(CPU, is_login=True)
    kept = group_of(CLUSTER, login, template_of(CLUSTER, SETTINGS, login)).body
    assert kept["instance_lifecycle_policy"] == {"default_action_on_failure": "REPAIR"}


def test_what_somebody_hung_on_a_group_is_named_as_foreign() -> None:
    wanted = group_of(CLUSTER, GPU, template_of(CLUSTER, SETTINGS, GPU))
    found = {
        **wanted.body,
        "status": {"autoscaler": "https://x/projects/p/zones/z/autoscalers/greedy"},
        "auto_healing_policies": [{"health_check": "x"}],
        "versions": [{"instance_template": "https://x/global/instanceTemplates/c1-a3u-old"}],
    }

    seen = {item.path: item for item in differences(wanted, found)}

    assert seen["autoscaler"].foreign and seen["autoscaler"].found == "greedy"
    assert seen["auto_healing_policies"].foreign
    assert not seen["instance_template"].foreign
    assert seen["instance_template"].found == "c1-a3u-old"
    assert list(differences(wanted, wanted.body)) == []


def test_defaults_and_spelt_out_names_are_no_difference() -> None:
    wanted = {"a": {"size": 7, "on": False, "net": "global/networks/n"}, "list": ["x"]}
    found = {
        "a": {"size": "7", "net": "https://h/compute/v1/projects/p/global/networks/n", "more": 1},
        "list": ["x", "y"],
    }

    assert list(missing_parts(wanted, found)) == []
    changed = list(missing_parts(wanted, {"a": {"size": 8, "net": "n"}, "list": []}))
    assert [item.path for item in changed] == ["a.size", "a.net", "list[0]"]
    assert str(changed[0]) == "a.size: 8 -> 7"
