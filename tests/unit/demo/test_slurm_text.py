"""One-line records of scontrol, as real releases print them."""

from __future__ import annotations

from slurm_flex.demo.slurm_text import flags, record

NODE = (
    "NodeName=c1-gx-0 Arch=x86_64 CPUAlloc=0 NodeAddr=127.0.0.1 State=DOWN*+CLOUD+POWERED_DOWN "
    "OS=Linux 6.1.0 #1 SMP MCS_label=N/A CfgTRES=cpu=2,mem=1000M,billing=2 AllocTRES= "
    "Reason=slurm-flex: expired, ran=6h [root@2026-12-01T03:40:01] Comment=two words\n"
)


def test_values_with_spaces_and_equal_signs_are_whole() -> None:
    node = record(NODE)
    assert node["OS"] == "Linux 6.1.0 #1 SMP"
    assert node["Reason"] == "slurm-flex: expired, ran=6h [root@2026-12-01T03:40:01]"
    assert node["CfgTRES"] == "cpu=2,mem=1000M,billing=2"
    assert node["AllocTRES"] == ""
    assert node["Comment"] == "two words"


def test_of_several_records_the_first_is_read_and_of_none_nothing() -> None:
    assert record("JobId=1 JobState=PENDING\nJobId=2 JobState=RUNNING\n")["JobId"] == "1"
    assert record("\n") == {}


def test_a_state_is_a_set_of_flags_without_marks() -> None:
    assert flags(record(NODE)["State"]) == {"DOWN", "CLOUD", "POWERED_DOWN"}
