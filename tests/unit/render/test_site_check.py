"""render --check: what a site's own slurm.conf lacks, with the exact line."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_flex.cluster import load_cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.errors import FlexError
from slurm_flex.render.conf import render_slurm_conf
from slurm_flex.render.files import write_files
from slurm_flex.render.full import render_full
from slurm_flex.render.site_check import Finding, check_site

CLUSTER = load_cluster(Path(__file__).parents[3] / "etc" / "cluster_config.json")
RELEASE = "22.05"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A controller made by render --full: nothing to find."""
    files = render_full(CLUSTER, Settings(), RELEASE, "localhost")
    files["slurm.conf"] = files["slurm.conf"].replace("SlurmUser=slurm", "SlurmUser=root")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "slurm.conf"


def check(site: Path, release: str = RELEASE, *, ask: bool = False) -> list[Finding]:
    return check_site(CLUSTER, Settings(), release, site, scontrol=("scontrol",) if ask else ())


def edit(site: Path, old: str, new: str) -> None:
    text = site.read_text()
    assert old in text
    site.write_text(text.replace(old, new))


def test_a_full_slurm_conf_has_all_that_is_needed(site: Path) -> None:
    assert check(site) == []


def test_the_installed_parser_is_asked_as_well(site: Path) -> None:
    assert check(site, ask=True) == []
    edit(site, "MpiDefault=none", "MessageTimeout=abc")
    assert any("MessageTimeout" in finding.what for finding in check(site, ask=True))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "SlurmctldParameters=idle_on_node_suspend,",
            "SlurmctldParameters=power_save_interval=5,",
            "SlurmctldParameters=power_save_interval=5,enable_configless,cloud_reg_addrs,"
            "idle_on_node_suspend",
        ),
        ("PrivateData=cloud", "PrivateData=jobs", "PrivateData=jobs,cloud"),
        ("ReturnToService=2", "ReturnToService=1", "ReturnToService=2"),
        ("JobRequeue=1", "JobRequeue=0", "JobRequeue=1"),
        (
            "SchedulerParameters=nohold_on_prolog_fail\n",
            "",
            "SchedulerParameters=nohold_on_prolog_fail",
        ),
        ("GresTypes=gpu", "GresTypes=craynetwork", "GresTypes=craynetwork,gpu"),
        ("SelectType=select/cons_tres", "SelectType=select/linear", "SelectType=select/cons_tres"),
        ("TreeWidth=65533", "TreeWidth=16", "TreeWidth=65533"),
        ("PrologFlags=Alloc", "PrologFlags=NoHold", "PrologFlags=NoHold,Alloc"),
    ],
)
def test_a_value_that_does_not_do_is_found_with_the_line_to_write(
    site: Path, old: str, new: str, line: str
) -> None:
    edit(site, old, new)
    [finding] = check(site)
    assert finding.line == line
    assert f"\n    {line}" in str(finding)
    kept = [text for text in site.read_text().splitlines() if text != finding.instead_of]
    site.write_text("\n".join([line, *kept]) + "\n")
    assert check(site) == []


def test_another_option_that_does_the_same_is_taken(site: Path) -> None:
    edit(site, "cloud_reg_addrs", "cloud_dns")
    edit(site, "PrologFlags=Alloc", "PrologFlags=Contain")
    assert check(site) == []


def test_a_missing_include_is_found(site: Path) -> None:
    edit(site, "Include slurm-flex.conf", "")
    [finding] = check(site)
    assert finding.line == "Include slurm-flex.conf"


def test_an_include_before_the_file_is_there_is_found(site: Path) -> None:
    site.with_name("slurm-flex.conf").unlink()
    assert any("isn't there yet" in finding.what for finding in check(site))


def test_a_file_rendered_from_something_older_is_found(site: Path) -> None:
    edit(site.with_name("slurm-flex.conf"), "SuspendTimeout=60", "SuspendTimeout=50")
    [finding] = check(site)
    assert finding.what == "isn't as it would be rendered now"


def test_a_key_in_both_files_is_found(site: Path) -> None:
    edit(site, "MpiDefault=none", "MpiDefault=none\nsuspendprogram=/bin/true")
    [finding] = check(site)
    assert finding.what.startswith("suspendprogram is set here and in slurm-flex.conf")


def test_a_node_in_both_files_is_found(site: Path) -> None:
    edit(site, "MpiDefault=none", "NodeName=demo-a3u-[0-1] CPUs=1")
    assert any("NodeName=demo-a3u-[0-1] is set here and" in str(found) for found in check(site))


def test_the_sites_own_nodes_must_not_be_powered_down(site: Path) -> None:
    own = "NodeName=old[1-3] CPUs=1\nPartitionName=old Nodes=old[1-3]"
    edit(site, "MpiDefault=none", own)
    assert check(site) == []
    edit(site, own, f"{own}\nSuspendTime=60")
    [finding] = check(site)
    assert "old[1-3]" in finding.what
    assert finding.line == "SuspendTime=INFINITE"
    edit(site, "SuspendTime=60", "SuspendTime=60\nSuspendExcParts=old")
    assert check(site) == []


def test_advice_comes_after_what_is_needed(site: Path) -> None:
    edit(site, "TreeWidth=65533", "TreeWidth=16")
    edit(site, "ReturnToService=2", "ReturnToService=0")
    assert [finding.needed for finding in check(site)] == [True, False]


def test_a_gres_conf_of_the_site_is_left_alone_and_told_what_it_lacks(site: Path) -> None:
    gres = site.with_name("gres.conf")
    gres.write_text("NodeName=old1 Name=gpu Count=1\n")
    files = render_slurm_conf(CLUSTER, Settings(), RELEASE)
    outcomes = {item.path.name: item.outcome for item in write_files(files, site.parent)}
    assert outcomes == {"slurm-flex.conf": "as it was", "gres.conf": "left alone"}
    [finding] = check(site)
    assert (
        finding.line == "NodeName=demo-a3u-[0-1] Name=gpu Type=h200 Count=8 File=/dev/nvidia[0-7]"
    )
    gres.write_text(f"{gres.read_text()}{finding.line}\n")
    assert check(site) == []


def test_a_missing_slurm_conf_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FlexError, match="render --full` writes one"):
        check(tmp_path / "slurm.conf")


class TestWriting:
    def test_files_are_written_once_and_readable_by_all(self, tmp_path: Path) -> None:
        files = render_slurm_conf(CLUSTER, Settings(), RELEASE)
        assert {item.outcome for item in write_files(files, tmp_path)} == {"written"}
        assert {item.outcome for item in write_files(files, tmp_path)} == {"as it was"}
        assert (tmp_path / "slurm-flex.conf").stat().st_mode & 0o777 == 0o644
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)

    def test_a_folder_that_is_not_there_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(FlexError, match="no such folder"):
            write_files({"a.conf": "x"}, tmp_path / "none")
