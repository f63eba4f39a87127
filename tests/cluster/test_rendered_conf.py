"""What is rendered, given to the parsers of the releases that Debian carries."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from slurm_flex.cluster import parse_cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.demo.release_tree import host_release, release_tree
from slurm_flex.render.full import render_full
from slurm_flex.render.oracle import ask_parser_about, installed_release
from slurm_flex.render.site_check import check_site

pytestmark = pytest.mark.cluster

EXAMPLE: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "etc" / "cluster_config.json").read_text()
)
ALL_RELEASES = ("22.05", "24.11", "26.05")


def a_rich_cluster() -> dict[str, Any]:
    """The example with static nodes, a second pool, and something in every block."""
    data = copy.deepcopy(EXAMPLE)
    data["node_pools"][1]["scaling_spec"] = {"min_node_count": 2, "max_node_count": 16}
    data["node_pools"].append(
        {
            "id": "hpc",
            "machine_spec": {"machine_type": "h4d-standard-192"},
            "provisioning_model": "FLEX_START",
            "flex_start_max_duration": "86400s",
            "scaling_spec": {"min_node_count": 0, "max_node_count": 100},
            "zone": "us-central1-b",
        }
    )
    data["orchestrator_spec"]["slurm_spec"] |= {
        "partitions": [
            {"id": "a3u", "node_pool_ids": ["a3u"], "config": {"PriorityTier": 10}},
            {"id": "both", "node_pool_ids": ["a3u", "hpc"]},
        ],
        "default_partition_id": "both",
        "node_sets": [
            {"node_pool_id": "hpc", "config": {"Features": "rdma", "MemSpecLimit": 4096}}
        ],
        "config": {"SchedulerParameters": "bf_interval=60", "MinJobAge": 600},
        "scheduling": {
            "priority_type": "priority/multifactor",
            "priority_weight_tres": "CPU=1,GRES/gpu=2",
            "preempt_type": "preempt/partition_prio",
            "preempt_mode": "REQUEUE",
        },
        "accounting": {"accounting_storage_enforce": "limits"},
        "prolog_bash_scripts": ["#!/bin/bash\ntrue\n"],
        "task_epilog_bash_scripts": ["true"],
    }
    return data


@pytest.mark.parametrize("release", ALL_RELEASES)
@pytest.mark.parametrize("data", [EXAMPLE, a_rich_cluster()], ids=["example", "rich"])
def test_the_parser_of_each_release_takes_it(
    release: str, data: dict[str, Any], tmp_path: Path
) -> None:
    root = Path("/") if release == host_release() else release_tree(release)
    scontrol = ["scontrol"] if root == Path("/") else ["chroot", str(root), "/usr/bin/scontrol"]
    assert str(installed_release(scontrol, root)) == release
    cluster = parse_cluster(data)
    files = render_full(cluster, Settings(default_time="1:00:00"), release, "localhost")
    files["slurm.conf"] = files["slurm.conf"].replace("SlurmUser=slurm", "SlurmUser=root")

    assert ask_parser_about(files, scontrol=scontrol, root=root) == []

    for name, text in files.items():
        (tmp_path / name).write_text(text)
    settings = Settings(default_time="1:00:00")
    findings = check_site(cluster, settings, release, tmp_path / "slurm.conf")
    # The cluster file's own SchedulerParameters lack an option; everything else is as it must be.
    assert [finding.line.partition("=")[0] for finding in findings] == (
        ["SchedulerParameters"] if data is not EXAMPLE else []
    )
