"""How changes are sent, and how exactly their failures are known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from slurm_flex.slurm.changes import MOST_AT_ONCE
from slurm_flex.slurm.controller import Failures
from slurm_flex.slurm.errors import (
    InvalidTarget,
    NotSupported,
    PermissionDenied,
    SlurmctldTooSlow,
    SlurmctldUnreachable,
    SlurmRefused,
)
from slurm_flex.slurm.scontrol import ScontrolController
from tests.unit.slurm.fake_slurm import FakeSlurm, nodes

NOW = datetime(2026, 12, 1, 12, tzinfo=timezone.utc)
UNKNOWN = "slurm_update error: Invalid node name specified"


def failed(failures: Failures) -> dict[str, type]:
    return {one.target: type(one.error) for one in failures}


@pytest.mark.parametrize(
    ("change", "pairs"),
    [
        (lambda c, n: c.node_down(n, "slurm-flex: lost"), "state=down reason=slurm-flex: lost"),
        (lambda c, n: c.node_undrain(n), "state=undrain"),
        (lambda c, n: c.node_resume(n), "state=resume"),
        (lambda c, n: c.node_idle(n), "state=idle"),
        (lambda c, n: c.node_power_up(n), "state=power_up"),
        (lambda c, n: c.node_power_down(n, "plain", "r"), "state=power_down reason=r"),
        (lambda c, n: c.node_power_down(n, "asap", "r"), "state=power_down_asap reason=r"),
        (lambda c, n: c.node_power_down(n, "force", "r"), "state=power_down_force reason=r"),
        (lambda c, n: c.node_comment(n, "flex: x"), "comment=flex: x"),
    ],
)
def test_many_nodes_take_one_command(
    slurm: FakeSlurm,
    change: Callable[[ScontrolController, list[str]], Failures],
    pairs: str,
) -> None:
    assert change(slurm.controller(), ["c1-gx-2", "c1-gx-0", "c1-gx-1", "c1-gx-0"]) == ()
    assert slurm.lines == [f"scontrol update nodename=c1-gx-[0-2] {pairs}"]


def test_a_thousand_nodes_go_in_chunks(slurm: FakeSlurm) -> None:
    assert slurm.controller().node_power_up(nodes(1200)) == ()
    assert len(slurm.calls) == 3
    assert f"c1-gx-[0-{MOST_AT_ONCE - 1}]" in slurm.lines[0]


def test_no_nodes_take_no_command(slurm: FakeSlurm) -> None:
    controller = slurm.controller()
    assert controller.node_power_up([]) == controller.job_hold([]) == controller.unreserve([]) == ()
    assert slurm.calls == []


def test_one_bad_node_fails_alone(slurm: FakeSlurm) -> None:
    slurm.refuse("nodename=", UNKNOWN)
    slurm.answer(r"nodename=c1-gx-(\[0-3\]|4|\[6-7\]) ")
    failures = slurm.controller().node_comment(nodes(8), "flex: x")
    assert failed(failures) == {"c1-gx-5": InvalidTarget}
    changed = [line.split()[2] for line in slurm.lines]
    assert changed[0] == "nodename=c1-gx-[0-7]"
    assert {"nodename=c1-gx-[0-3]", "nodename=c1-gx-4", "nodename=c1-gx-[6-7]"} <= set(changed)


def test_a_name_that_is_no_node_name_is_never_sent(slurm: FakeSlurm) -> None:
    failures = slurm.controller().node_down(["good-1", "bad name", "-x"], "r")
    assert failed(failures) == {"bad name": InvalidTarget, "-x": InvalidTarget}
    assert slurm.lines == ["scontrol update nodename=good-1 state=down reason=r"]


def test_a_refusal_that_is_for_all_is_not_asked_for_again(slurm: FakeSlurm) -> None:
    slurm.refuse("update", "slurm_update error: Invalid user id")
    failures = slurm.controller().node_down(nodes(600), "r")
    assert len(failures) == 600
    assert set(failed(failures).values()) == {PermissionDenied}
    assert len(slurm.calls) == 1


def test_what_one_batch_of_five_was_too_slow_for_is_left_to_the_next_pass(
    slurm: FakeSlurm,
) -> None:
    """Scenario 62: the others are applied."""
    slurm.refuse(r"\[1000-1499\]", "slurm_update error: Socket timed out on send/recv operation")
    failures = slurm.controller().node_down(nodes(2400), "r")
    assert len(slurm.calls) == 5
    assert [one.target for one in failures] == list(nodes(500, first=1000))
    assert set(failed(failures).values()) == {SlurmctldTooSlow}


def test_a_slurmctld_that_is_too_slow_twice_in_a_row_is_left_alone(slurm: FakeSlurm) -> None:
    slurm.refuse("update", "slurm_update error: Socket timed out on send/recv operation")
    failures = slurm.controller().job_start(list(range(1, 1001)))
    assert len(failures) == 1000
    assert len(slurm.calls) == 2


def test_a_slurmctld_that_is_away_is_asked_once_and_then_left_alone(slurm: FakeSlurm) -> None:
    slurm.refuse(
        "update",
        "slurm_update error: Unable to contact slurm controller (connect failure)",
    )
    controller = slurm.controller()
    assert set(failed(controller.node_down(nodes(600), "r")).values()) == {SlurmctldUnreachable}
    assert failed(controller.job_hold([1, 2])) == {
        "1": SlurmctldUnreachable,
        "2": SlurmctldUnreachable,
    }
    assert len(slurm.calls) == 1


@pytest.mark.parametrize(
    "said",
    ["slurm_update error: Invalid node state specified",
     "slurm_update error: Invalid node state transition"],
)  # fmt: skip
def test_nodes_that_need_no_resume_are_resumed(slurm: FakeSlurm, said: str) -> None:
    slurm.refuse("state=resume", said)
    assert slurm.controller().node_resume(nodes(4)) == ()
    assert len(slurm.calls) == 1


@pytest.mark.parametrize(
    "said",
    ["slurm_update error: Invalid node state specified",
     "slurm_update error: Invalid node state transition"],
)  # fmt: skip
def test_a_node_that_got_a_job_meanwhile_isnt_set_idle_and_the_others_are(
    slurm: FakeSlurm, said: str
) -> None:
    slurm.refuse(r"c1-gx-(2|\[0-3\]|\[2-3\]) state=idle", said)
    assert slurm.controller().node_idle(nodes(4)) == ()
    assert [line.split()[2] for line in slurm.lines] == [
        "nodename=c1-gx-[0-3]", "nodename=c1-gx-[0-1]", "nodename=c1-gx-[2-3]",
        "nodename=c1-gx-2", "nodename=c1-gx-3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ('say "hi" $(id) `id` %s \\ 한국 x=y', "say 'hi' $(id) `id` %s \\ 한국 x=y"),
        ("two\nlines\tand \x1b[31mred\x00", "two lines and [31mred"),
        ("x" * 500, "x" * 199 + "…"),
        ("", ""),
    ],
)
def test_whatever_a_text_holds_it_is_one_short_argument(
    slurm: FakeSlurm, text: str, sent: str
) -> None:
    assert slurm.controller().job_comment([4], text) == ()
    assert slurm.calls[0].argv == ["scontrol", "update", "jobid=4", f"admincomment={sent}"]


def test_a_reason_is_never_empty_or_slurm_refuses_it(slurm: FakeSlurm) -> None:
    slurm.controller().node_down(nodes(1), " \n")
    assert slurm.calls[0].argv[-1] == "reason=slurm-flex: no reason given"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda c: c.job_comment([5, 4, 5], "flex: x"), "update jobid=4,5 admincomment=flex: x"),
        (lambda c: c.job_start([4, 5]), "update jobid=4,5 starttime=now"),
        (
            lambda c: c.job_start([4], timedelta(seconds=89.5)),
            "update jobid=4 starttime=now+90",
        ),
        (lambda c: c.job_requeue([4, 5]), "requeue 4,5"),
        (lambda c: c.job_hold([4, 5]), "hold 4,5"),
        (lambda c: c.job_release([4, 5]), "release 4,5"),
        (lambda c: c.job_notify([4], "-- the end"), "notify 4  the end"),
    ],
)
def test_many_jobs_take_one_command(
    slurm: FakeSlurm, change: Callable[[ScontrolController], Failures], line: str
) -> None:
    assert change(slurm.controller()) == ()
    assert slurm.lines == [f"scontrol {line}"]


@pytest.mark.parametrize("signal", ["USR1", "B:USR1"])
def test_a_signal_goes_to_the_batch_step_alone(slurm: FakeSlurm, signal: str) -> None:
    assert slurm.controller().job_signal([4, 5], signal) == ()
    assert slurm.lines == ["scancel --batch --state=RUNNING --signal=USR1 4 5"]


def test_each_job_is_notified_by_a_command_of_its_own(slurm: FakeSlurm) -> None:
    assert slurm.controller().job_notify([4, 5], "hi") == ()
    assert slurm.lines == ["scontrol notify 4 hi", "scontrol notify 5 hi"]


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("Invalid job id specified for job 999", lambda c: c.job_comment([3, 999], "x")),
        ("Invalid job id specified for job 999\nslurm_suspend error: No error",
         lambda c: c.job_hold([3, 999])),
        ("Invalid job id specified for job 999\nslurm_suspend error:Invalid job id specified",
         lambda c: c.job_release([3, 999])),
        ("3_1-5: Job is pending execution\nInvalid job id specified for job 999",
         lambda c: c.job_requeue([3, 999])),
        ("3_[1-5]: Job is pending execution\nInvalid job id specified for job 999",
         lambda c: c.job_requeue([3, 999])),
        ("Job is no longer pending execution for job 3\nInvalid job id specified for job 999",
         lambda c: c.job_start([3, 999])),
        ("scancel: error: Kill job error on job id 999: Invalid job id specified",
         lambda c: c.job_signal([3, 999], "USR1")),
    ],
)  # fmt: skip
def test_one_finished_job_in_a_list_fails_alone(
    slurm: FakeSlurm, said: str, change: Callable[[ScontrolController], Failures]
) -> None:
    slurm.refuse("", said)
    assert failed(change(slurm.controller())) == {"999": InvalidTarget}
    assert len(slurm.calls) == 1


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("Job has already finished for job 7", lambda c: c.job_comment([7, 10], "running")),
        ("job notify failure: Job has already finished", lambda c: c.job_notify([7], "hi")),
        ("scancel: error: Kill job error on job id 7: Job has already finished",
         lambda c: c.job_signal([7, 10], "USR1")),
    ],
)  # fmt: skip
def test_a_job_that_ends_while_it_is_spoken_to_is_no_failure(
    slurm: FakeSlurm, said: str, change: Callable[[ScontrolController], Failures]
) -> None:
    slurm.refuse("", said)
    assert change(slurm.controller()) == ()


def test_a_refusal_that_names_no_job_is_tracked_down(slurm: FakeSlurm) -> None:
    slurm.refuse("hold", "slurm_suspend error: Unspecified error")
    slurm.answer("hold 4$")
    assert failed(slurm.controller().job_hold([4, 5])) == {"5": SlurmRefused}
    assert slurm.lines == ["scontrol hold 4,5", "scontrol hold 4", "scontrol hold 5"]


def test_a_job_that_is_not_running_needs_no_notice(slurm: FakeSlurm) -> None:
    slurm.refuse("notify", "job notify failure: Requested operation is presently disabled")
    assert slurm.controller().job_notify([4], "hi") == ()


def test_a_job_that_has_gone_is_said_so(slurm: FakeSlurm) -> None:
    slurm.refuse("notify", "job notify failure: Invalid job id specified")
    assert failed(slurm.controller().job_notify([4], "hi")) == {"4": InvalidTarget}


def test_a_jobs_own_name_is_used_where_its_id_means_the_whole_array(slurm: FakeSlurm) -> None:
    slurm.replay("24.11")
    task = "13~MARK~RUNNING~MARK~None~MARK~gx~MARK~root~MARK~1~MARK~c1-gx-0~MARK~~MARK~(null)~MARK~"
    task += "(null)~MARK~1~MARK~10:00~MARK~N/A~MARK~N/A~MARK~N/A~MARK~1~MARK~OK~MARK~1~MARK~0~MARK~"
    task += "{}~MARK~13~MARK~N/A~MARK~(null)~MARK~(null)~MARK~~MARK~\n"
    controller = slurm.controller()
    slurm.answer("^squeue", task.format("4"))
    controller.read()
    slurm.refuse("requeue", "13_4: Job is pending execution")
    assert controller.job_requeue([13, 14]) == ()
    assert slurm.lines[-1] == "scontrol requeue 13_4,14"
    slurm.answer("^squeue", task.format("4-7%2"))  # pending: its tasks are one record
    controller.read()
    controller.job_requeue([13])
    assert slurm.lines[-1] == "scontrol requeue 13"


def test_a_reservation_is_made_with_times_that_need_no_zone(slurm: FakeSlurm) -> None:
    start, end = NOW + timedelta(hours=1), NOW + timedelta(hours=2, milliseconds=1)
    assert slurm.controller().reserve("slurm-flex-j1-1", nodes(2), start, end, NOW) == ()
    assert slurm.lines == [
        "scontrol create reservationname=slurm-flex-j1-1 nodes=c1-gx-[0-1] starttime=now+3600"
        " endtime=now+7201 users=root flags=maint,ignore_jobs"
    ]


def test_an_existing_reservation_is_given_the_new_nodes_and_times(slurm: FakeSlurm) -> None:
    slurm.refuse("create", "Error creating the reservation: Duplicate reservation name")
    end = NOW + timedelta(hours=1)
    assert slurm.controller().reserve("slurm-flex-j1-1", nodes(2), NOW, end, NOW) == ()
    assert slurm.lines[1] == (
        "scontrol update reservationname=slurm-flex-j1-1 nodes=c1-gx-[0-1] starttime=now"
        " endtime=now+3600"
    )
    slurm.refuse("update .*starttime", "slurm_update error: Reservation already started")
    assert slurm.controller().reserve("slurm-flex-j1-1", nodes(2), NOW, end, NOW) == ()
    assert slurm.lines[-1].endswith("nodes=c1-gx-[0-1] endtime=now+3600")


def test_a_reservation_that_cannot_be_is_a_failure_of_its_own_name(slurm: FakeSlurm) -> None:
    controller = slurm.controller()
    hour = timedelta(hours=1)
    past = controller.reserve("slurm-flex-j1-1", nodes(1), NOW - 2 * hour, NOW - hour, NOW)
    assert failed(past) == {"slurm-flex-j1-1": InvalidTarget}
    bad = controller.reserve("slurm-flex-j1-1", ["a b"], NOW, NOW + hour, NOW)
    assert failed(bad) == {"slurm-flex-j1-1": InvalidTarget}
    assert slurm.calls == []
    slurm.refuse("create", "Error creating the reservation: Requested nodes are busy")
    busy = controller.reserve("slurm-flex-j1-1", nodes(1), NOW, NOW + hour, NOW)
    assert failed(busy) == {"slurm-flex-j1-1": SlurmRefused}


def test_a_reservation_that_has_gone_is_deleted_already(slurm: FakeSlurm) -> None:
    slurm.refuse("delete", "delete_reservation x: Requested reservation is invalid")
    assert slurm.controller().unreserve(["slurm-flex-j1-1", "slurm-flex-j2-1"]) == ()
    assert len(slurm.calls) == 2


def test_a_reservation_that_is_not_ours_is_never_touched(slurm: FakeSlurm) -> None:
    controller = slurm.controller()
    assert failed(controller.unreserve(["maint_x"])) == {"maint_x": InvalidTarget}
    made = controller.reserve("maint_x", nodes(1), NOW, NOW + timedelta(hours=1), NOW)
    assert failed(made) == {"maint_x": InvalidTarget}
    assert slurm.calls == []


def test_static_nodes_are_excluded_from_power_saving_where_slurm_can(slurm: FakeSlurm) -> None:
    assert slurm.controller().suspend_exclude(nodes(2)) == ()
    assert slurm.lines == ["scontrol update SuspendExcNodes+=c1-gx-[0-1]"]
    slurm.refuse("SuspendExcNodes", "No valid entity in update command\nInput line must include")
    failures = slurm.controller().suspend_exclude(nodes(2))
    assert failed(failures) == {"c1-gx-0": NotSupported, "c1-gx-1": NotSupported}
    assert "23.02" in failures[0].error.fix
