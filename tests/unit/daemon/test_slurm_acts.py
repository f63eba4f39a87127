from __future__ import annotations

from datetime import timedelta

from slurm_flex.actions import (
    Action,
    JobComment,
    JobStart,
    NodeComment,
    NodeDown,
    NodePowerDown,
    Reserve,
    Unreserve,
)
from slurm_flex.results import Result
from slurm_flex.slurm.errors import InvalidTarget, SlurmctldUnreachable
from slurm_flex.slurm_acts import apply_slurm
from tests.builders import NOON
from tests.unit.daemon.fakes import FakeSlurm


def comment(job: int, text: str = "flex: queued") -> JobComment:
    return JobComment(job=job, text=text, why="its story changed")


def tell(slurm: FakeSlurm, *actions: Action) -> list[Result]:
    return apply_slurm(actions, slurm, lambda: NOON)


def test_the_same_comment_for_many_jobs_is_one_command() -> None:
    slurm = FakeSlurm()
    results = tell(slurm, comment(1), comment(2), comment(3, "flex: other"), comment(4))
    assert slurm.calls == [
        ("job_comment", (1, 2), "flex: queued"),
        ("job_comment", (3,), "flex: other"),
        ("job_comment", (4,), "flex: queued"),
    ]
    assert [result.action.job for result in results if isinstance(result.action, JobComment)] == [
        1, 2, 3, 4,
    ]  # fmt: skip


def test_start_times_are_told_apart() -> None:
    slurm = FakeSlurm()
    later = timedelta(minutes=2)
    tell(
        slurm,
        JobStart(job=1, why="expired"),
        JobStart(job=2, why="expired"),
        JobStart(job=3, after=later, why="back-off"),
    )
    assert [call[1:] for call in slurm.calls] == [((1, 2), timedelta(0)), ((3,), later)]


def test_one_bad_job_fails_alone() -> None:
    slurm = FakeSlurm(failing_targets={"2": InvalidTarget("invalid job id")})
    results = tell(slurm, comment(1), comment(2), comment(3))
    assert [result.ok for result in results] == [True, False, True]
    assert "invalid job id" in results[1].error


def test_one_bad_node_is_named_and_stops_nothing() -> None:
    slurm = FakeSlurm(failing_targets={"c1-gx-1": InvalidTarget("invalid node name")})
    reason = "slurm-flex: expired"
    down, power_down = tell(
        slurm,
        NodeDown(nodes=("c1-gx-0", "c1-gx-1"), reason=reason, why="expired"),
        NodePowerDown(nodes=("c1-gx-0",), how="plain", reason=reason, why="expired"),
    )
    assert down.error == "c1-gx-1: invalid node name"
    assert power_down.ok


def test_an_unreachable_controller_fails_each_action_by_itself() -> None:
    slurm = FakeSlurm(failing={"node_down": SlurmctldUnreachable("no answer within 20 s")})
    results = tell(
        slurm,
        NodeDown(nodes=("c1-gx-0",), reason="slurm-flex: lost", why="gone"),
        NodeComment(nodes=("c1-gx-0",), text="flex: lost", why="its story changed"),
    )
    assert [result.ok for result in results] == [False, True]


def test_reservations_are_made_with_the_time_of_the_call_and_removed_together() -> None:
    slurm = FakeSlurm()
    start, end = NOON + timedelta(days=6), NOON + timedelta(days=7)
    tell(
        slurm,
        Unreserve(name="slurm-flex-j1-1", why="over"),
        Unreserve(name="slurm-flex-j2-1", why="over"),
        Reserve(name="slurm-flex-j3-1", nodes=("c1-gx-0",), start=start, end=end, why="it ends"),
    )
    assert slurm.calls == [
        ("unreserve", ("slurm-flex-j1-1", "slurm-flex-j2-1")),
        ("reserve", ("slurm-flex-j3-1",), ("c1-gx-0",), start, end, NOON),
    ]


def test_told_to_end_it_stops_between_two_commands() -> None:
    slurm = FakeSlurm()
    actions = [comment(1), comment(2, "flex: other"), comment(3, "flex: third")]
    results = apply_slurm(actions, slurm, lambda: NOON, lambda: len(slurm.calls) >= 1)
    assert len(slurm.calls) == 1
    assert ["told to end" in result.error for result in results] == [False, True, True]
