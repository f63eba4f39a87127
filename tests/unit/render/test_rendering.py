"""slurm-flex.conf and gres.conf from a cluster file, for each release."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slurm_flex.cluster import Cluster, load_cluster, parse_cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.slurm_keys import SUPPORTED, knows, parse_release
from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.render.conf import render_slurm_conf
from slurm_flex.render.conf_lines import ConfLine, parse_conf
from slurm_flex.render.full import render_full
from slurm_flex.render.oracle import ask_parser_about, installed_release
from slurm_flex.render.partitions import parse_slurm_time, slurm_time

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "etc" / "cluster_config.json"


def cluster(**changes: Any) -> Cluster:
    """The example with changes: pool=, slurm= update the GPU pool and slurm_spec; pools= adds."""
    data = json.loads(EXAMPLE.read_text())
    data["node_pools"][1].update(changes.get("pool", {}))
    data["node_pools"] += changes.get("pools", [])
    data["orchestrator_spec"]["slurm_spec"].update(changes.get("slurm", {}))
    return parse_cluster(data)


def rendered(
    given: Cluster | None = None, settings: Settings | None = None, release: str = "24.11"
) -> list[ConfLine]:
    files = render_slurm_conf(given or cluster(), settings or Settings(), release)
    return list(parse_conf(files["slurm-flex.conf"]))


def value(lines: list[ConfLine], key: str) -> str | None:
    return next((line.value for line in lines if line.key == key), None)


def record(lines: list[ConfLine], key: str, name: str = "") -> ConfLine:
    return next(line for line in lines if line.key == key and name in line.value)


FLEX = {"min_node_count": 2, "max_node_count": 5}
CPU = {
    "id": "cpu",
    "machine_spec": {"machine_type": "n2-standard-8"},
    "scaling_spec": {"min_node_count": 0, "max_node_count": 10},
    "zone": "us-central1-b",
}
BOTH = {"partitions": [{"id": "all", "node_pool_ids": ["a3u", "cpu"]}]}


def test_the_example_in_etc_is_what_is_rendered() -> None:
    files = render_slurm_conf(load_cluster(EXAMPLE), Settings(), "24.11")
    folder = ROOT / "etc" / "slurm.conf.d"
    assert {path.name: path.read_text() for path in folder.iterdir()} == files


@pytest.mark.parametrize("release", SUPPORTED)
def test_only_keys_that_the_release_knows_are_written(release: str) -> None:
    known = parse_release(release)
    for line in rendered(cluster(pool={"scaling_spec": FLEX}), release=release):
        assert knows(known, "global", line.key)
        scope = {"NodeName": "node", "PartitionName": "partition"}.get(line.key)
        for key, _ in line.pairs:
            assert scope is not None
            assert knows(known, scope, key)  # type: ignore[arg-type]


@pytest.mark.parametrize("release", SUPPORTED)
def test_drained_nodes_are_kept_up_where_the_release_can(release: str) -> None:
    states = value(rendered(release=release), "SuspendExcStates")
    assert states == (None if release == "22.05" else "DRAIN")


def test_every_global_setting_says_why_it_is_there() -> None:
    text = render_slurm_conf(cluster(), Settings(), "24.11")["slurm-flex.conf"]
    before = ""
    for line in text.splitlines():
        if re.match(r"(Resume|Suspend)\w+=", line):
            assert before.startswith("# "), line
        before = line


class TestNodes:
    def test_a_flex_start_pool(self) -> None:
        line = record(rendered(), "NodeName")
        assert line.value == "demo-a3u-[0-1]"
        assert line.get("State") == "CLOUD"
        assert line.get("Gres") == "gpu:h200:8"
        assert line.get("CPUs") == "224"
        assert "a3u,flex_start,a3-ultragpu-8g" in (line.get("Feature") or "")

    def test_static_nodes_have_their_own_line_are_taken_first_and_stay_up(self) -> None:
        lines = rendered(cluster(pool={"scaling_spec": FLEX}))
        static, dynamic = (line for line in lines if line.key == "NodeName")
        assert (static.value, dynamic.value) == ("demo-a3u-[0-1]", "demo-a3u-[2-4]")
        assert int(static.get("Weight") or 0) < int(dynamic.get("Weight") or 0)
        assert value(lines, "SuspendExcNodes") == "demo-a3u-[0-1]"

    def test_without_static_nodes_there_is_no_exception_since_an_empty_one_is_fatal(self) -> None:
        assert value(rendered(), "SuspendExcNodes") is None

    def test_the_login_pool_has_no_nodes(self) -> None:
        assert all("login" not in line.value for line in rendered())

    def test_pools_are_preferred_in_the_order_of_the_file(self) -> None:
        lines = rendered(cluster(pools=[CPU], slurm=BOTH))
        weights = [int(line.get("Weight") or 0) for line in lines if line.key == "NodeName"]
        assert weights == sorted(weights)
        assert len(set(weights)) == 2

    def test_a_node_set_adds_and_replaces_keys_but_our_features_stay(self) -> None:
        own = {"features": "big,fast", "Weight": "7", "MemSpecLimit": "1024"}
        sets = [{"node_pool_id": "a3u", "config": own}]
        line = record(rendered(cluster(slurm={"node_sets": sets})), "NodeName")
        assert (line.get("Feature") or "").startswith("big,fast,a3u,")
        assert line.get("Weight") == "7"
        assert line.get("MemSpecLimit") == "1024"

    def test_what_slurmd_prints_replaces_the_table(self) -> None:
        given = {"a3u": {"CPUs": "200", "RealMemory": "2000000"}}
        line = record(rendered(settings=Settings(node_overrides=given)), "NodeName")
        assert (line.get("CPUs"), line.get("RealMemory")) == ("200", "2000000")
        assert line.get("Sockets") is None

    def test_only_memory_replaced_keeps_the_layout(self) -> None:
        given = {"a3u": {"RealMemory": "2000000"}}
        line = record(rendered(settings=Settings(node_overrides=given)), "NodeName")
        assert (line.get("Sockets"), line.get("RealMemory")) == ("2", "2000000")

    def test_hardware_that_nobody_knows_is_asked_for_pool_by_pool(self) -> None:
        machine = {"machine_spec": {"machine_type": "e2-standard-8"}}
        strange = [CPU | machine, CPU | machine | {"id": "cpu2"}]
        with pytest.raises(InputErrors) as caught:
            rendered(cluster(pools=strange))
        assert [error.where for error in caught.value.errors] == ["pool cpu", "pool cpu2"]
        assert "node_overrides" in str(caught.value)

    def test_a_key_that_the_release_lacks_is_refused(self) -> None:
        sets = [{"node_pool_id": "a3u", "config": {"SuspendTime": "60"}}]
        assert rendered(cluster(slurm={"node_sets": sets}), release="26.05")
        with pytest.raises(InputErrors, match=r"SuspendTime is no node parameter of Slurm 24\.11"):
            rendered(cluster(slurm={"node_sets": sets}))


class TestPartitions:
    def test_max_time_is_the_pools_life_less_boot_and_margin(self) -> None:
        assert record(rendered(), "PartitionName").get("MaxTime") == "6-23:40:00"

    @pytest.mark.parametrize(
        ("life", "longest"), [("3600s", "00:40:00"), ("600s", "00:05:00"), ("30s", "00:01:00")]
    )
    def test_of_a_short_life_no_more_than_half_is_taken_off(self, life: str, longest: str) -> None:
        lines = rendered(cluster(pool={"flex_start_max_duration": life}))
        assert record(lines, "PartitionName").get("MaxTime") == longest

    def test_a_partition_without_flex_start_has_no_limit(self) -> None:
        parts = {"partitions": [{"id": "cpu", "node_pool_ids": ["cpu"]}]}
        lines = rendered(cluster(pools=[CPU], slurm=parts))
        assert record(lines, "PartitionName").get("MaxTime") is None

    def test_a_partition_over_two_pools_has_all_their_nodes(self) -> None:
        line = record(rendered(cluster(pools=[CPU], slurm=BOTH)), "PartitionName")
        assert line.get("Nodes") == "demo-a3u-[0-1],demo-cpu-[0-9]"
        assert line.get("MaxTime") == "6-23:40:00"

    def test_the_site_may_shorten_max_time_but_not_lengthen_it(self) -> None:
        def with_time(text: str) -> Cluster:
            part = {"id": "a3u", "node_pool_ids": ["a3u"], "config": {"MaxTime": text}}
            return cluster(slurm={"partitions": [part]})

        assert record(rendered(with_time("1-0")), "PartitionName").get("MaxTime") == "1-0"
        for text in ("7-0", "UNLIMITED", "10079"):
            with pytest.raises(InputErrors, match="at most 6-23:40:00"):
                rendered(with_time(text))

    def test_a_default_time_is_written_and_must_fit(self) -> None:
        line = record(rendered(settings=Settings(default_time="4:00:00")), "PartitionName")
        assert line.get("DefaultTime") == "4:00:00"
        with pytest.raises(InputErrors, match="DefaultTime=8-0 is longer"):
            rendered(settings=Settings(default_time="8-0"))

    def test_the_default_partition_says_so(self) -> None:
        parts = [{"id": name, "node_pool_ids": ["a3u"]} for name in ("one", "two")]
        lines = rendered(cluster(slurm={"partitions": parts, "default_partition_id": "two"}))
        assert record(lines, "PartitionName", "one").get("Default") is None
        assert record(lines, "PartitionName", "two").get("Default") == "YES"

    def test_suspend_time_stands_on_the_partition_so_that_other_nodes_stay_up(self) -> None:
        lines = rendered()
        assert value(lines, "SuspendTime") is None
        assert record(lines, "PartitionName").get("SuspendTime") == "300"

    def test_a_partition_of_an_empty_pool_is_left_out(self) -> None:
        empty = {"scaling_spec": {"min_node_count": 0, "max_node_count": 0}}
        files = render_slurm_conf(cluster(pool=empty), Settings(), "24.11")
        assert "PartitionName=" not in files["slurm-flex.conf"]
        assert "gres.conf" not in files


class TestTimeouts:
    def test_the_settings_are_written_in_seconds(self) -> None:
        lines = rendered()
        assert value(lines, "ResumeTimeout") == "21600"
        assert value(lines, "SuspendTimeout") == "60"

    @pytest.mark.parametrize("release", ["22.05", "26.05"])
    def test_a_timeout_that_is_fatal_to_slurm_is_refused(self, release: str) -> None:
        settings = Settings(resume_timeout=timedelta(days=1))
        with pytest.raises(InputErrors, match="at most 65535s"):
            rendered(settings=settings, release=release)


class TestPrograms:
    def test_the_checks_run_before_and_after_jobs(self) -> None:
        lines = rendered()
        assert value(lines, "Prolog") == "/opt/slurm-flex/scripts/prolog.py"
        assert value(lines, "Epilog") == "/opt/slurm-flex/scripts/epilog.py"
        assert value(lines, "HealthCheckProgram") == "/opt/slurm-flex/scripts/health.py"

    def test_scripts_of_the_site_are_run_by_a_program_on_the_node(self) -> None:
        scripts = {"prolog_bash_scripts": ["true"], "task_prolog_bash_scripts": ["true"]}
        lines = rendered(cluster(slurm=scripts), Settings(health_checks=False))
        assert value(lines, "Prolog") == "/opt/slurm-flex/site/prolog"
        assert value(lines, "TaskProlog") == "/opt/slurm-flex/site/taskprolog"
        assert value(lines, "Epilog") is None
        assert value(lines, "HealthCheckProgram") is None


class TestTheClusterFilesOwnParameters:
    def test_config_scheduling_and_accounting_are_written(self) -> None:
        lines = rendered(
            cluster(
                slurm={
                    "config": {"treewidth": 100, "SchedulerParameters": "bf_interval=60,defer"},
                    "scheduling": {
                        "priority_type": "priority/multifactor",
                        "priority_weight_qos": 5,
                    },
                    "accounting": {"accounting_storage_enforce": "limits,qos"},
                }
            )
        )
        assert value(lines, "TreeWidth") == "100"
        assert value(lines, "SchedulerParameters") == "bf_interval=60,defer"
        assert value(lines, "PriorityType") == "priority/multifactor"
        assert value(lines, "PriorityWeightQOS") == "5"
        assert value(lines, "AccountingStorageEnforce") == "limits,qos"

    def test_a_parameter_of_another_release_is_refused(self) -> None:
        given = cluster(slurm={"config": {"PrologTimeout": "30"}})
        assert value(rendered(given, release="26.05"), "PrologTimeout") == "30"
        with pytest.raises(InputErrors, match=r"PrologTimeout is no parameter of Slurm 24\.11"):
            rendered(given)


class TestGres:
    @pytest.mark.parametrize(
        ("files", "line"),
        [
            ("device", "Name=gpu Type=h200 Count=8 File=/dev/nvidia[0-7]"),
            ("nvml", "AutoDetect=nvml"),
        ],
    )
    def test_gpus_are_found_as_the_setting_says(self, files: str, line: str) -> None:
        text = render_slurm_conf(cluster(), Settings(gpu_files=files), "24.11")["gres.conf"]
        assert text.splitlines()[-1] == f"NodeName=demo-a3u-[0-1] {line}"

    @pytest.mark.parametrize(
        ("conf_server", "lines"),
        [
            ("", ["SlurmctldHost=ctl"]),
            ("ctl", ["SlurmctldHost=ctl"]),
            ("ctl.internal:7000", ["SlurmctldHost=ctl(ctl.internal)", "SlurmctldPort=7000"]),
            ("10.0.0.9", ["SlurmctldHost=ctl(10.0.0.9)"]),
        ],
    )
    def test_slurmctld_listens_where_the_nodes_ask_for_their_configuration(
        self, conf_server: str, lines: list[str]
    ) -> None:
        files = render_full(cluster(), Settings(conf_server=conf_server), "24.11", "ctl")
        found = [line for line in files["slurm.conf"].splitlines() if line[:9] == "Slurmctld"]
        assert [line for line in found if line[9:13] in ("Host", "Port")] == lines

    def test_a_job_gets_its_gpus_part_of_the_memory_unless_the_site_says_otherwise(self) -> None:
        def default(settings: Settings, given: Cluster) -> str:
            text = render_full(given, settings, "24.11", "localhost")["slurm.conf"]
            return next((x for x in text.splitlines() if x.startswith("DefMemPer")), "")

        assert default(Settings(), cluster()) == f"DefMemPerGPU={2927872 // 8}"
        less = Settings(node_overrides={"a3u": {"RealMemory": "800000"}})
        assert default(less, cluster()) == "DefMemPerGPU=100000"
        own = cluster(slurm={"config": {"DefMemPerCPU": "4000"}})
        assert default(Settings(), own) == ""

    def test_a_slurm_that_is_told_of_no_gpus_has_neither_gres_nor_gres_conf(self) -> None:
        files = render_full(cluster(), Settings(gpu_files="none"), "24.11", "localhost")
        assert "gres.conf" not in files
        assert "gres" not in f"{files['slurm.conf']}{files['slurm-flex.conf']}".lower()


class TestReleases:
    @pytest.mark.parametrize("release", ["21.08", "20.11.9"])
    def test_an_old_release_is_refused(self, release: str) -> None:
        with pytest.raises(FlexError, match=r"22\.05 or later"):
            render_slurm_conf(cluster(), Settings(), release)

    @pytest.mark.parametrize("release", ["", "new", "24", "24.11x1.x"])
    def test_a_word_that_is_no_release_is_refused_or_read(self, release: str) -> None:
        if release == "24.11x1.x":
            assert rendered(release=release)
            return
        with pytest.raises(FlexError, match="is no release of Slurm"):
            render_slurm_conf(cluster(), Settings(), release)

    def test_a_future_release_is_taken_for_the_newest_known(self) -> None:
        assert value(rendered(release="27.05.1"), "SuspendExcStates") == "DRAIN"


def test_slurm_times_go_both_ways() -> None:
    for text in ("6-23:40:00", "00:05:00", "12:00:00"):
        read = parse_slurm_time(text)
        assert read is not None
        assert slurm_time(read) == text
    assert parse_slurm_time("90") == timedelta(minutes=90)
    assert parse_slurm_time("5:30") == timedelta(minutes=5, seconds=30)
    assert parse_slurm_time("1-12") == timedelta(days=1, hours=12)
    assert parse_slurm_time("1-0:30") == timedelta(days=1, minutes=30)
    assert parse_slurm_time("UNLIMITED") is None
    for text in ("soon", "9" * 15, "9" * 5000, "1-²", "999999999-00:00:00"):
        with pytest.raises(FlexError, match="is no time"):
            parse_slurm_time(text)


class TestTheInstalledParserTakesIt:
    @pytest.fixture
    def everything(self) -> Cluster:
        return cluster(
            pool={"scaling_spec": FLEX},
            pools=[CPU],
            slurm={
                **BOTH,
                "config": {"SchedulerParameters": "bf_interval=60"},
                "node_sets": [{"node_pool_id": "a3u", "config": {"Features": "x"}}],
                "scheduling": {"priority_weight_tres": "CPU=1,GRES/gpu=2"},
                "prolog_bash_scripts": ["true"],
            },
        )

    def test_a_full_slurm_conf(self, everything: Cluster) -> None:
        release = str(installed_release())
        files = render_full(everything, Settings(), release, "localhost")
        files["slurm.conf"] = files["slurm.conf"].replace("SlurmUser=slurm", "SlurmUser=root")
        assert ask_parser_about(files) == []


class TestAFullSlurmConf:
    def test_it_includes_ours_and_needs_nothing_more(self, tmp_path: Path) -> None:
        files = render_full(cluster(), Settings(), "24.11", "ctl")
        assert files["slurm.conf"].endswith("\nInclude slurm-flex.conf\n")
        assert "SlurmctldParameters=idle_on_node_suspend,enable_configless\n" in files["slurm.conf"]

    def test_a_list_that_the_cluster_file_sets_is_not_set_twice(self) -> None:
        given = cluster(slurm={"config": {"SchedulerParameters": "nohold_on_prolog_fail,defer"}})
        files = render_full(given, Settings(), "24.11", "ctl")
        assert "SchedulerParameters=" not in files["slurm.conf"]

    def test_auth_slurm_needs_23_11(self) -> None:
        settings = Settings(auth_type="slurm")
        with pytest.raises(FlexError, match=r"auth/slurm is not known to Slurm 23\.02"):
            render_full(cluster(), settings, "23.02", "ctl")
        assert (
            "AuthType=auth/slurm\n" in render_full(cluster(), settings, "23.11", "c")["slurm.conf"]
        )
