"""Our reading of slurm.conf against the answers of three releases' own parser.

tests/data/vectors/conf_parser_probes.tsv: release, probe (~ is a line break), answer ("z1|" is
Slurm's expansion of z1: the file was taken). The probe follows five good lines.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_flex.cluster.slurm_keys import parse_release
from slurm_flex.errors import FlexError
from slurm_flex.render.conf_lines import ConfLine, logical_lines, parse_conf, read_conf
from slurm_flex.render.oracle import ask_parser_about, installed_release
from slurm_flex.render.requirements import Requirement
from slurm_flex.render.validate import find_faults

VECTORS = Path(__file__).parents[2] / "data" / "vectors" / "conf_parser_probes.tsv"
RELEASES = {"22": "22.05", "24": "24.11", "26": "26.05"}
BEFORE = """ClusterName=probe
SlurmctldHost=localhost
NodeName=localhost CPUs=1
NodeName=z1 CPUs=1
PartitionName=base Nodes=ALL
"""
LAX = {
    "NodeName=n[1-2": "unbalanced bracket",
    "NodeName=n1 State=FOO": "no such state",
    "PartitionName=q Nodes=nope[1-2]": "no such nodes",
    "PartitionName=q Nodes=s1": "the node set of another probe",
    "SuspendExcNodes=n[1-2]:1": "the nodes of another probe",
    "Include nofile*.conf": "skipped with a complaint from 24.11 on",
}
"""Probes that Slurm's parser takes and slurmctld trips over: what we say instead."""


def probes() -> list[tuple[str, str, bool]]:
    rows = [line.split("\t") for line in VECTORS.read_text().splitlines()]
    return [(RELEASES[release], text, answer == "z1|") for release, text, answer in rows]


def faults(text: str, release: str = "24.11") -> list[str]:
    def reading(name: str) -> str:
        if name != "inc.conf":
            raise FileNotFoundError(2, "No such file or directory")
        return "SlurmdLogFile=/x\n"

    try:
        lines = list(parse_conf(text, reading=reading))
    except FlexError as error:
        return [str(error)]
    return [str(fault) for fault in find_faults(lines, parse_release(release))]


@pytest.mark.parametrize(("release", "text", "taken"), probes())
def test_we_refuse_what_slurms_parser_refuses(release: str, text: str, taken: bool) -> None:
    said = faults(BEFORE + text.replace("\\~", "\\\n").replace("~", "\n") + "\n", release)
    if text in LAX and taken:
        assert bool(said) == bool(LAX[text]), said
    else:
        assert (not said) == taken, said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NodeName=n[1-2", "n[1-2"),
        ("NodeName=n1 State=FOO", '"FOO" is no state'),
        ("NodeName=n1 State=CLOUD+FOO", '"FOO" is no state'),
        ("PartitionName=q Nodes=z1 State=OPEN", '"OPEN" is no state'),
        ("PartitionName=q Nodes=nope[1-9]", "nope1, nope2, nope3 and 6 more"),
        ("SuspendExcNodes=z1,nope[1-2]:1", "SuspendExcNodes names nodes that don't exist"),
        ("SuspendExcNodes=", "has no value"),
        ("ResumeTimout=30", "did you mean ResumeTimeout?"),
        ("NodeName=n1 Memory=3", "is no parameter of Slurm"),
        ("PartitionName=q Nodes=z1 PowerDownOnIdle=YES", ""),
        ("SuspendTime=5 minutes", '"minutes" is not Key=Value'),
        ("SuspendTime=soon", '"soon" is no time'),
        ("SuspendTime=5 SuspendRate=3", "one setting a line"),
        ('Include "inc.conf"', "Include takes no quotes"),
        ("Include *.conf", "Include takes no globs"),
        ("Include gone.conf", "every Slurm command waits 60 s for it"),
        (" Include inc.conf", "is not Key=Value"),
        ("MaxTime=3", "is no parameter of Slurm"),
    ],
)
def test_a_fault_is_named(text: str, words: str) -> None:
    said = faults(BEFORE + text + "\n")
    assert len(said) == bool(words), said
    assert words in "".join(said)


def test_a_fault_names_its_file_and_line() -> None:
    assert faults(BEFORE + "\n# a comment\nBogus=1\n")[0].startswith("slurm.conf:8: Bogus ")


def test_a_key_that_only_another_release_knows_is_named_so() -> None:
    text = BEFORE + "SuspendExcStates=DRAIN\n"
    assert faults(text, "22.05") == [
        "slurm.conf:6: SuspendExcStates is not known to Slurm 22.05"
        " (leave it out, or use another release)"
    ]
    assert faults(text, "23.02") == []


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
def test_a_long_resume_timeout_is_fatal_but_an_infinite_one_is_not(release: str) -> None:
    assert faults(BEFORE + "ResumeTimeout=INFINITE\n", release) == []
    assert "at most 65535" in faults(BEFORE + "ResumeTimeout=70000\n", release)[0]


def test_circles_of_includes_end() -> None:
    with pytest.raises(FlexError, match="goes round in circles"):
        list(parse_conf("Include a.conf\n", reading=lambda _: "Include a.conf\n"))


def test_comments_and_continuations_are_read_as_slurm_reads_them() -> None:
    text = 'A=1 # one \\\nB="x#y"\nC=3\\#4\nD=5 \\\n E=6\n\nF=7\\\\\nG=8\n'
    assert list(logical_lines(text)) == [
        (1, "A=1 "),
        (2, 'B="x'),
        (3, "C=3#4"),
        (4, "D=5  E=6"),
        (7, "F=7\\"),
        (8, "G=8"),
    ]


def test_a_record_has_pairs_in_any_case() -> None:
    [line] = parse_conf('nodename=n[1-2] cpus=4 FEATURE="a,b" State=CLOUD\n')
    assert line == ConfLine(
        "slurm.conf",
        1,
        "nodename",
        "n[1-2]",
        (("cpus", "4"), ("FEATURE", "a,b"), ("State", "CLOUD")),
    )
    assert line.get("Feature", "Features") == "a,b"
    assert line.get("Weight") is None


def test_included_files_are_read_relative_to_slurm_conf(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=x\nINCLUDE more.conf\nTreeWidth=5\n")
    (tmp_path / "more.conf").write_text("SuspendTime=5\n")
    lines = read_conf(tmp_path / "slurm.conf")
    assert [(line.key, line.number) for line in lines] == [
        ("ClusterName", 1),
        ("SuspendTime", 1),
        ("TreeWidth", 3),
    ]
    with pytest.raises(FlexError, match="No such file"):
        read_conf(tmp_path / "none.conf")


class TestTheInstalledParser:
    def test_it_takes_what_is_right(self) -> None:
        assert ask_parser_about({"slurm.conf": BEFORE}) == []

    def test_it_names_what_is_wrong(self) -> None:
        said = ask_parser_about({"slurm.conf": BEFORE + "Bogus=1\n"})
        assert any("unrecognized key: Bogus" in line for line in said)

    def test_its_release_is_known(self) -> None:
        assert str(installed_release()) in ("22.05", "24.11", "26.05")

    def test_a_program_that_is_not_there_is_an_error(self) -> None:
        with pytest.raises(FlexError, match="is not installed"):
            ask_parser_about({"slurm.conf": BEFORE}, scontrol=["no-scontrol-here"])


@pytest.mark.parametrize("key", ["ResumeTimeout", "SuspendTimeout", "TreeWidth", "SuspendTime"])
def test_numbers_of_many_digits_are_no_defect_of_ours(key: str) -> None:
    assert bool(faults(f"{key}={'9' * 5000}\n")) == key.endswith("Timeout")
    wanted = Requirement("TreeWidth", "why", value="65533", least=50)
    assert not wanted.is_met_by("9" * 5000)
    assert not wanted.is_met_by("²")
