import json
from datetime import timedelta
from pathlib import Path

import pytest
from health_builders import program

from slurm_flex.health import node as node_module
from slurm_flex.health.node import (
    Node,
    Occasion,
    find_node_file,
    node_name,
    occasion_from,
    pci_gpus,
    read_node,
)


def write(path: Path, data: object) -> Path:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_what_the_startup_script_writes_is_read(tmp_path):
    file = write(
        tmp_path / "node.json",
        {"gpus": 8, "mounts": ["/home"], "machine_type": "a3-megagpu-8g"},
    )
    node, problems = read_node("n", file)
    assert problems == ()
    assert (node.gpus, node.mounts, node.machine_type) == (8, ("/home",), "a3-megagpu-8g")
    assert node.allow_opt_out is False
    assert node.budgets["prolog"] == timedelta(seconds=30)
    assert node.budgets["epilog"] == timedelta(seconds=60)


def test_without_a_file_the_defaults_hold():
    node, problems = read_node("n", None)
    assert problems == ()
    assert (node.gpus, str(node.state)) == (None, "/var/lib/slurm-flex/health")


def test_a_slip_costs_its_key_and_an_event_and_nothing_else(tmp_path):
    file = write(
        tmp_path / "node.json",
        {"gpus": "eight", "mount": ["/x"], "machine_type": "a3", "budgets": {"prlog": "5s"}},
    )
    node, problems = read_node("n", file)
    assert (node.gpus, node.machine_type) == (None, "a3")
    assert [problem.path for problem in problems] == ["mount", "gpus", "budgets.prlog"]
    assert problems[0].fix == 'did you mean "mounts"?'


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "\x00"])
def test_a_broken_file_is_as_none(tmp_path, text):
    node, problems = read_node("n", write(tmp_path / "node.json", text))
    assert node == Node("n")
    assert len(problems) == 1


def test_a_file_that_anybody_may_write_is_as_none(tmp_path):
    file = write(tmp_path / "node.json", {"tools": {"nvidia-smi": "/tmp/evil"}})
    file.chmod(0o666)
    node, problems = read_node("n", file)
    assert node == Node("n")
    assert problems


def test_a_nodes_own_file_comes_before_the_folders(tmp_path):
    environ = {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    own, common = tmp_path / "node-c1-gx-1.json", tmp_path / "node.json"
    write(common, {})
    assert find_node_file("c1-gx-1", environ) == common
    write(own, {})
    assert find_node_file("c1-gx-1", environ) == own
    assert find_node_file("c1-gx-2", environ) == common


def test_the_name_is_slurmds_or_the_hosts():
    assert node_name({"SLURMD_NODENAME": "c1-gx-1"}) == "c1-gx-1"
    for name in ("", "c1-gx-[1-3]", "../x", "a b", "-x"):
        assert node_name({"SLURMD_NODENAME": name}).isprintable()
        assert node_name({"SLURMD_NODENAME": name}) != name


def test_a_tool_is_found_without_a_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert Node("n").tool("true") in {"/usr/bin/true", "/bin/true"}
    assert Node("n").tool("no-such-tool") is None
    named = program(tmp_path / "x", "#!/bin/true\n")
    assert Node("n", tools={"true": str(named)}).tool("true") == str(named)
    named.chmod(0o644)
    assert Node("n", tools={"true": str(named)}).tool("true") is None, "a named one is the one"


def pci(root: Path, slot: str, vendor: str, kind: str) -> None:
    folder = root / "sys/bus/pci/devices" / slot
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "class").write_text(kind + "\n")


def test_the_pci_bus_says_how_many_gpus_there_are_where_nobody_else_does(tmp_path):
    pci(tmp_path, "0000:0f:00.0", "0x10de", "0x030200")
    pci(tmp_path, "0000:2d:00.0", "0x10de", "0x030200")
    pci(tmp_path, "0000:e0:00.0", "0x10de", "0x068000")  # an NVSwitch
    pci(tmp_path, "0000:00:02.0", "0x1ae0", "0x030000")
    (tmp_path / "sys/bus/pci/devices/odd").mkdir()
    assert pci_gpus(tmp_path) == 2
    assert Node("n", root=tmp_path).expected_gpus() == 2
    assert Node("n", root=tmp_path, gpus=8).expected_gpus() == 8
    assert Node("n", root=tmp_path / "none").expected_gpus() is None


@pytest.mark.parametrize(
    ("words", "out"),
    [
        ("health=off", True),
        ("HEALTH=OFF", True),
        ("a=1,health=off;b", True),
        ("please health=off thanks", True),
        ('"health=off"', True),
        ("healthchecks_prolog=off", True),
        ("healthchecks_epilog=off", False),
        ("myhealth=off", False),
        ("health=offline", False),
        ("health=on", False),
        ("", False),
    ],
)
def test_a_job_opts_out_by_a_word_of_its_own(words, out):
    assert Occasion("prolog", words=words).opted_out() is out
    for key in ("SLURM_JOB_EXTRA", "SLURM_JOB_COMMENT"):
        assert occasion_from("prolog", {key: words}).opted_out() is out


@pytest.mark.parametrize(
    ("gpus", "whole"),
    [("0,1,2,3,4,5,6,7", True), ("0,1", False), ("0,0,0,0,0,0,0,0", False), ("", False)],
)
def test_a_job_has_the_whole_node_when_it_has_all_its_gpus(gpus, whole):
    occasion = occasion_from("prolog", {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": gpus})
    assert occasion.has_whole_node(Node("n", gpus=8)) is whole


def test_a_job_whose_gpus_are_not_told_has_not_the_whole_node():
    occasion = occasion_from("prolog", {"SLURM_JOB_OVERSUBSCRIBE": "NO"})
    assert not occasion.has_whole_node(Node("n", gpus=8))
    assert occasion.has_whole_node(Node("n", gpus=8, whole_node_jobs=True))


def test_a_periodic_look_never_has_the_whole_node_unless_the_caller_vouches():
    node = Node("n", gpus=8, whole_node_jobs=True)
    assert not Occasion("periodic").has_whole_node(node)
    assert Occasion("periodic", alone=True).has_whole_node(node)


def test_every_field_of_the_file_is_one_of_the_nodes():
    assert set(node_module.NODE_FIELDS) <= set(Node.__dataclass_fields__)
