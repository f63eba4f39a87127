"""Each row: one thing wrong with the example, where it is said to be, and what is said.

Exactly one error is expected for each: what only follows from a mistake is not a second one.
"""

from __future__ import annotations

import pytest
from cluster_files import FILESTORE, GONE, GPU, LOGIN, SLURM, changed

from slurm_flex.cluster import parse_cluster
from slurm_flex.cluster.reader import ClusterFileError
from slurm_flex.errors import InputErrors

RESERVED = {
    "type": "SPECIFIC_RESERVATION",
    "key": "compute.googleapis.com/reservation-name",
    "values": ["r1"],
}
MACHINE = f"{GPU}.machine_spec"
SCALING = f"{GPU}.scaling_spec"
PART = f"{SLURM}.partitions[0]"
DURATION = f"{GPU}.flex_start_max_duration"
NAME = "projects/example-project/locations/us-central1/modelDevelopmentClusters/"
NETWORK = "projects/example-project/global/networks/"
A_RESERVATION = [
    (f"{GPU}.provisioning_model", "RESERVATION"),
    (DURATION, GONE),
    (f"{MACHINE}.reservation_affinity", RESERVED),
]
CPU_POOL = {
    "id": "cpu",
    "machine_spec": {"machine_type": "n2-standard-8"},
    "scaling_spec": {"min_node_count": 0, "max_node_count": 4},
    "zone": "us-central1-b",
}
LONG_ID = "a" * 60

# what is wrong: (changes to the example, where, words of the message)
BROKEN = {
    # keys
    "misspelt key": ([("network.networks", "x")], "network.networks", "did you mean network?"),
    "unknown key in a pool": ([(f"{GPU}.gpus", 8)], f"{GPU}.gpus", "is not a known key"),
    "misspelt key in a pool": (
        [(f"{GPU}.flex_start_max_durations", "60s")],
        f"{GPU}.flex_start_max_durations",
        "did you mean flex_start_max_duration?",
    ),
    "key in the wrong case": ([(f"{GPU}.Zone", "x")], f"{GPU}.Zone", "did you mean zone?"),
    "key in both spellings": (
        [(f"{GPU}.enablePublicIps", True)],
        f"{GPU}.enablePublicIps",
        'says the same as "enable_public_ips"',
    ),
    "unknown key in slurm_spec": (
        [(f"{SLURM}.partition", [])],
        f"{SLURM}.partition",
        "partitions?",
    ),
    "GKE cluster": ([("orchestrator_spec.gke_spec", {})], "orchestrator_spec.gke_spec", "Slurm"),
    "Lustre export": ([("lustre_export_config", {})], "lustre_export_config", "export-data"),
    "TPU": ([(f"{MACHINE}.tpu_topology", "2x2")], f"{MACHINE}.tpu_topology", "no Slurm nodes"),
    # types
    "no pools": ([("node_pools", GONE)], "node_pools", "is missing"),
    "empty pools": ([("node_pools", [])], "node_pools", "is empty"),
    "pools that are no list": ([("node_pools", {})], "node_pools", "is not a list"),
    "pool that is no object": ([(GPU, "a3u")], GPU, "is not an object"),
    "count in words": (
        [(f"{SCALING}.max_node_count", "two")],
        f"{SCALING}.max_node_count",
        '"two"',
    ),
    "half a node": ([(f"{SCALING}.max_node_count", 1.5)], f"{SCALING}.max_node_count", "whole"),
    "negative count": ([(f"{SCALING}.min_node_count", -1)], f"{SCALING}.min_node_count", "range"),
    "true as a count": ([(f"{SCALING}.max_node_count", True)], f"{SCALING}.max_node_count", "true"),
    "yes as a flag": (
        [(f"{GPU}.enable_public_ips", "yes")],
        f"{GPU}.enable_public_ips",
        "is not true or false",
    ),
    "nodes beyond counting": (
        [(f"{SCALING}.max_node_count", "9" * 30)],
        f"{SCALING}.max_node_count",
        "0 to 65536",
    ),
    "number as a zone": ([(f"{GPU}.zone", 1)], f"{GPU}.zone", "is not text in quotes"),
    "object as a label": ([("labels", {"team": {}})], 'labels["team"]', "is not text in quotes"),
    "disk size in words": (
        [(f"{GPU}.boot_disk.boot_disk_size_gb", "200GB")],
        f"{GPU}.boot_disk.boot_disk_size_gb",
        "is not a whole number",
    ),
    # ids and names
    "no cluster id": ([("display_name", GONE)], "display_name", "is missing"),
    "id in capitals": ([("display_name", "Train")], "display_name", "prefix of VM names"),
    "id that Google refuses": ([("name", f"{NAME}train-one")], "name", "at most 10"),
    "display name too long": ([("display_name", "x" * 129)], "display_name", "at most 128"),
    "name that is no name": ([("name", "projects/p")], "name", "modelDevelopmentClusters/ID"),
    "pool without an id": ([(f"{GPU}.id", GONE)], f"{GPU}.id", "is missing"),
    "pool id with _": ([(f"{GPU}.id", "a3_u")], f"{GPU}.id", "lower-case letters"),
    "same pool id twice": (
        [("node_pools[2]", CPU_POOL | {"id": "a3u"})],
        "node_pools[2].id",
        "already the id of node_pools[1]",
    ),
    "names too long": (
        [(f"{GPU}.id", LONG_ID), (f"{PART}.node_pool_ids", [LONG_ID])],
        f"{GPU}.id",
        "shorter",
    ),
    "label in capitals": ([("labels", {"team": "ML"})], 'labels["team"]', '"ML" is not valid'),
    "label of slurm-flex's own": (
        [("labels", {"slurm-flex-cluster": "other"})],
        'labels["slurm-flex-cluster"]',
        "is slurm-flex's own",
    ),
    "labels beyond what a VM takes": (
        [(f"{GPU}.labels", {f"l{n}": "x" for n in range(63)})],
        f"{GPU}.labels",
        "63 labels, the cluster's included (at most 62)",
    ),
    "display name with an escape": (
        [("display_name", "demo\x1b[31m")],
        "display_name",
        "has the character U+001B in it",
    ),
    "script that can't be written": (
        [(f"{GPU}.startup_script", "echo \ud800")],
        f"{GPU}.startup_script",
        "has the character U+D800 in it",
    ),
    "script with a NUL": (
        [(f"{SLURM}.prolog_bash_scripts", ["echo\0"])],
        f"{SLURM}.prolog_bash_scripts[0]",
        "has the character U+0000 in it",
    ),
    # placeholders
    "placeholder project": (
        [("name", NAME.replace("example-project", "<project-id>"))],
        "name",
        "<project-id> still has to be filled in",
    ),
    "shouted placeholder": (
        [("name", NAME.replace("example-project", "PROJECT_ID"))],
        "name",
        "PROJECT_ID still has to be filled in",
    ),
    "placeholder network": (
        [("network.network", f"{NETWORK}<network>")],
        "network.network",
        "<network> still has to be filled in",
    ),
    "placeholder zone": ([(f"{GPU}.zone", "ZONE")], f"{GPU}.zone", "ZONE still has to be"),
    "placeholder count": (
        [(f"{SCALING}.max_node_count", "<max>")],
        f"{SCALING}.max_node_count",
        "<max> still has to be filled in",
    ),
    "placeholder model": (
        [(f"{GPU}.provisioning_model", "<model>"), (DURATION, GONE)],
        f"{GPU}.provisioning_model",
        "<model> still has to be filled in (one of FLEX_START",
    ),
    # the network
    "short network name": ([("network.network", "default")], "network.network", "/networks/NAME"),
    "subnetwork of no region": (
        [("network.subnetwork", "projects/p/subnetworks/s")],
        "network.subnetwork",
        "projects/PROJECT/regions/REGION",
    ),
    "zone elsewhere": ([(f"{GPU}.zone", "europe-west4-a")], f"{GPU}.zone", "region us-central1"),
    "region as a zone": ([(f"{GPU}.zone", "us-central1")], f"{GPU}.zone", "a zone such as"),
    "service account that is none": (
        [("runtime_spec.service_account", "me@example.org")],
        "runtime_spec.service_account",
        "gserviceaccount.com",
    ),
    # a pool's model
    "STANDARD": (
        [(f"{GPU}.provisioning_model", "STANDARD")],
        f"{GPU}.provisioning_model",
        "one of FLEX_START, ON_DEMAND, SPOT, RESERVATION",
    ),
    "model in lower case": (
        [(f"{GPU}.provisioning_model", "flex-start")],
        f"{GPU}.provisioning_model",
        "did you mean FLEX_START?",
    ),
    "GPU without a model": (
        [(f"{GPU}.provisioning_model", GONE)],
        f"{GPU}.provisioning_model",
        "is missing on a GPU pool",
    ),
    "Flex-start for a CPU machine": (
        [(MACHINE, {"machine_type": "n2-standard-8"})],
        f"{GPU}.provisioning_model",
        "Flex-start is for GPU machines",
    ),
    "GPU with an empty model": (
        [(f"{GPU}.provisioning_model", "")],
        f"{GPU}.provisioning_model",
        "is missing on a GPU pool",
    ),
    "duration without Flex-start": (
        [(f"{GPU}.provisioning_model", "SPOT")],
        DURATION,
        "has no meaning in a SPOT pool",
    ),
    "duration too long": ([(DURATION, "604801s")], DURATION, '"30s" to "604800s"'),
    "duration too short": ([(DURATION, "29s")], DURATION, '"30s" to "604800s"'),
    "duration in days": ([(DURATION, "7d")], DURATION, '"30s" to "604800s"'),
    "duration as a number": ([(DURATION, 604800)], DURATION, "seconds in quotes"),
    "affinity with Flex-start": (
        [(f"{MACHINE}.reservation_affinity", RESERVED)],
        f"{MACHINE}.reservation_affinity",
        "has no place in a FLEX_START pool",
    ),
    "reservation without affinity": (
        [(f"{GPU}.provisioning_model", "RESERVATION"), (DURATION, GONE)],
        f"{MACHINE}.reservation_affinity",
        "is missing in a RESERVATION pool",
    ),
    "reservation without a name": (
        [*A_RESERVATION, (f"{MACHINE}.reservation_affinity.values", [])],
        f"{MACHINE}.reservation_affinity.values",
        "is missing",
    ),
    "reservation under a wrong key": (
        [*A_RESERVATION, (f"{MACHINE}.reservation_affinity.key", "name")],
        f"{MACHINE}.reservation_affinity.key",
        "compute.googleapis.com/reservation-name",
    ),
    # machines and disks
    "no machine": ([(MACHINE, GONE)], MACHINE, "is missing"),
    "machine that isn't": (
        [(f"{MACHINE}.machine_type", "a3-ultragpu-4g")],
        f"{MACHINE}.machine_type",
        "did you mean a3-ultragpu-8g?",
    ),
    "too few GPUs": (
        [(f"{MACHINE}.accelerator_count", 4)],
        f"{MACHINE}.accelerator_count",
        "has 8 GPUs, not 4",
    ),
    "other GPUs": (
        [(f"{MACHINE}.accelerator_type", "NVIDIA_B200")],
        f"{MACHINE}.accelerator_type",
        "NVIDIA_H200_141GB",
    ),
    "GPUs without a kind": (
        [(MACHINE, {"machine_type": "n1-standard-8", "accelerator_count": 1})],
        f"{MACHINE}.accelerator_type",
        "is missing",
    ),
    "pd-standard under a GPU": (
        [(f"{GPU}.boot_disk.boot_disk_type", "pd-standard")],
        f"{GPU}.boot_disk.boot_disk_type",
        "can't boot from pd-standard",
    ),
    "unknown disk": (
        [(f"{GPU}.boot_disk.boot_disk_type", "pd_ssd")],
        f"{GPU}.boot_disk.boot_disk_type",
        "did you mean pd-ssd?",
    ),
    "image by a short name": ([(f"{GPU}.node_image", "debian-12")], f"{GPU}.node_image", "images/"),
    "unknown confidential type": (
        [(f"{GPU}.confidential_instance_config.confidential_instance_type", "SGX")],
        f"{GPU}.confidential_instance_config.confidential_instance_type",
        "one of SEV, SEV_SNP, TDX",
    ),
    # sizes
    "min above max": ([(f"{SCALING}.min_node_count", 3)], SCALING, "min_node_count 3 > max_node"),
    "too many nodes": (
        [(f"{SCALING}.max_node_count", 2001)],
        f"{SCALING}.max_node_count",
        "at most 2000",
    ),
    "no max": ([(f"{SCALING}.max_node_count", GONE)], f"{SCALING}.max_node_count", "is missing"),
    # references
    "partition over a pool that isn't": (
        [(f"{PART}.node_pool_ids", ["a3"])],
        f"{PART}.node_pool_ids[0]",
        "did you mean a3u?",
    ),
    "partition over the login pool": (
        [(f"{PART}.node_pool_ids", ["a3u", "login"])],
        f"{PART}.node_pool_ids[1]",
        "is the login pool",
    ),
    "partition over a pool that can't be": (
        [(f"{PART}.node_pool_ids", ["a3_u"])],
        f"{PART}.node_pool_ids[0]",
        "lower-case letters",
    ),
    "pool twice in a partition": (
        [(f"{PART}.node_pool_ids", ["a3u", "a3u"])],
        f"{PART}.node_pool_ids[1]",
        "twice",
    ),
    "partition without pools": ([(f"{PART}.node_pool_ids", [])], f"{PART}.node_pool_ids", "empty"),
    "no partitions": ([(f"{SLURM}.partitions", GONE)], f"{SLURM}.partitions", "is missing"),
    "empty partitions": ([(f"{SLURM}.partitions", [])], f"{SLURM}.partitions", "is empty"),
    "partition twice": (
        [(f"{SLURM}.partitions[1]", {"id": "a3u", "node_pool_ids": ["a3u"]})],
        f"{SLURM}.partitions[1].id",
        "twice",
    ),
    "partition called DEFAULT": ([(f"{PART}.id", "default")], f"{PART}.id", "something else"),
    "default partition that isn't": (
        [(f"{SLURM}.default_partition_id", "a3")],
        f"{SLURM}.default_partition_id",
        "did you mean a3u?",
    ),
    "node set for no pool": (
        [(f"{SLURM}.node_sets", [{"node_pool_id": "gpu"}])],
        f"{SLURM}.node_sets[0].node_pool_id",
        "the pools are login, a3u",
    ),
    "two node sets for a pool": (
        [(f"{SLURM}.node_sets", [{"node_pool_id": "a3u"}, {"node_pool_id": "a3u"}])],
        f"{SLURM}.node_sets[1].node_pool_id",
        "has a node set already",
    ),
    "no home": (
        [(f"{SLURM}.home_directory_storage", GONE)],
        f"{SLURM}.home_directory_storage",
        "is missing",
    ),
    "home that is no instance": (
        [(f"{SLURM}.home_directory_storage", "10.0.0.2:/home")],
        f"{SLURM}.home_directory_storage",
        "/instances/NAME",
    ),
    "filestore that is no instance": (
        [(f"{GPU}.filestores", [FILESTORE, "nfs"])],
        f"{GPU}.filestores[1]",
        "/instances/NAME",
    ),
    "filestore without a name": (
        [(f"{GPU}.filestores", [""])],
        f"{GPU}.filestores[0]",
        "is empty",
    ),
    "filestore twice": (
        [(f"{GPU}.filestores", [FILESTORE, f"https://file.googleapis.com/v1/{FILESTORE}"])],
        f"{GPU}.filestores[1]",
        "is there twice",
    ),
    "two file systems in one place": (
        [(f"{GPU}.lustres", [FILESTORE, FILESTORE.replace("us-central1-b", "us-central1-c")])],
        f"{GPU}.lustres[1]",
        "would be mounted at /mnt/lustre/",
    ),
    "no login pool": (
        [(f"{SLURM}.login_node_pool_id", GONE)],
        f"{SLURM}.login_node_pool_id",
        "is missing",
    ),
    "login pool that isn't": (
        [(f"{SLURM}.login_node_pool_id", "logins")],
        f"{SLURM}.login_node_pool_id",
        "did you mean login?",
    ),
    "login pool that ends": (
        [(f"{LOGIN}.provisioning_model", "SPOT")],
        f"{LOGIN}.provisioning_model",
        "can't be SPOT",
    ),
    "login pool of two sizes": (
        [(f"{LOGIN}.scaling_spec.max_node_count", 2)],
        f"{LOGIN}.scaling_spec",
        "has one size",
    ),
    # Slurm's own parameters
    "misspelt Slurm parameter": (
        [(f"{SLURM}.config", {"SchedulerParams": "x"})],
        f'{SLURM}.config["SchedulerParams"]',
        "did you mean SchedulerParameters?",
    ),
    "reserved Slurm parameter": (
        [(f"{SLURM}.config", {"resumetimeout": "60"})],
        f'{SLURM}.config["resumetimeout"]',
        "set resume_timeout in slurm-flex.toml",
    ),
    "Slurm parameter in both cases": (
        [(f"{SLURM}.config", {"TreeWidth": "5", "treewidth": "6"})],
        f'{SLURM}.config["treewidth"]',
        'is "TreeWidth" again',
    ),
    "Slurm parameter in two places": (
        [
            (f"{SLURM}.config", {"PriorityWeightAge": "5"}),
            (f"{SLURM}.scheduling", {"priority_weight_age": 6}),
        ],
        f'{SLURM}.config["PriorityWeightAge"]',
        "the block scheduling",
    ),
    "Slurm parameter without a value": (
        [(f"{SLURM}.config", {"TreeWidth": ""})],
        f'{SLURM}.config["TreeWidth"]',
        "one line, not empty, without #",
    ),
    "Slurm parameter on two lines": (
        [(f"{SLURM}.config", {"MailProg": "/bin/mail\u2028Include x"})],
        f'{SLURM}.config["MailProg"]',
        "has the character U+2028 in it",
    ),
    "Slurm parameter that is a list": (
        [(f"{SLURM}.config", {"TreeWidth": [5]})],
        f'{SLURM}.config["TreeWidth"]',
        "a list is not text in quotes",
    ),
    "Default in a partition": (
        [(f"{PART}.config", {"Default": "YES"})],
        f'{PART}.config["Default"]',
        "default_partition_id says which",
    ),
    "node parameter in a partition": (
        [(f"{PART}.config", {"RealMemory": "5"})],
        f'{PART}.config["RealMemory"]',
        "is no parameter of a partition (it belongs in node_sets[].config)",
    ),
    "State in a node set": (
        [(f"{SLURM}.node_sets", [{"node_pool_id": "a3u", "config": {"State": "CLOUD"}}])],
        f'{SLURM}.node_sets[0].config["State"]',
        "is reserved",
    ),
    "two parameters in one": (
        [(f"{PART}.config", {"PriorityTier": "5 Hidden=YES"})],
        f'{PART}.config["PriorityTier"]',
        "has a blank in it",
    ),
    "empty prolog": (
        [(f"{SLURM}.prolog_bash_scripts", [""])],
        f"{SLURM}.prolog_bash_scripts[0]",
        "is empty",
    ),
    "priority plugin that isn't": (
        [(f"{SLURM}.scheduling.priority_type", "priority/multifator")],
        f"{SLURM}.scheduling.priority_type",
        "did you mean priority/multifactor?",
    ),
    "preemption plugin that isn't": (
        [(f"{SLURM}.scheduling.preempt_type", "partition_prio")],
        f"{SLURM}.scheduling.preempt_type",
        "one of preempt/none, preempt/partition_prio, preempt/qos",
    ),
    "preemption that isn't": (
        [(f"{SLURM}.scheduling.preempt_mode", "REQUEUE,KILL")],
        f"{SLURM}.scheduling.preempt_mode",
        "OFF, CANCEL, GANG, REQUEUE, SUSPEND, WITHIN or a list",
    ),
    "time that is none": (
        [(f"{SLURM}.scheduling.preempt_exempt_time", "::")],
        f"{SLURM}.scheduling.preempt_exempt_time",
        "a Slurm time such as 00:10:00",
    ),
    "enforcement that isn't": (
        [(f"{SLURM}.accounting", {"accounting_storage_enforce": "association,limits"})],
        f"{SLURM}.accounting.accounting_storage_enforce",
        "a list of all, associations, limits",
    ),
    "weight in words": (
        [(f"{SLURM}.scheduling.priority_weight_age", "much")],
        f"{SLURM}.scheduling.priority_weight_age",
        "is not a whole number",
    ),
}


@pytest.mark.parametrize(("changes", "path", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_cluster_file_is_told_what_is_wrong_and_where(
    changes: list[tuple[str, object]], path: str, words: str
) -> None:
    with pytest.raises(InputErrors) as caught:
        parse_cluster(changed(*changes))
    said = [str(error) for error in caught.value.errors]
    assert len(said) == 1, said
    error = caught.value.errors[0]
    assert isinstance(error, ClusterFileError)
    assert error.path == path
    assert words in said[0]
    # What is allowed, or what to do; a wrong type says so by itself.
    assert error.fix or " is not " in error.what


def test_there_are_at_least_sixty_broken_variants() -> None:
    assert len(BROKEN) >= 60


def test_all_errors_come_at_once() -> None:
    with pytest.raises(InputErrors) as caught:
        parse_cluster(
            changed(
                ("name", "projects/<project-id>/locations/<region>/modelDevelopmentClusters/"),
                ("node_pols", []),
                (f"{GPU}.zone", "nowhere"),
                (f"{SLURM}.login_node_pool_id", "logins"),
                (f"{SLURM}.default_partition_id", "x"),
            )
        )
    said = str(caught.value)
    for words in ("<project-id>, <region>", "node_pols", "nowhere", "logins", 'partition "x"'):
        assert words in said
    assert len(caught.value.errors) == 5
