"""A drain catches no job: nodes are reserved, looked at again, and drained if nobody has them."""

from __future__ import annotations

from slurm_flex.slurm.errors import InvalidTarget, SlurmctldUnreachable
from tests.unit.slurm.fake_slurm import FakeSlurm, nodes

REASON = "slurm-flex: release: its job is gone"
GUARD = "slurm-flex-drain.c1-gx-0"
UNKNOWN = "slurm_update error: Invalid node name specified"
AWAY = "slurm_update error: Unable to contact slurm controller (connect failure)"


def shows(slurm: FakeSlurm, **states: str) -> None:
    """What slurmctld shows when it is looked at again: c1-gx-0, c1-gx-1, ... in these states."""
    lines = [
        f"NodeName=c1-gx-{name.removeprefix('gx')} State={state} ThreadsPerCore=1"
        for name, state in states.items()
    ]
    slurm.answer("show node", "\n".join(lines) + "\n")


def test_what_nobody_has_is_drained_while_nothing_can_be_placed_there(slurm: FakeSlurm) -> None:
    up = "IDLE+CLOUD+POWERING_UP"
    shows(slurm, gx0=up, gx1="MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", gx2=up)
    assert slurm.controller().node_drain(nodes(3), REASON) == ()
    assert slurm.lines == [
        f"scontrol create reservationname={GUARD} nodes=c1-gx-[0-2] starttime=now endtime=now+120"
        " users=root flags=maint,ignore_jobs",
        "scontrol --all -o show node c1-gx-[0-2]",
        f"scontrol update nodename=c1-gx-[0,2] state=drain reason={REASON}",
        f"scontrol delete reservationname={GUARD}",
    ]


def test_a_node_that_is_up_is_drained_with_its_job_on_it(slurm: FakeSlurm) -> None:
    """It leaves when the job is over: only on a node that powers up a drain ends the job's stay."""
    shows(slurm, gx0="MIXED+CLOUD")
    assert slurm.controller().node_drain(nodes(1), REASON) == ()
    assert f"scontrol update nodename=c1-gx-0 state=drain reason={REASON}" in slurm.lines


def test_where_all_have_got_a_job_nothing_is_drained(slurm: FakeSlurm) -> None:
    shows(slurm, gx0="ALLOCATED+CLOUD+POWERING_UP")
    assert slurm.controller().node_drain(nodes(1), REASON) == ()
    assert not any("state=drain" in line for line in slurm.lines)
    assert slurm.lines[-1] == f"scontrol delete reservationname={GUARD}"


def test_the_guard_of_a_drain_that_was_broken_off_is_taken_over(slurm: FakeSlurm) -> None:
    shows(slurm, gx0="IDLE+CLOUD+POWERING_UP")
    slurm.refuse("scontrol create", "Error creating the reservation: Duplicate reservation name")
    assert slurm.controller().node_drain(nodes(1), REASON) == ()
    assert f"scontrol update nodename=c1-gx-0 state=drain reason={REASON}" in slurm.lines
    assert slurm.lines[-1] == f"scontrol delete reservationname={GUARD}"


def test_without_the_guard_nothing_is_drained(slurm: FakeSlurm) -> None:
    shows(slurm, gx0="IDLE+CLOUD+POWERING_UP")
    slurm.refuse("scontrol create", AWAY)
    (failure,) = slurm.controller().node_drain(nodes(1), REASON)
    assert (failure.target, type(failure.error)) == ("c1-gx-0", SlurmctldUnreachable)
    assert not any("state=drain" in line for line in slurm.lines)


def test_a_drain_that_is_refused_leaves_no_guard_behind(slurm: FakeSlurm) -> None:
    shows(slurm, gx0="IDLE+CLOUD+POWERING_UP")
    slurm.refuse("state=drain", UNKNOWN)
    (failure,) = slurm.controller().node_drain(nodes(1), REASON)
    assert (failure.target, type(failure.error)) == ("c1-gx-0", InvalidTarget)
    assert slurm.lines[-1] == f"scontrol delete reservationname={GUARD}"


def test_one_unknown_node_fails_alone(slurm: FakeSlurm) -> None:
    slurm.answer("show node", "NodeName=c1-gx-0 State=IDLE+CLOUD+POWERING_UP ThreadsPerCore=1\n")
    slurm.refuse(r"scontrol create .*nodes=c1-gx-(1|\[0-1\]) ", UNKNOWN)
    failures = slurm.controller().node_drain(nodes(2), REASON)
    assert [(one.target, type(one.error)) for one in failures] == [("c1-gx-1", InvalidTarget)]
    assert f"scontrol update nodename=c1-gx-0 state=drain reason={REASON}" in slurm.lines


def test_five_hundred_nodes_take_four_commands(slurm: FakeSlurm) -> None:
    shows(slurm, **{f"gx{at}": "IDLE+CLOUD+POWERING_UP" for at in range(500)})
    assert slurm.controller().node_drain(nodes(500), REASON) == ()
    assert len(slurm.calls) == 4
