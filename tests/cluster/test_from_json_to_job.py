"""The guide's own example, from its JSON to a job that ran, by the commands of docs/setup.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from slurm_flex.demo.world_space import REPOSITORY
from tests.cluster.fresh import Fresh

pytestmark = pytest.mark.cluster

# Slurm sees that a job's nodes are up on a tick of 30 s.
TICK = timedelta(seconds=90)


@pytest.fixture
def site(release: str) -> Iterator[Fresh]:
    with Fresh(release) as fresh:
        yield fresh


def test_the_guides_example_goes_from_json_to_a_job_that_ran(site: Fresh) -> None:
    example = (REPOSITORY / "etc/cluster_config.json").read_text()
    site.cluster_file.write_text(example)
    site.write_settings()

    site.flex("render", "--full", "--release", site.release)
    site.fit_onto_one_machine()
    site.start_slurm("demo-a3u-[0-1]")
    assert "fits" in site.flex("render", "--check")
    site.flex("apply")
    before = json.loads(site.flex("doctor", "--json", code=1))
    assert [check["name"] for check in before if check["status"] == "error"] == ["daemon"]
    site.daemon.start()
    after = json.loads(site.flex("doctor", "--json"))
    assert {check["status"] for check in after} == {"ok"}

    job = site.slurm.sbatch(
        "--gres=gpu:8",
        script="#!/bin/sh\nsrun sh -c 'echo $SLURMD_NODENAME has $CUDA_VISIBLE_DEVICES'\n",
    )
    site.slurm.wait_for_job(job, "COMPLETED", TICK)
    assert site.slurm.output(job) == "demo-a3u-0 has 0,1,2,3,4,5,6,7\n"
    assert "slurmd runs as demo-a3u-0" in site.console("demo-a3u-0")
