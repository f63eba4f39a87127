"""The configuration files of a cluster on one machine, alone or around a rendered folder."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from slurm_flex.demo.layout import CloudNode, Layout, Partition, Programs, Timeouts
from slurm_flex.demo.rendered import NotRenderable
from slurm_flex.demo.slurm_conf import conf_files, merged

FOLDER = Path("/tmp/world")

RENDERED = """\
# Power saving
SuspendProgram=/opt/flex/suspend.py
ResumeTimeout=21600  # long
SlurmctldParameters=idle_on_node_suspend
NodeName=c1-gx-[0-2] State=CLOUD Gres=gpu:h200:8 CPUs=224
NodeName=c1-login-0 State=CLOUD CPUs=4
PartitionName=gx Nodes=c1-gx-[0-2] MaxTime=7-00:00:00
"""


def lines(files: dict[str, str], name: str = "slurm.conf") -> list[str]:
    return files[name].splitlines()


def rendered(tmp_path: Path, text: str = RENDERED) -> Path:
    (tmp_path / "slurm-flex.conf").write_text(text)
    return tmp_path


def test_every_node_has_a_port_of_its_own_after_the_controllers() -> None:
    layout = Layout(nodes=[CloudNode("a"), CloudNode("b", features="x")])
    files, nodes = conf_files(layout, folder=FOLDER, release="22.05", port=7000)
    assert nodes == ("a", "b")
    assert "SlurmctldPort=7000" in lines(files)
    assert "NodeName=a Port=7001 State=CLOUD CPUs=2 RealMemory=1000" in lines(files)
    assert "NodeName=b Port=7002 State=CLOUD CPUs=2 RealMemory=1000 Feature=x" in lines(files)


def test_programs_timeouts_and_settings_are_set() -> None:
    layout = Layout(
        nodes=[CloudNode("a")],
        partitions=[Partition("p", "a", "Default=YES")],
        programs=Programs(resume=Path("/r"), prolog=Path("/p")),
        timeouts=Timeouts(resume=timedelta(minutes=2)),
        settings={"debugflags": "Power,Gres"},
        lines=["# a last word"],
    )
    found = lines(conf_files(layout, folder=FOLDER, release="24.11", port=1)[0])
    for line in ("ResumeProgram=/r", "Prolog=/p", "ResumeTimeout=120", "# a last word"):
        assert line in found
    assert "PartitionName=p Nodes=a Default=YES" in found
    assert "DebugFlags=Power,Gres" in found
    assert not any(line.startswith(("SuspendProgram", "debugflags")) for line in found)


def test_list_settings_are_joined_and_a_later_value_of_a_word_wins() -> None:
    assert merged(
        {"SlurmctldParameters": "cloud_dns,power_save_interval=2", "DebugFlags": "Power"},
        {"slurmctldparameters": "power_save_interval=9,idle_on_node_suspend", "DebugFlags": "No"},
    ) == {
        "SlurmctldParameters": "cloud_dns,power_save_interval=9,idle_on_node_suspend",
        "DebugFlags": "No",
    }


def test_a_rendered_folder_is_used_as_it_is_but_for_ports_and_what_is_set_on_top(
    tmp_path: Path,
) -> None:
    layout = Layout(include=rendered(tmp_path), timeouts=None, settings={"ResumeTimeout": "60"})
    files, nodes = conf_files(layout, folder=FOLDER, release="24.11", port=7000)
    assert nodes == ("c1-gx-0", "c1-gx-1", "c1-gx-2", "c1-login-0")
    assert lines(files, "slurm.conf.d/slurm-flex.conf") == [
        "# Power saving",
        "SuspendProgram=/opt/flex/suspend.py",
        "# ResumeTimeout=21600  # long",
        "# SlurmctldParameters=idle_on_node_suspend",
        "NodeName=c1-gx-[0-2] State=CLOUD Gres=gpu:h200:8 CPUs=224 Port=[7001-7003]",
        "NodeName=c1-login-0 State=CLOUD CPUs=4 Port=7004",
        "PartitionName=gx Nodes=c1-gx-[0-2] MaxTime=7-00:00:00",
    ]
    conf = lines(files)
    assert f"Include {FOLDER}/slurm.conf.d/slurm-flex.conf" in conf
    assert "ResumeTimeout=60" in conf
    assert not any(line.startswith("SuspendProgram") for line in conf)
    (parameters,) = [line for line in conf if line.startswith("SlurmctldParameters=")]
    assert parameters.count("idle_on_node_suspend") == 1


def test_no_key_is_set_twice(tmp_path: Path) -> None:
    text = RENDERED + "SelectType=select/linear\nReturnToService=1\n"
    files, _ = conf_files(
        Layout(include=rendered(tmp_path, text)), folder=FOLDER, release="24.11", port=7000
    )
    keys = [
        line.split("=")[0].lower()
        for name in ("slurm.conf", "slurm.conf.d/slurm-flex.conf")
        for line in lines(files, name)
        if "=" in line and not line.startswith(("#", "NodeName", "PartitionName"))
    ]
    assert sorted(keys) == sorted(set(keys))
    assert "SelectType=select/linear" in lines(files, "slurm.conf.d/slurm-flex.conf")


def test_gpus_are_device_files_since_slurm_drops_gpus_without(tmp_path: Path) -> None:
    layout = Layout(include=rendered(tmp_path), nodes=[CloudNode("z", gres="gpu:1,nvlink:4")])
    files, _ = conf_files(layout, folder=FOLDER, release="24.11", port=7000)
    gres = lines(files, "gres.conf")
    device = FOLDER / "dev"
    assert f"NodeName=c1-gx-2 Name=gpu Type=h200 Count=8 File={device}/gpu[0-7]" in gres
    assert f"NodeName=z Name=gpu Count=1 File={device}/gpu0" in gres
    assert "NodeName=z Name=nvlink Count=4" in gres
    assert "GresTypes=gpu,nvlink" in lines(files)


@pytest.mark.parametrize(("release", "there"), [("22.05", False), ("24.11", True), ("26.05", True)])
def test_cgroups_are_turned_off_where_the_release_knows_how(release: str, there: bool) -> None:
    layout = Layout(nodes=[CloudNode("a")])
    files, _ = conf_files(layout, folder=FOLDER, release=release, port=1)
    assert ("cgroup.conf" in files) is there


@pytest.mark.parametrize("text", ["", "NodeName=c1-gx-[0- State=CLOUD\n"])
def test_a_rendered_folder_without_usable_nodes_is_refused(tmp_path: Path, text: str) -> None:
    layout = Layout(include=rendered(tmp_path, text))
    with pytest.raises(NotRenderable):
        conf_files(layout, folder=FOLDER, release="24.11", port=1)
