"""slurm-flex init: a few answers make two files that pass every check."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from slurm_flex.cluster import Provisioning, load_cluster
from slurm_flex.cluster.init import QUESTIONS, new_cluster, write_new
from slurm_flex.cluster.settings import Settings, load_settings
from slurm_flex.cluster.site import load_site
from slurm_flex.errors import InputErrors
from slurm_flex.render.conf import render_slurm_conf

FEWEST = {
    "project": "my-project",
    "home": "home1",
    "image": "projects/my-project/global/images/family/slurm",
}


def test_the_fewest_answers_make_a_cluster(tmp_path: Path) -> None:
    cluster_path, settings_path = write_new(new_cluster(FEWEST), tmp_path)
    site = load_site({"SLURM_FLEX_CONFIG": str(settings_path)})
    assert site.cluster == load_cluster(cluster_path)
    assert site.cluster.id == "train"
    assert site.cluster.project == "my-project"
    assert site.cluster.warnings == ()
    pool = site.cluster.pool("a3u")
    assert pool is not None
    assert pool.provisioning_model is Provisioning.FLEX_START
    assert (pool.accelerator_type, pool.boot_disk.type) == (
        "NVIDIA_H200_141GB",
        "hyperdisk-balanced",
    )
    home = "projects/my-project/locations/us-central1-b/instances/home1"
    assert site.cluster.slurm.home_directory_storage == home
    assert site.settings.node_image == FEWEST["image"]
    assert render_slurm_conf(site.cluster, site.settings, "24.11")


def test_slurm_user_can_read_what_root_writes_under_a_closed_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        paths = write_new(new_cluster(FEWEST), tmp_path / "etc")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o644, 0o644]
    assert stat.S_IMODE((tmp_path / "etc").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("machine", "pool", "model"),
    [
        ("a4-highgpu-8g", "a4h", "FLEX_START"),
        ("h4d-standard-192", "h4ds", "FLEX_START"),
        ("n2-standard-16", "n2s", "ON_DEMAND"),
        ("g2-standard-48", "g2s", "FLEX_START"),
    ],
)
def test_the_machine_type_says_model_disk_and_gpus(
    tmp_path: Path, machine: str, pool: str, model: str
) -> None:
    path, _ = write_new(new_cluster(FEWEST | {"machine-type": machine}), tmp_path)
    found = load_cluster(path).pool(pool)
    assert found is not None
    assert found.provisioning_model.value == model


def test_every_answer_arrives(tmp_path: Path) -> None:
    answers = FEWEST | {
        "zone": "europe-west4-b",
        "cluster": "c7",
        "max-nodes": "8",
        "min-nodes": "2",
        "duration": "36h",
        "pool": "gpu",
        "network": "vpc1",
        "subnetwork": "projects/host/regions/europe-west4/subnetworks/s1",
        "login-machine-type": "n2-standard-4",
        "key": "secret:projects/my-project/secrets/munge",
    }
    path, settings = write_new(new_cluster(answers), tmp_path)
    cluster = load_cluster(path)
    pool = cluster.pool("gpu")
    assert pool is not None
    assert (pool.min_node_count, pool.max_node_count) == (2, 8)
    assert pool.run_duration.total_seconds() == 36 * 3600
    assert cluster.region == "europe-west4"
    assert cluster.network.endswith("/networks/vpc1")
    assert cluster.subnetwork == "projects/host/regions/europe-west4/subnetworks/s1"
    assert cluster.login_pool is not None
    assert cluster.login_pool.machine_type == "n2-standard-4"
    assert load_settings(settings).key_source == answers["key"]
    assert set(answers) == {question.flag for question in QUESTIONS} - {"machine-type"}


def test_what_is_missing_or_no_number_is_told_at_once() -> None:
    with pytest.raises(InputErrors) as caught:
        new_cluster({"max-nodes": "many", "colour": "red", "duration": "soon"})
    assert [error.where for error in caught.value.errors] == [
        "--colour",
        "--project",
        "--home",
        "--image",
        "--max-nodes",
        "--duration",
    ]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"zone": "us-central1"}, "a zone such as"),
        ({"cluster": "My Cluster"}, "modelDevelopmentClusters/ID"),
        ({"min-nodes": "5"}, "min_node_count 5 > max_node_count 2"),
        ({"machine-type": "a3-ultragpu-9g"}, "did you mean a3-ultragpu-8g?"),
        ({"duration": "8d"}, '"30s" to "604800s"'),
        ({"key": "vault:x"}, 'not valid here (Where a node finds the key: "secret:projects/P/'),
        ({"image": "debian"}, "not valid here ("),
        ({"max-nodes": "9" * 5000}, "is not a number"),
        ({"max-nodes": "²"}, '"²" is not a number'),
    ],
)
def test_an_answer_that_does_not_do_is_told_as_in_the_file(
    answer: dict[str, str], words: str
) -> None:
    with pytest.raises(InputErrors) as caught:
        new_cluster(FEWEST | answer)
    assert words in str(caught.value)


def test_files_that_are_there_are_not_replaced(tmp_path: Path) -> None:
    new = new_cluster(FEWEST)
    (tmp_path / "slurm-flex.toml").write_text("# mine\n")
    with pytest.raises(InputErrors, match="is there already"):
        write_new(new, tmp_path)
    assert (tmp_path / "slurm-flex.toml").read_text() == "# mine\n"
    assert not (tmp_path / "cluster_config.json").exists()


def test_without_settings_the_file_is_all_defaults(tmp_path: Path) -> None:
    _, settings = write_new(new_cluster(FEWEST), tmp_path)
    assert load_settings(settings) == Settings(node_image=FEWEST["image"])
