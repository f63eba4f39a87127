import time

import pytest
from health_builders import FakeScontrol

from slurm_flex.health import drain as drain_module
from slurm_flex.health.drain import Drain, drain
from slurm_flex.health.node import Node
from slurm_flex.health.verdict import drain_reason

REASON = "slurm-flex:health: gpu-count: 7 of 8 GPUs answer"


@pytest.fixture
def scontrol(tmp_path):
    return FakeScontrol(tmp_path / "scontrol.d")


def node(scontrol) -> Node:
    return Node("c1-gx-1", tools={"scontrol": str(scontrol.path)})


def test_a_node_in_service_is_drained_by_one_update(scontrol):
    assert drain(node(scontrol), REASON, {}).how is Drain.DONE
    assert scontrol.calls() == [
        ["--oneliner", "show", "node", "c1-gx-1"],
        ["update", "nodename=c1-gx-1", "state=drain", f"reason={REASON}"],
    ]


def test_scontrol_gets_the_configuration_that_slurmd_uses_and_utc(scontrol):
    drain(node(scontrol), REASON, {"SLURM_CONF": "/etc/slurm/slurm.conf", "LD_PRELOAD": "x"})
    for environment in scontrol.environments():
        assert environment["SLURM_CONF"] == "/etc/slurm/slurm.conf"
        assert environment["TZ"] == "UTC"
        assert "LD_PRELOAD" not in environment


def test_a_health_check_program_is_told_no_configuration_so_the_nodes_file_is(scontrol):
    """slurmd gives it SLURMD_NODENAME and nothing else (R 22.05.8)."""
    own = Node("n", tools={"scontrol": str(scontrol.path)}, slurm_conf="/opt/slurm.conf")
    drain(own, REASON, {"SLURMD_NODENAME": "n"})
    drain(own, REASON, {"SLURM_CONF": "/run/slurm.conf"})
    told = [environment["SLURM_CONF"] for environment in scontrol.environments()]
    assert told == ["/opt/slurm.conf"] * 2 + ["/run/slurm.conf"] * 2


@pytest.mark.parametrize(
    "state",
    ["IDLE+CLOUD+DRAIN", "MIXED+CLOUD+DRAIN", "DOWN*+CLOUD", "ALLOCATED+DRAIN+POWER_DOWN", "FAIL"],
)
def test_a_node_out_of_service_keeps_its_reason(scontrol, state):
    """An admin's drain is never touched, and ours is not made anew."""
    scontrol.answers(state)
    drained = drain(node(scontrol), REASON, {})
    assert drained.how is Drain.ALREADY
    assert state in drained.text
    assert scontrol.reasons() == []


@pytest.mark.parametrize("state", ["IDLE", "ALLOCATED+CLOUD", "MIXED*+CLOUD+MAINT", "", "\x00"])
def test_any_other_node_is_drained(scontrol, state):
    scontrol.answers(state)
    assert drain(node(scontrol), REASON, {}).how is Drain.DONE


def test_a_node_that_cannot_be_looked_at_is_not_touched(scontrol):
    scontrol.answers(status=1)
    drained = drain(node(scontrol), REASON, {})
    assert drained.how is Drain.FAILED
    assert scontrol.reasons() == []


def test_a_controller_that_does_not_answer_holds_nobody_up(scontrol, monkeypatch):
    monkeypatch.setattr(drain_module, "DEADLINE", drain_module.DEADLINE / 5)
    scontrol.answers(sleep=600)
    began = time.monotonic()
    assert drain(node(scontrol), REASON, {}).how is Drain.FAILED
    assert time.monotonic() - began < 4


def test_a_missing_scontrol_is_told():
    assert drain(Node("n", tools={"scontrol": "/nowhere"}), REASON, {}).how is Drain.FAILED


@pytest.mark.parametrize("name", ["a[1-3]", "a,b", "ALL x", "-x", "", "a\nb"])
def test_only_a_single_nodes_name_is_drained(scontrol, name):
    bad = Node(name, tools={"scontrol": str(scontrol.path)})
    assert drain(bad, REASON, {}).how is Drain.FAILED
    assert scontrol.calls() == []


def test_a_hostile_line_is_one_argument(scontrol):
    evil = "a\nb\x00c \"d' $(reboot) ; `x` %s \x1b[2J State=IDLE " + "x" * 4096
    reason = drain_reason("site", evil, "prolog")
    drain(node(scontrol), reason, {})
    assert scontrol.reasons() == [reason]
    assert len(reason) <= 200
    assert reason.isprintable()
