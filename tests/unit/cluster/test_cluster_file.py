"""A cluster file that is right: what is read from it, in which spellings, and what it means."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from cluster_files import EXAMPLE, FILESTORE, GONE, GPU, LOGIN, SLURM, changed, example

from slurm_flex.cluster import Place, Provisioning, load_cluster, parse_cluster
from slurm_flex.errors import InputErrors

MACHINE = f"{GPU}.machine_spec"


def _camel(value: object) -> object:
    """A whole file in camelCase, keys of labels and config aside (the example has none)."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    parts = {key: key.split("_") for key in value}
    return {
        head + "".join(part.capitalize() for part in rest): _camel(value[key])
        for key, (head, *rest) in parts.items()
    }


def test_the_example_loads_as_it_is() -> None:
    cluster = load_cluster(EXAMPLE)
    assert (cluster.id, cluster.project, cluster.region) == (
        "demo",
        "example-project",
        "us-central1",
    )
    assert [pool.id for pool in cluster.pools] == ["login", "a3u"]
    assert [pool.id for pool in cluster.compute_pools] == ["a3u"]
    gpu = cluster.pool("a3u")
    assert gpu is not None
    assert gpu.provisioning_model is Provisioning.FLEX_START
    assert gpu.run_duration == timedelta(days=7)
    assert (gpu.min_node_count, gpu.max_node_count) == (0, 2)
    assert gpu.enable_public_ips is True
    assert (gpu.accelerator_type, gpu.accelerator_count) == ("NVIDIA_H200_141GB", 8)
    assert cluster.default_partition == "a3u"
    assert cluster.warnings == ()


def test_camel_case_says_the_same() -> None:
    assert parse_cluster(_camel(example())) == load_cluster(EXAMPLE)


def test_the_reservation_affinity_of_googles_pages_is_understood() -> None:
    affinity = {
        "reservationAffinityType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["r1", "r1/blocks/b1"],
    }
    cluster = parse_cluster(
        changed(
            (f"{MACHINE}.reservation_affinity", affinity),
            (f"{GPU}.provisioning_model", GONE),
            (f"{GPU}.flex_start_max_duration", GONE),
        )
    )
    pool = cluster.pool("a3u")
    assert pool is not None
    assert pool.provisioning_model is Provisioning.RESERVATION
    assert pool.reservation_affinity is not None
    assert pool.reservation_affinity.values == ("r1", "r1/blocks/b1")


def test_a_cpu_pool_without_a_model_is_on_demand() -> None:
    pool = load_cluster(EXAMPLE).pool("login")
    assert pool is not None
    assert pool.provisioning_model is Provisioning.ON_DEMAND


def test_a_gpu_machine_has_its_gpus_also_where_the_file_does_not_say_so() -> None:
    pool = parse_cluster(changed((MACHINE, {"machine_type": "a4-highgpu-8g"}))).pool("a3u")
    assert pool is not None
    assert (pool.accelerator_type, pool.accelerator_count) == ("NVIDIA_B200", 8)


def test_names_and_places_come_from_a_table() -> None:
    cluster = parse_cluster(changed((f"{GPU}.scaling_spec.min_node_count", 1)))
    assert cluster.node_names("a3u") == ("demo-a3u-0", "demo-a3u-1")
    assert cluster.group_name("a3u") == "demo-a3u"
    assert cluster.locate("demo-a3u-0") == Place("a3u", 0, static=True)
    assert cluster.locate("demo-a3u-1") == Place("a3u", 1, static=False)
    assert cluster.locate("demo-login-0") == Place("login", 0, static=True)
    assert cluster.locate("demo-a3u-2") is None
    assert cluster.locate("demo-a3u-01") is None


def test_pool_ids_with_numbers_and_hyphens_are_told_apart() -> None:
    pool = example()["node_pools"][1]
    cluster = parse_cluster(
        changed(
            ("node_pools[2]", pool | {"id": "a3u-1"}), ("node_pools[3]", pool | {"id": "a3u-1-0"})
        )
    )
    assert cluster.locate("demo-a3u-1") == Place("a3u", 1, static=False)
    assert cluster.locate("demo-a3u-1-0") == Place("a3u-1", 0, static=False)
    assert cluster.locate("demo-a3u-1-0-1") == Place("a3u-1-0", 1, static=False)


def test_the_last_part_of_the_name_is_the_id() -> None:
    name = example()["name"]
    assert parse_cluster(changed(("name", f"{name}train1"))).id == "train1"
    assert parse_cluster(changed(("name", GONE))).id == "demo"


def test_an_id_that_only_google_would_refuse_is_a_warning() -> None:
    cluster = parse_cluster(changed(("display_name", "my-first-cluster")))
    assert cluster.id == "my-first-cluster"
    assert len(cluster.warnings) == 1
    assert "at most 10" in cluster.warnings[0]


def test_the_region_is_that_of_the_zones_where_there_is_no_name() -> None:
    assert parse_cluster(changed(("name", GONE))).region == "us-central1"


def test_a_pool_that_no_job_can_reach_is_a_warning() -> None:
    extra = example()["node_pools"][1] | {"id": "spare"}
    cluster = parse_cluster(changed(("node_pools[2]", extra)))
    assert cluster.warnings == ("the pool spare is in no partition: no job can reach it",)


def test_a_duration_below_googles_ten_minutes_is_taken_with_a_warning() -> None:
    cluster = parse_cluster(changed((f"{GPU}.flex_start_max_duration", "30s")))
    pool = cluster.pool("a3u")
    assert pool is not None
    assert pool.run_duration == timedelta(seconds=30)
    assert "no less than 10 minutes" in cluster.warnings[0]


def test_counts_may_be_strings_of_digits() -> None:
    pool = parse_cluster(changed((f"{GPU}.scaling_spec.max_node_count", "2"))).pool("a3u")
    assert pool is not None
    assert pool.max_node_count == 2


def test_what_the_api_puts_out_may_stay_in_the_file() -> None:
    seen = changed(
        ("cluster_status", {"state": "RUNNING"}),
        ("nodes_status", []),
        ("$schema", "./cluster_config.schema.json"),  # for editors
        (f"{GPU}.effective_flex_start_max_duration", "604800s"),
    )
    assert parse_cluster(seen) == load_cluster(EXAMPLE)


def test_null_is_absent() -> None:
    assert parse_cluster(changed((f"{GPU}.node_image", None), ("labels", None))) == load_cluster(
        EXAMPLE
    )


def test_every_field_arrives() -> None:
    image = "projects/p/global/images/family/slurm"
    cluster = parse_cluster(
        changed(
            ("labels", {"team": "ml"}),
            ("runtime_spec", {"service_account": "n@p.iam.gserviceaccount.com"}),
            (f"{GPU}.node_image", image),
            (f"{GPU}.startup_script", "#!/bin/sh\necho <b>\n"),
            (f"{GPU}.filestores", [FILESTORE]),
            (f"{GPU}.lustres", [FILESTORE]),
            (f"{GPU}.labels", {"cost": "a"}),
            (
                f"{LOGIN}.confidential_instance_config",
                {"confidential_instance_type": "SEV"},
            ),
            (f"{SLURM}.config", {"SchedulerParameters": "sched_interval=5", "FirstJobId": 100}),
            (f"{SLURM}.partitions[0].config", {"PriorityTier": 10}),
            (f"{SLURM}.node_sets", [{"node_pool_id": "a3u", "config": {"Weight": "5"}}]),
            (f"{SLURM}.prolog_bash_scripts", ["#!/bin/bash\ntrue\n"]),
            (f"{SLURM}.epilog_bash_scripts", ["#!/bin/bash\nfalse\n"]),
            (f"{SLURM}.task_prolog_bash_scripts", ["true"]),
            (f"{SLURM}.task_epilog_bash_scripts", ["true"]),
            (f"{SLURM}.accounting", {"accounting_storage_enforce": "limits,qos"}),
            (f"{SLURM}.scheduling", {"priority_type": "priority/multifactor"}),
        )
    )
    pool, slurm = cluster.pool("a3u"), cluster.slurm
    assert pool is not None
    assert cluster.labels == {"team": "ml"}
    assert cluster.service_account == "n@p.iam.gserviceaccount.com"
    assert pool.node_image == image
    assert pool.startup_script.startswith("#!/bin/sh")
    assert pool.filestores == pool.lustres == (FILESTORE,)
    assert pool.labels == {"cost": "a"}
    assert cluster.pools[0].confidential_instance_type == "SEV"
    assert slurm.config == {"SchedulerParameters": "sched_interval=5", "FirstJobId": "100"}
    assert cluster.partitions[0].config == {"PriorityTier": "10"}
    assert slurm.node_sets[0].config == {"Weight": "5"}
    assert slurm.prolog_bash_scripts and slurm.epilog_bash_scripts
    assert slurm.task_prolog_bash_scripts == slurm.task_epilog_bash_scripts == ("true",)
    assert slurm.accounting_storage_enforce == "limits,qos"
    assert slurm.scheduling == {"priority_type": "priority/multifactor"}


def test_a_cluster_keeps_the_json_it_came_from() -> None:
    cluster = load_cluster(EXAMPLE)
    again = json.loads(json.dumps(cluster.source))
    assert again == example()
    assert parse_cluster(again) == cluster


def test_clusters_can_be_compared_and_hashed() -> None:
    first, second = load_cluster(EXAMPLE), load_cluster(EXAMPLE)
    assert first == second
    assert hash(first) == hash(second)
    assert first != parse_cluster(changed((f"{GPU}.scaling_spec.max_node_count", 1)))


class TestLenientReading:
    def test_a_snapshot_by_hand_needs_almost_nothing(self) -> None:
        cluster = parse_cluster(
            {
                "display_name": "c1",
                "node_pools": [
                    {
                        "id": "gx",
                        "provisioning_model": "FLEX_START",
                        "scaling_spec": {"min_node_count": 0, "max_node_count": 4},
                    }
                ],
                "orchestrator_spec": {"slurm_spec": {}},
            },
            lenient=True,
        )
        assert cluster.node_names("gx")[3] == "c1-gx-3"
        assert cluster.partitions[0].node_pool_ids == ("gx",)

    def test_a_cluster_without_pools_is_one(self) -> None:
        data = {"display_name": "c1", "node_pools": [], "orchestrator_spec": {"slurm_spec": {}}}
        assert parse_cluster(data, lenient=True).pools == ()

    def test_a_pool_without_a_model_is_flex_start_but_a_login_pool_is_not(self) -> None:
        data = {
            "node_pools": [{"id": "gx"}, {"id": "login"}],
            "orchestrator_spec": {"slurm_spec": {"login_node_pool_id": "login"}},
        }
        models = [pool.provisioning_model.value for pool in parse_cluster(data, lenient=True).pools]
        assert models == ["FLEX_START", "ON_DEMAND"]

    def test_placeholders_pass(self) -> None:
        data = changed(
            ("name", "projects/<project-id>/locations/<region>/modelDevelopmentClusters/"),
            (f"{GPU}.zone", "<zone>"),
            (f"{GPU}.scaling_spec.max_node_count", "<max>"),
        )
        assert parse_cluster(data, lenient=True).id == "demo"

    @pytest.mark.parametrize(
        ("data", "path"),
        [
            ({"node_pools": [{"id": "gx", "max_nodes": 3}]}, "node_pools[0].max_nodes"),
            ({"node_pools": [{"id": "gx", "zone": 5}]}, "node_pools[0].zone"),
            ({"node_pools": [{"zone": "us-central1-a"}]}, "node_pools[0].id"),
            ({"node_pools": [{"id": "gx"}, {"id": "gx"}]}, "node_pools[1].id"),
            ({"node_pools": 3}, "node_pools"),
            ({"display_name": "Bad Id"}, "display_name"),
        ],
    )
    def test_unknown_keys_and_wrong_types_are_errors_all_the_same(
        self, data: dict[str, object], path: str
    ) -> None:
        with pytest.raises(InputErrors) as caught:
            parse_cluster(data, lenient=True)
        assert [getattr(error, "path", "") for error in caught.value.errors] == [path]


class TestTheFileItself:
    def test_a_missing_file_says_how_to_get_one(self, tmp_path: Path) -> None:
        with pytest.raises(InputErrors, match="slurm-flex init"):
            load_cluster(tmp_path / "none.json")

    def test_a_syntax_error_names_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "c.json"
        path.write_text('{\n "name": "x",\n "node_pools": [,]\n}')
        with pytest.raises(InputErrors, match=r"c\.json:3: is not JSON"):
            load_cluster(path)

    def test_a_key_that_stands_twice_is_an_error(self, tmp_path: Path) -> None:
        path = tmp_path / "c.json"
        path.write_text('{"display_name": "a", "display_name": "b"}')
        with pytest.raises(InputErrors, match='"display_name" stands twice'):
            load_cluster(path)

    def test_keys_that_stand_twice_have_their_place_and_hide_nothing_else(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "c.json"
        text = EXAMPLE.read_text().replace('"scaling_spec": {', '"zon": 1, "scaling_spec": {"x":1,')
        path.write_text(text.replace('"zone":', '"zone": "us-central1-a", "zone":'))
        with pytest.raises(InputErrors) as caught:
            load_cluster(path)
        said = [str(error).removeprefix(f"{path}: ") for error in caught.value.errors]
        pools = len(json.loads(EXAMPLE.read_text())["node_pools"])
        assert said[:pools] == [
            f'node_pools[{at}]: the key "zone" stands twice in one object (remove one)'
            for at in range(pools)
        ]
        assert "node_pools[0].zon: is not a known key (did you mean zone?)" in said
        assert len(said) == 3 * pools

    def test_an_empty_file_is_called_empty(self, tmp_path: Path) -> None:
        path = tmp_path / "c.json"
        path.write_text("\ufeff \n")
        with pytest.raises(InputErrors, match=r"c\.json: is empty$"):
            load_cluster(path)

    def test_a_byte_order_mark_does_no_harm(self, tmp_path: Path) -> None:
        path = tmp_path / "c.json"
        path.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.read_bytes())
        assert load_cluster(path).id == "demo"

    def test_bytes_that_are_no_text_are_an_error(self, tmp_path: Path) -> None:
        path = tmp_path / "c.json"
        path.write_bytes(b'{"display_name": "\xff"}')
        with pytest.raises(InputErrors, match="is not UTF-8"):
            load_cluster(path)

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(InputErrors, match="directory"):
            load_cluster(tmp_path)

    @pytest.mark.parametrize("data", [None, [], "x", 3])
    def test_json_that_is_no_object_is_an_error(self, data: object) -> None:
        with pytest.raises(InputErrors, match="is not a JSON object"):
            parse_cluster(data)
