"""What real controllers of three releases printed (tests/data/slurm), read as values."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import pytest

from slurm_flex.model import Job, Node, Slurm
from slurm_flex.slurm.errors import NotSupported, ParseError
from slurm_flex.slurm.records import (
    parse_nodes,
    parse_partitions,
    parse_ping,
    parse_reservations,
)
from slurm_flex.slurm.squeue import parse_queue
from tests.unit.slurm.fake_slurm import RECORDED, FakeSlurm

RELEASES = ("22.05", "24.11", "26.05")
EVIL = 'evil JobId=77 Comment=y\nJobId=78 JobState=RUNNING\t~fake~"q" \\n $(id) 한국'


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def seen(slurm: FakeSlurm, release: str) -> Slurm:
    slurm.replay(release)
    return slurm.controller().read()


def job(seen: Slurm, job_id: int) -> Job:
    (found,) = [one for one in seen.jobs if one.id == job_id]
    return found


def node(seen: Slurm, name: str) -> Node:
    (found,) = [one for one in seen.nodes if one.name == name]
    return found


def test_a_pass_reads_with_six_commands_at_most_and_nodes_before_jobs(
    slurm: FakeSlurm, release: str
) -> None:
    slurm.replay(release)
    slurm.controller().read()
    lines = slurm.lines
    assert len(lines) <= (6 if release == "22.05" else 5)
    assert lines.index("scontrol --all -o show node") < min(
        at for at, line in enumerate(lines) if line.startswith("squeue")
    )


def test_the_controller_says_which_release_it_is_and_how_it_is_set(
    seen: Slurm, release: str
) -> None:
    assert (seen.version or "").startswith(release)
    assert seen.responding and seen.primary
    assert seen.config.resume_timeout == timedelta(seconds=3000)
    assert seen.config.suspend_timeout == timedelta(seconds=5)
    assert seen.config.suspend_exc_nodes is None
    assert "idle_on_node_suspend" in (seen.config.slurmctld_parameters or "")


def test_every_node_is_there_with_its_flags(seen: Slurm) -> None:
    assert len(seen.nodes) == 9
    assert node(seen, "c1-gx-0").is_believed_up and node(seen, "c1-gx-0").is_allocated
    assert node(seen, "c1-gx-4").is_powering_up
    assert node(seen, "c1-gx-3").is_down and node(seen, "c1-gx-3").is_powered_down
    assert node(seen, "c1-cp-2").is_drained
    assert not any(one.unknown_flags for one in seen.nodes)


def test_a_reason_says_who_wrote_it_when_whatever_else_stands_in_it(seen: Slurm) -> None:
    lost = node(seen, "c1-gx-3")
    assert lost.reason == "slurm-flex: lost [a@b] State=IDLE"
    assert lost.reason_user == "root"
    assert lost.reason_time is not None and lost.reason_time.utcoffset() == timedelta(0)
    assert lost.comment == "flex: a=b State=IDLE Reason=none"
    assert node(seen, "c1-cp-2").reason == "an admin\nwith two lines"
    assert node(seen, "c1-gx-1").reason is None and node(seen, "c1-gx-1").comment is None


def test_an_instance_id_is_read_where_the_release_has_one(seen: Slurm, release: str) -> None:
    has_one = release != "22.05"
    assert node(seen, "c1-gx-0").instance_id == ("4567890123" if has_one else None)
    assert node(seen, "c1-gx-0").boot_time is not None
    assert node(seen, "c1-gx-4").boot_time is None


def test_every_job_is_there_and_no_users_words_make_another(seen: Slurm) -> None:
    assert sorted(one.id for one in seen.jobs) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert job(seen, 1).comment == EVIL
    assert job(seen, 1).state == "RUNNING"


def test_a_running_job_has_all_that_a_rule_asks_for(seen: Slurm) -> None:
    running = job(seen, 1)
    assert running.nodes == ("c1-gx-0", "c1-gx-1")
    assert running.exclude_nodes == ("c1-gx-5",)
    assert (running.features, running.partition, running.user) == ("flex", "gx", "root")
    assert running.num_nodes == 2
    assert running.time_limit == timedelta(minutes=10)
    assert running.exclusive and running.batch and running.requeue
    assert running.start_time is not None and running.end_time is not None
    assert running.end_time - running.start_time == timedelta(minutes=10)
    assert running.restarts == 0 and running.priority > 0
    assert running.het_job_id is None and running.array_tasks is None


def test_a_job_without_a_limit_has_no_end(seen: Slurm) -> None:
    assert job(seen, 4).time_limit is None
    assert job(seen, 4).end_time is None


def test_the_components_of_a_heterogeneous_job_know_their_leader(seen: Slurm) -> None:
    assert job(seen, 4).het_job_id == job(seen, 5).het_job_id == 4


def test_pending_array_tasks_are_one_record(seen: Slurm) -> None:
    assert job(seen, 3).array_tasks == "1-5%2"
    assert job(seen, 3).waits_for_begin_time
    assert job(seen, 3).nodes == ()


def test_what_a_user_asked_for_is_read(seen: Slurm) -> None:
    placed = job(seen, 2)
    assert placed.required_nodes == placed.nodes == ("c1-gx-4", "c1-gx-5")
    assert placed.is_configuring
    assert not placed.requeue and not placed.is_requeueable
    assert not placed.exclusive
    assert placed.admin_comment == "flex: waits for x=y (z)"
    assert not job(seen, 7).batch
    held = job(seen, 9)
    assert (held.priority, held.reason) == (0, "JobHeldUser")
    assert held.time_limit == timedelta(days=2)


def test_partitions_and_reservations_are_read(seen: Slurm) -> None:
    gx, cp = seen.partitions
    assert (gx.name, gx.state, gx.max_time, len(gx.nodes)) == ("gx", "UP", timedelta(hours=1), 6)
    assert (cp.name, cp.max_time, len(cp.nodes)) == ("cp", None, 3)
    (reservation,) = seen.reservations
    assert reservation.name == "slurm-flex-j1-1"
    assert reservation.nodes == ("c1-gx-0", "c1-gx-1")
    assert reservation.start is not None and reservation.end is not None
    assert reservation.end - reservation.start == timedelta(hours=1)
    assert {"MAINT", "IGNORE_JOBS"} <= set(reservation.flags)


def test_a_squeue_that_leaves_a_field_out_is_not_read(slurm: FakeSlurm) -> None:
    slurm.replay("24.11")
    text = (RECORDED / "24.11" / "queue.txt").read_text()
    slurm.answer("^squeue .*--noconvert$", text.replace("~MARK~(null)~MARK~", "~MARK~", 1))
    with pytest.raises(ParseError, match="multiple"):
        slurm.controller().read()


def test_a_new_mark_parts_the_fields_in_each_call_and_only_the_environment_knows_it(
    slurm: FakeSlurm,
) -> None:
    slurm.replay("24.11")
    controller = slurm.controller()
    controller.read()
    controller.read()
    first, second = (call for call in slurm.calls if call.argv[0] == "squeue")
    assert first.env["SQUEUE_FORMAT2"] != second.env["SQUEUE_FORMAT2"]
    assert "~" not in first.line


def test_an_empty_cluster_is_read_as_one(slurm: FakeSlurm) -> None:
    slurm.replay("24.11")
    slurm.answer("show node$", "No nodes in the system\n")
    slurm.answer("show partition$", "No partitions in the system\n")
    slurm.answer("show reservation$", "No reservations in the system\n")
    slurm.answer("^squeue", "")
    seen = slurm.controller().read()
    assert (seen.nodes, seen.partitions, seen.reservations, seen.jobs) == ((), (), (), ())


@pytest.mark.parametrize(
    "text",
    ["something else\n", "NodeName=a Arch=x\n", "NodeName=a State=IDLE ThreadsPerCore=1 "
     "BootTime=yesterday\n"],
)  # fmt: skip
def test_nodes_that_cannot_be_read_are_an_error_and_not_left_out(text: str) -> None:
    with pytest.raises(ParseError):
        parse_nodes(text)


def test_a_reservation_or_partition_that_makes_no_sense_is_an_error() -> None:
    with pytest.raises(ParseError, match="yesterday"):
        parse_reservations("ReservationName=x StartTime=yesterday Nodes=a\n")
    with pytest.raises(ParseError, match="partition x"):
        parse_partitions("PartitionName=x Nodes=a[1- State=UP\n")


@pytest.mark.parametrize(
    "end",
    [
        "Comment=flex: up  InstanceId=42  ReservationName=slurm-flex-j1-1",
        "Comment=flex: up  InstanceId=42 InstanceType=a3 ReservationName=r TLSCertTokenSet=no "
        "TLSCertLastRenewal=Unknown",
        "ReservationName=maint_1",
    ],
)
def test_a_node_under_an_active_reservation_is_read(end: str) -> None:
    (found,) = parse_nodes(f"NodeName=c1-gx-0 State=IDLE+RESERVED ThreadsPerCore=2 {end} \n")
    assert found.reason is None
    assert (found.comment, found.instance_id) in [("flex: up", "42"), (None, None)]


def test_slurms_own_reason_has_no_author() -> None:
    line = "NodeName=a State=DOWN+CLOUD ThreadsPerCore=1 BootTime=None AveWatts=0"
    (one,) = parse_nodes(f"{line} Reason=Not responding")
    assert (one.reason, one.reason_user, one.reason_time) == ("Not responding", None, None)


def test_of_several_controllers_the_first_that_is_up_acts(slurm: FakeSlurm) -> None:
    slurm.replay("24.11")
    config = (RECORDED / "24.11" / "config.txt").read_text().partition("Slurmctld(primary) at")[0]
    down_up = "Slurmctld(primary) at a is DOWN\nSlurmctld(backup) at b.example is UP\n"
    slurm.answer("show config", config + down_up)
    assert parse_ping(config + down_up) == (("a", False), ("b.example", True))
    assert slurm.controller(host="b").read().primary
    assert not slurm.controller(host="a").read().primary
    slurm.answer("show config", config + down_up.replace("DOWN", "UP"))
    assert slurm.controller(host="a.example").read().primary
    assert not slurm.controller(host="b").read().primary


def test_nodes_that_slurm_hides_are_surfaced_with_the_cure(slurm: FakeSlurm) -> None:
    slurm.replay("22.05")
    controller = slurm.controller()
    controller.read()
    assert not controller.notices
    config = (RECORDED / "22.05" / "config.txt").read_text()
    slurm.answer("show config", config.replace("= cloud\n", "= none\n"))
    shown = [
        line
        for line in (RECORDED / "22.05" / "nodes.txt").read_text().splitlines(keepends=True)
        if "c1-cp-" not in line and "two lines" not in line
    ]
    slurm.answer("show node$", "".join(shown))
    controller.read()
    (notice,) = controller.notices
    assert isinstance(notice, NotSupported)
    assert "c1-cp-[0-2]" in str(notice) and "PrivateData=cloud" in notice.fix


def test_a_user_cannot_stop_a_pass_with_an_odd_wish(slurm: FakeSlurm) -> None:
    slurm.replay("24.11")
    text = (RECORDED / "24.11" / "queue.txt").read_text()
    slurm.answer("^squeue", text.replace("~MARK~c1-cp-1~MARK~", "~MARK~c1-cp-[1-~MARK~"))
    assert job(slurm.controller().read(), 9).required_nodes == ()


def test_ten_thousand_nodes_and_five_thousand_jobs_are_parsed_in_a_second() -> None:
    lines = (RECORDED / "24.11" / "nodes.txt").read_text().splitlines()
    line = next(one for one in lines if "c1-gx-3 " in one)
    text = "".join(line.replace("c1-gx-3", f"c1-gx-{at}") + "\n" for at in range(10_000))
    started = time.process_time()
    assert len(parse_nodes(text)) == 10_000
    fields = tuple(f"f{at}" for at in range(25))
    queue = "".join("".join(f"value{at}~MARK~" for at in range(25)) + "\n" for _ in range(5_000))
    assert len(list(parse_queue(queue, "~MARK~", fields))) == 5_000
    assert time.process_time() - started < 1.5


def test_times_are_utc() -> None:
    (one,) = parse_reservations(
        "ReservationName=x StartTime=2026-12-01T04:03:52 EndTime=2026-12-01T05:03:52 Nodes=(null)"
    )
    assert one.start == datetime(2026, 12, 1, 4, 3, 52, tzinfo=timezone.utc)
    assert one.nodes == ()
