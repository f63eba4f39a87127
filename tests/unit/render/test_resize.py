"""A changed cluster file: what follows, and that no node is taken from Slurm while it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slurm_flex.cluster import Cluster, parse_cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.render.conf import render_slurm_conf
from slurm_flex.render.conf_lines import parse_conf
from slurm_flex.render.files import write_files
from slurm_flex.render.resize import leaving_nodes, what_follows
from slurm_flex.render.site_check import check_site

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster_config.json"


def cluster(least: int, most: int, **changes: Any) -> Cluster:
    data = json.loads(EXAMPLE.read_text())
    pool = data["node_pools"][1]
    pool["scaling_spec"] = {"min_node_count": least, "max_node_count": most}
    pool.update(changes.get("pool", {}))
    data["orchestrator_spec"]["slurm_spec"].update(changes.get("slurm", {}))
    return parse_cluster(data)


def conf(given: Cluster) -> str:
    return render_slurm_conf(given, Settings(), "24.11")["slurm-flex.conf"]


def story(before: Cluster, after: Cluster, running: set[str] | None = None) -> list[str]:
    return list(what_follows(conf(before), after, Settings(), running))


def test_nothing_changed_nothing_follows() -> None:
    assert story(cluster(1, 3), cluster(1, 3)) == []


def test_more_nodes_are_new_and_off() -> None:
    assert story(cluster(0, 2), cluster(0, 4)) == [
        "+ demo-a3u-[2-3]: new, off until a job wants them"
    ]


def test_a_higher_minimum_makes_nodes_static() -> None:
    assert story(cluster(0, 2), cluster(1, 2)) == [
        "~ demo-a3u-0: static from now on: asked for at once, and kept up"
    ]


def test_a_lower_minimum_makes_nodes_dynamic() -> None:
    assert story(cluster(2, 2), cluster(1, 2)) == [
        "~ demo-a3u-1: dynamic from now on: off once idle for suspend_time"
    ]


def test_fewer_nodes_are_told_apart_by_whether_they_run() -> None:
    assert story(cluster(0, 4), cluster(0, 2), {"demo-a3u-3"}) == [
        "- demo-a3u-3: leaving: drained, in slurm.conf until they are idle and off; "
        "then render again",
        "- demo-a3u-2: off: taken out",
    ]


def test_another_duration_changes_max_time_and_leaves_running_vms_alone() -> None:
    after = cluster(0, 2, pool={"flex_start_max_duration": "86400s"})
    assert story(cluster(0, 2), after) == [
        "~ partition a3u: MaxTime 6-23:40:00 becomes 23:40:00; "
        "VMs that run keep the life they were given"
    ]


def test_partitions_come_and_go() -> None:
    parts = [{"id": "new", "node_pool_ids": ["a3u"]}]
    assert story(cluster(0, 2), cluster(0, 2, slurm={"partitions": parts})) == [
        "+ partition new: new",
        "- partition a3u: taken out",
    ]


def test_a_node_that_runs_stays_in_slurm_conf_as_it_was() -> None:
    before, after = cluster(0, 4), cluster(0, 2)
    leaving = leaving_nodes(conf(before), after, {"demo-a3u-3", "demo-a3u-0"})
    assert leaving.nodes == ("demo-a3u-3",)
    text = render_slurm_conf(after, Settings(), "24.11", leaving)["slurm-flex.conf"]
    lines = list(parse_conf(text))
    kept = next(line for line in lines if line.value == "demo-a3u-3")
    was = next(line for line in parse_conf(conf(before)) if line.key == "NodeName")
    assert kept.pairs == was.pairs
    partition = next(line for line in lines if line.key == "PartitionName")
    assert partition.get("Nodes") == "demo-a3u-[0-1,3]"


def test_a_node_that_stays_keeps_its_own_port_of_a_list() -> None:
    ports = Settings(node_overrides={"a3u": {"Port": "[7001-7004]"}})
    before = render_slurm_conf(cluster(0, 4), ports, "24.11")["slurm-flex.conf"]
    leaving = leaving_nodes(before, cluster(0, 1), {"demo-a3u-1", "demo-a3u-3"})
    (line,) = leaving.lines
    assert line.startswith("NodeName=demo-a3u-[1,3] ")
    assert " Port=[7002,7004]" in line


def test_a_node_of_a_partition_that_is_gone_ends_its_jobs_there() -> None:
    before = cluster(0, 2, slurm={"partitions": [{"id": "old", "node_pool_ids": ["a3u"]}]})
    after = cluster(0, 1)
    leaving = leaving_nodes(conf(before), after, {"demo-a3u-1"})
    lines = list(
        parse_conf(render_slurm_conf(after, Settings(), "24.11", leaving)["slurm-flex.conf"])
    )
    closed = next(line for line in lines if line.value == "old")
    assert (closed.get("Nodes"), closed.get("State")) == ("demo-a3u-1", "DRAIN")
    assert closed.get("Default") is None


def test_where_nobody_knows_what_runs_all_stay() -> None:
    leaving = leaving_nodes(conf(cluster(0, 4)), cluster(0, 2), None)
    assert leaving.nodes == ("demo-a3u-2", "demo-a3u-3")


def test_leaving_nodes_stay_through_further_renders_until_they_are_off(tmp_path: Path) -> None:
    before, after = cluster(0, 4), cluster(0, 2)
    write_files(render_slurm_conf(before, Settings(), "24.11"), tmp_path)
    (tmp_path / "slurm.conf").write_text(
        "ClusterName=x\nSlurmctldHost=h\nInclude slurm-flex.conf\n"
    )
    for running in ({"demo-a3u-3"}, {"demo-a3u-3"}, set()):
        main = (tmp_path / "slurm-flex.conf").read_text()
        gres = (tmp_path / "gres.conf").read_text()
        leaving = leaving_nodes(main, after, running, previous_gres=gres)
        write_files(render_slurm_conf(after, Settings(), "24.11", leaving), tmp_path)
        both = (tmp_path / "slurm-flex.conf").read_text() + (tmp_path / "gres.conf").read_text()
        assert both.count("demo-a3u-3 ") == (2 if running else 0)
        found = check_site(after, Settings(), "24.11", tmp_path / "slurm.conf", running=running)
        assert not [one for one in found if "rendered now" in one.what]
