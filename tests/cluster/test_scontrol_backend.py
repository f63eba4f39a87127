"""The scontrol backend against a real slurmctld of each release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slurm_flex.demo.controller import Controller
from slurm_flex.demo.layout import CloudNode, Layout, Partition, Programs, Timeouts
from slurm_flex.model import Job, Node, Reservation
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.errors import InvalidTarget, NotSupported, SlurmctldUnreachable
from slurm_flex.slurm.scontrol import ScontrolController

pytestmark = pytest.mark.cluster

SOON = timedelta(seconds=40)
EVIL = 'x\nJobId=1 JobState=FAILED NodeList=c1-gx-3\n~fake~ "quoted" $(id) `id` %s 한국 \\n end'


def layout(programs: Programs) -> Layout:
    return Layout(
        nodes=[CloudNode(f"c1-gx-{index}", features="gx") for index in range(4)]
        + [CloudNode(f"c1-cp-{index}") for index in range(2)],
        partitions=[
            Partition("gx", "c1-gx-[0-3]", "Default=YES MaxTime=1-00:00:00"),
            Partition("cp", "c1-cp-[0-1]", "MaxTime=INFINITE State=DRAIN"),
        ],
        programs=programs,
        timeouts=Timeouts(idle=timedelta(hours=1), suspend=timedelta(seconds=4)),
    )


@pytest.fixture(scope="module")
def slurm(release: str, power_programs: Programs) -> Iterator[Controller]:
    with Controller(layout(power_programs), release=release) as controller:
        yield controller


@pytest.fixture
def no_boot(slurm: Controller) -> Iterator[Path]:
    """While this file is there no VM boots."""
    path = slurm.folder / "no-boot"
    path.touch()
    yield path
    path.unlink(missing_ok=True)


def backend_of(slurm: Controller, timeout: timedelta = timedelta(seconds=20)) -> ScontrolController:
    """As a daemon has it whose own zone is far from UTC."""
    env = {**slurm.env, "TZ": "Asia/Kathmandu", "SQUEUE_STATES": "COMPLETED"}
    return ScontrolController(
        SlurmCommands(
            bin_dir=str(slurm.bin_dir), slurm_conf=str(slurm.conf_path), timeout=timeout, env=env
        )
    )


@pytest.fixture
def backend(slurm: Controller) -> Iterator[ScontrolController]:
    yield backend_of(slurm)
    slurm.scancel("--user=root")
    slurm.wait_for(lambda: not slurm.squeue("--noheader"), SOON, "no job is left")


def node(backend: ScontrolController, name: str) -> Node:
    (found,) = [one for one in backend.read().nodes if one.name == name]
    return found


def job(backend: ScontrolController, job_id: int) -> Job:
    (found,) = [one for one in backend.read().jobs if one.id == job_id]
    return found


def reservation(backend: ScontrolController, name: str) -> Reservation | None:
    found = [one for one in backend.read().reservations if one.name == name]
    return found[0] if found else None


def now() -> datetime:
    return datetime.now(timezone.utc)


def test_everything_that_is_there_is_read(
    slurm: Controller, backend: ScontrolController, release: str
) -> None:
    seen = backend.read()
    assert (seen.version or "").startswith(release)
    assert seen.responding and seen.primary and backend.notices == ()
    assert sorted(one.name for one in seen.nodes) == sorted(slurm.nodes)
    assert not any(one.unknown_flags for one in seen.nodes)
    gx, cp = seen.partitions
    assert (gx.state, gx.max_time, len(gx.nodes)) == ("UP", timedelta(days=1), 4)
    assert (cp.state, cp.max_time) == ("DRAIN", None)
    assert seen.config.suspend_timeout == timedelta(seconds=4)
    assert seen.config.resume_timeout == timedelta(seconds=60)
    assert "power_save_interval=2" in (seen.config.slurmctld_parameters or "")


def test_a_job_is_read_whole_and_its_words_forge_nothing(
    slurm: Controller, backend: ScontrolController
) -> None:
    asked = now()
    wanted = ["-w", "c1-gx-[0-1]", "-x", "c1-gx-3", "-N2", "-C", "gx", "-t", "1-02:03:00", "-H"]
    words = [f"--comment={EVIL}", f"--job-name={EVIL}"]
    job_id = slurm.sbatch(*wanted, "--exclusive", "--no-requeue", *words, "--wrap=sleep 60")
    seen = job(backend, job_id)
    assert (seen.state, seen.priority, seen.partition, seen.user) == ("PENDING", 0, "gx", "root")
    assert seen.required_nodes == ("c1-gx-0", "c1-gx-1")
    assert seen.exclude_nodes == ("c1-gx-3",)
    assert (seen.features, seen.num_nodes, seen.nodes) == ("gx", 2, ())
    assert seen.time_limit == timedelta(days=1, hours=2, minutes=3)
    assert seen.exclusive and seen.batch and not seen.requeue
    assert seen.comment == EVIL
    assert seen.submit_time is not None
    assert abs(seen.submit_time - asked) < timedelta(seconds=10)
    assert [one.id for one in backend.read().jobs if "FAILED" in one.state] == []
    shared = slurm.sbatch("-N1", "-H", "--wrap=sleep 60")
    assert not job(backend, shared).exclusive


def test_any_text_arrives_as_one_line(slurm: Controller, backend: ScontrolController) -> None:
    line = "x JobId=1 JobState=FAILED NodeList=c1-gx-3 ~fake~ 'quoted' $(id) `id` %s 한국 \\n end"
    job_id = slurm.sbatch("-H", "--wrap=sleep 60")
    assert backend.job_comment([job_id], EVIL) == ()
    assert job(backend, job_id).admin_comment == line
    assert backend.node_comment(["c1-gx-3"], EVIL) == ()
    assert backend.node_drain(["c1-gx-3"], EVIL) == ()
    drained = node(backend, "c1-gx-3")
    assert drained.is_drained
    assert (drained.reason, drained.comment, drained.reason_user) == (line, line, "root")
    assert drained.reason_time is not None
    assert abs(drained.reason_time - now()) < timedelta(seconds=10)
    assert backend.node_comment(["c1-gx-3"], "") == ()
    assert backend.node_undrain(["c1-gx-3"]) == ()
    undrained = node(backend, "c1-gx-3")
    assert not undrained.is_drained and undrained.comment is None


def test_an_expired_node_gives_its_job_back_at_once(
    slurm: Controller, backend: ScontrolController
) -> None:
    job_id = slurm.sbatch("-w", "c1-gx-0", "--wrap=sleep 300")
    slurm.wait_for_job(job_id, "RUNNING", SOON)
    assert job(backend, job_id).nodes == ("c1-gx-0",)
    assert backend.node_down(["c1-gx-0"], "slurm-flex: expired") == ()
    assert backend.node_power_down(["c1-gx-0"], "plain", "slurm-flex: expired") == ()
    slurm.wait_for(
        lambda: job(backend, job_id).waits_for_begin_time, SOON, "the job waits for its begin time"
    )
    waiting = job(backend, job_id)
    assert waiting.start_time is not None and waiting.start_time > now() + timedelta(seconds=60)
    slurm.wait_for(lambda: node(backend, "c1-gx-0").is_off, SOON, "the node is off")
    assert backend.job_start([job_id], timedelta(seconds=5)) == ()
    start = job(backend, job_id).start_time
    assert start is not None and start < now() + timedelta(seconds=6)
    assert backend.job_start([job_id]) == ()
    slurm.wait_for_job(job_id, "CONFIGURING|RUNNING", SOON)
    assert job(backend, job_id).restarts == 1
    assert backend.job_start([job_id]) == ()  # it has begun: nothing left to do


def test_nodes_are_powered_up_and_let_go_in_every_way(
    slurm: Controller, backend: ScontrolController, no_boot: Path
) -> None:
    pair = ["c1-gx-1", "c1-gx-2"]
    assert backend.node_power_up(pair) == ()
    for name in pair:
        slurm.wait_for_node(name, SOON, has="POWERING_UP")
    assert backend.node_power_up(pair) == ()  # re-arms ResumeTimeout
    for name in pair:  # else the request stays on a node that is up (R 24.11.5, 26.05)
        slurm.wait_for_node(name, SOON, has="POWERING_UP", lacks="POWER_UP")
    no_boot.unlink()
    for name in pair:
        slurm.wait_for_node(name, SOON, lacks="POWERING_UP+POWERED_DOWN+NOT_RESPONDING")
    assert node(backend, "c1-gx-1").boot_time is not None
    assert backend.node_resume(pair) == ()  # neither is down
    assert backend.node_idle(pair) == ()  # neither is off
    assert all(node(backend, name).is_believed_up for name in pair)
    assert backend.node_down(["c1-gx-1"], "slurm-flex: test") == ()
    assert node(backend, "c1-gx-1").is_down
    assert backend.node_resume(pair) == ()
    assert not node(backend, "c1-gx-1").is_down
    assert backend.node_power_down(["c1-gx-1"], "asap", "slurm-flex: idle") == ()
    assert backend.node_power_down(["c1-gx-2"], "force", "slurm-flex: idle") == ()
    slurm.wait_for(lambda: all(node(backend, name).is_off for name in pair), SOON, "both are off")
    assert backend.node_idle(pair) == ()
    assert all(node(backend, name).is_off for name in pair)


def test_a_job_that_was_placed_just_before_its_node_is_drained_stays_there(
    slurm: Controller, backend: ScontrolController, no_boot: Path
) -> None:
    """A plain drain sends it back, with 120 s to wait (R 24.11.5, 26.05)."""
    pair = ["c1-gx-1", "c1-gx-2"]
    assert backend.node_power_up(pair) == ()
    for name in pair:
        slurm.wait_for_node(name, SOON, has="POWERING_UP")
    placed = slurm.sbatch("-w", "c1-gx-1", "--wrap=sleep 300")
    slurm.wait_for(lambda: job(backend, placed).holds_nodes, SOON, "the job has its node")
    assert backend.node_drain(pair, "slurm-flex: release: its job is gone") == ()
    assert not node(backend, "c1-gx-1").is_drained
    assert node(backend, "c1-gx-2").has_release_drain
    assert backend.read().reservations == ()
    no_boot.unlink()
    slurm.wait_for_job(placed, "RUNNING", SOON)
    assert job(backend, placed).restarts == 0
    assert backend.node_power_down(["c1-gx-2"], "force", "slurm-flex: release") == ()
    slurm.wait_for(lambda: node(backend, "c1-gx-2").is_off, SOON, "the other is off")


def test_one_unknown_node_among_many_fails_alone(
    slurm: Controller, backend: ScontrolController
) -> None:
    names = [*slurm.nodes, "c1-gx-99", "not a name"]
    failures = backend.node_comment(names, "flex: hello")
    assert {one.target: type(one.error) for one in failures} == {
        "c1-gx-99": InvalidTarget,
        "not a name": InvalidTarget,
    }
    assert {one.comment for one in backend.read().nodes} == {"flex: hello"}
    assert backend.node_comment(slurm.nodes, "") == ()


def test_one_unknown_job_among_many_fails_alone(
    slurm: Controller, backend: ScontrolController
) -> None:
    jobs = [slurm.sbatch("-H", "--wrap=sleep 60") for _ in range(2)]
    for failures in (
        backend.job_comment([*jobs, 99999], "flex: hello"),
        backend.job_start([*jobs, 99999], timedelta(hours=1)),
        backend.job_requeue([*jobs, 99999]),
        backend.job_hold([*jobs, 99999]),
        backend.job_release([*jobs, 99999]),
        backend.job_notify([*jobs, 99999], "hello"),
        backend.job_signal([*jobs, 99999], "USR1"),
    ):
        assert {one.target: type(one.error) for one in failures} == {"99999": InvalidTarget}
    assert {job(backend, one).admin_comment for one in jobs} == {"flex: hello"}
    assert {job(backend, one).priority > 0 for one in jobs} == {True}


def test_a_running_job_is_told_signalled_and_requeued(
    slurm: Controller, backend: ScontrolController
) -> None:
    script = "#!/bin/bash\ntrap 'echo got it' USR1\necho ready\nwhile :; do sleep 0.2; done\n"
    job_id = slurm.sbatch("-w", "c1-gx-0", script=script)
    slurm.wait_for(lambda: "ready" in slurm.output(job_id), SOON, "the job has set its trap")
    slurm.wait_for_job(job_id, "RUNNING", SOON)
    assert backend.job_notify([job_id], 'the "end" is near') == ()
    slurm.wait_for(lambda: "the 'end' is near" in slurm.output(job_id), SOON, "the job is told")
    assert backend.job_signal([job_id], "B:USR1") == ()
    slurm.wait_for(lambda: "got it" in slurm.output(job_id), SOON, "the job got its signal")
    assert job(backend, job_id).is_running
    assert backend.job_requeue([job_id]) == ()
    slurm.wait_for_job(job_id, "PENDING", SOON)
    assert backend.job_requeue([job_id]) == ()
    assert job(backend, job_id).restarts == 1


def test_the_last_task_of_an_array_is_requeued_alone(
    slurm: Controller, backend: ScontrolController
) -> None:
    array = slurm.sbatch("-w", "c1-gx-0", "--array=1-2", "--wrap=sleep 300")

    def running() -> bool:
        return [one.is_running for one in backend.read().jobs] == [True, True]

    slurm.wait_for(running, SOON, "both tasks run")
    assert job(backend, array).array_tasks == "2"
    assert backend.job_requeue([array]) == ()
    assert job(backend, array).restarts == 1
    others = [one for one in backend.read().jobs if one.id != array]
    assert [(one.is_running, one.restarts) for one in others] == [(True, 0)]


def test_a_reservation_keeps_its_hours_in_any_zone(
    slurm: Controller, backend: ScontrolController
) -> None:
    name = "slurm-flex-test-1"
    start, end = now() + timedelta(hours=1), now() + timedelta(hours=2, seconds=7)
    assert backend.reserve(name, ["c1-gx-0", "c1-gx-1"], start, end, now()) == ()
    made = reservation(backend, name)
    assert made is not None and made.start is not None and made.end is not None
    assert made.nodes == ("c1-gx-0", "c1-gx-1")
    assert {"MAINT", "IGNORE_JOBS"} <= set(made.flags)
    assert abs(made.start - start) < timedelta(seconds=4)
    assert abs(made.end - end) < timedelta(seconds=4)
    for _ in range(2):  # it is made to start now; once it has started its start stays
        assert backend.reserve(name, ["c1-gx-1", "c1-gx-2"], now(), end, now()) == ()
    moved = reservation(backend, name)
    assert moved is not None and moved.is_active(now() + timedelta(seconds=2))
    assert moved.nodes == ("c1-gx-1", "c1-gx-2")
    unknown = backend.reserve("slurm-flex-test-2", ["c1-gx-99"], start, end, now())
    assert [(one.target, type(one.error)) for one in unknown] == [
        ("slurm-flex-test-2", InvalidTarget)
    ]
    for _ in range(2):
        assert backend.unreserve([name, "slurm-flex-never-was"]) == ()
    assert reservation(backend, name) is None


def test_what_a_job_said_in_extra_is_read_where_it_would_outlast_its_node(
    slurm: Controller, backend: ScontrolController, release: str
) -> None:
    if release == "22.05":
        pytest.skip("its jobs have no extra")
    words = [f"--comment={EVIL}", "--extra=flex-signal=USR1@600"]
    long, short = (
        slurm.sbatch("-w", f"c1-gx-{at}", "-t", limit, *words, "--wrap=sleep 60")
        for at, limit in enumerate(("60", "10"))
    )
    for job_id in (long, short):
        slurm.wait_for_job(job_id, "RUNNING", SOON)
    start, end = now() + timedelta(minutes=30), now() + timedelta(hours=2)
    assert backend.reserve("slurm-flex-test-1", ["c1-gx-0", "c1-gx-1"], start, end, now()) == ()
    assert job(backend, long).extra == "flex-signal=USR1@600"
    assert job(backend, short).extra is None
    assert backend.notices == ()
    assert backend.unreserve(["slurm-flex-test-1"]) == ()


def test_static_nodes_are_excluded_where_the_release_can(
    backend: ScontrolController, release: str
) -> None:
    failures = backend.suspend_exclude(["c1-gx-0", "c1-gx-1"])
    if release == "22.05":
        assert {type(one.error) for one in failures} == {NotSupported}
    else:
        assert failures == ()
        assert backend.read().config.suspend_exc_nodes == "c1-gx-[0-1]"


def test_a_slurmctld_that_is_gone_is_known_for_what_it_is(
    release: str, power_programs: Programs
) -> None:
    with Controller(layout(power_programs), release=release) as slurm:
        backend = backend_of(slurm, timeout=timedelta(seconds=2))
        assert backend.read().responding
        slurm.kill()
        with pytest.raises(SlurmctldUnreachable):
            backend.read()
        failures = backend.node_down(slurm.nodes, "slurm-flex: lost")
        assert all(isinstance(one.error, SlurmctldUnreachable) for one in failures)
        assert len(failures) == len(slurm.nodes)
        slurm.start()
        assert backend_of(slurm).read().responding


def test_nodes_that_slurm_hides_are_surfaced(release: str, power_programs: Programs) -> None:
    with Controller(layout(power_programs), release=release) as slurm:
        slurm.stop()
        conf = slurm.conf_path.read_text()
        slurm.conf_path.write_text(re.sub(r"(?m)^PrivateData=.*\n", "", conf))
        slurm.start()
        backend = backend_of(slurm)
        seen = backend.read()
        if release == "22.05":
            assert seen.nodes == ()
            (notice,) = backend.notices
            assert "c1-cp-[0-1],c1-gx-[0-3]" in str(notice)
            assert "PrivateData=cloud" in notice.fix
        else:
            assert len(seen.nodes) == 6
            assert backend.notices == ()
