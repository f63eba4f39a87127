"""Children: bounded in time, found where they are said to be, deaf to a user's environment."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import pytest

from slurm_flex.cluster.settings import Settings
from slurm_flex.slurm import open_controller
from slurm_flex.slurm.command import SlurmCommands
from slurm_flex.slurm.errors import (
    CommandMissing,
    ConfigurationBroken,
    InvalidTarget,
    PermissionDenied,
    SlurmctldTooSlow,
    SlurmctldUnreachable,
    SlurmRefused,
    classify,
)
from tests.unit.slurm.fake_slurm import FakeSlurm


def commands(slurm: FakeSlurm, **options: object) -> SlurmCommands:
    given = {"bin_dir": str(slurm.folder), "slurm_conf": str(slurm.conf), **options}
    return SlurmCommands(**given)  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_command_that_hangs_is_killed_with_all_its_children(tmp_path: Path) -> None:
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/child\nwait\n")
    program.chmod(0o755)
    slow = SlurmCommands(bin_dir=str(tmp_path), timeout=timedelta(seconds=0.5))
    started = time.monotonic()
    with pytest.raises(SlurmctldUnreachable, match=r"no answer within 0\.5 s"):
        slow.run("scontrol", "ping")
    assert time.monotonic() - started < 5
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not is_alive(child):
            break
        time.sleep(0.02)
    assert not is_alive(child)


def test_a_child_that_left_its_session_does_not_hold_us(tmp_path: Path) -> None:
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\nsetsid sleep 20 &\necho $! > {tmp_path}/child\nsleep 600\n")
    program.chmod(0o755)
    slow = SlurmCommands(bin_dir=str(tmp_path), timeout=timedelta(seconds=0.5))
    started = time.monotonic()
    with pytest.raises(SlurmctldUnreachable):
        slow.run("scontrol", "ping")
    assert time.monotonic() - started < 10
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_children_speak_one_language_in_one_zone_and_know_no_users_formats(
    slurm: FakeSlurm,
) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "TZ": "Asia/Seoul",
        "LANG": "ko_KR.UTF-8",
        "LC_TIME": "ko_KR.UTF-8",
        "SLURM_TIME_FORMAT": "%s",
        "SQUEUE_STATES": "RUNNING",
        "SLURM_CLUSTERS": "other",
        "SLURM_CONF": "/elsewhere/slurm.conf",
        "LD_LIBRARY_PATH": "/opt/slurm/lib",
    }
    commands(slurm, env=env).check("scontrol", "ping")
    seen = slurm.calls[0].env
    assert (seen["TZ"], seen["LC_ALL"], seen["SLURM_CONF"]) == ("UTC", "C", str(slurm.conf))
    assert seen["LD_LIBRARY_PATH"] == "/opt/slurm/lib"
    strangers = {"LANG", "LC_TIME", "SLURM_TIME_FORMAT", "SQUEUE_STATES", "SLURM_CLUSTERS"}
    assert not strangers & set(seen)


def test_an_environment_without_a_path_is_enough(slurm: FakeSlurm) -> None:
    commands(slurm, env={}).check("scontrol", "ping")
    assert "/usr/bin" in slurm.calls[0].env["PATH"]


def test_commands_are_found_in_their_folder_then_on_the_path(
    slurm: FakeSlurm, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert commands(slurm).find("squeue") == str(slurm.folder / "squeue")
    on_path = SlurmCommands(env={"PATH": f"{other}:{slurm.folder}"})
    assert on_path.find("squeue") == str(slurm.folder / "squeue")
    with pytest.raises(CommandMissing, match=r"squeue is not in .*slurm_bin_dir"):
        SlurmCommands(bin_dir=str(other), env={"PATH": str(slurm.folder)}).find("squeue")


def test_a_program_that_cannot_be_started_is_said_to_be_missing(tmp_path: Path) -> None:
    program = tmp_path / "scontrol"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    with pytest.raises(CommandMissing, match="scontrol"):
        SlurmCommands(bin_dir=str(tmp_path)).run("scontrol", "ping")


def test_a_slurm_conf_that_is_not_there_is_known_at_once(slurm: FakeSlurm, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationBroken, match="no such file"):
        commands(slurm, slurm_conf=str(tmp_path / "none")).run("scontrol", "ping")
    assert slurm.calls == []


def test_after_silence_slurmctld_is_left_alone_for_a_while(slurm: FakeSlurm) -> None:
    now = [0.0]
    patient = commands(slurm, clock=lambda: now[0])
    slurm.refuse("ping", "error: Unable to contact slurm controller (connect failure)")
    for _ in range(3):
        with pytest.raises(SlurmctldUnreachable):
            patient.run("scontrol", "ping")
    assert len(slurm.calls) == 1
    slurm.answer("ping", "UP")
    now[0] = 10
    assert patient.check("scontrol", "ping") == "UP"
    assert patient.check("scontrol", "ping") == "UP"


def test_a_slurmctld_that_was_too_slow_once_is_asked_once_more(slurm: FakeSlurm) -> None:
    patient = commands(slurm, clock=lambda: 0.0)
    slurm.refuse("ping", "error: Socket timed out on send/recv operation")
    for _ in range(3):
        with pytest.raises(SlurmctldTooSlow):
            patient.run("scontrol", "ping")
    assert len(slurm.calls) == 2


def test_output_that_is_no_utf_8_is_still_read(tmp_path: Path) -> None:
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\nprintf 'a\\377b'\n")
    program.chmod(0o755)
    assert SlurmCommands(bin_dir=str(tmp_path)).check("scontrol", "x") == "a\ufffdb"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("slurm_load_node error: Unable to contact slurm controller (connect failure)",
         SlurmctldUnreachable),
        ("slurm_load_node error: Socket timed out on send/recv operation", SlurmctldTooSlow),
        ("Slurm backup controller in standby mode", SlurmctldUnreachable),
        ("error: Munge encode failed: Failed to access socket", SlurmctldUnreachable),
        ("slurm_load_jobs error: Protocol authentication error", SlurmctldUnreachable),
        ("scontrol: error: s_p_parse_file: cannot stat file x, retrying\nscontrol: fatal: Unable "
         "to process configuration file", ConfigurationBroken),
        ("slurm_update error: Invalid user id", PermissionDenied),
        ("Access/permission denied for job 2", PermissionDenied),
        ("slurm_update error: Invalid node name specified", InvalidTarget),
        ("Invalid job id specified for job 999", InvalidTarget),
        ("Requested reservation is invalid", InvalidTarget),
        ("Error creating the reservation: Requested nodes are busy", SlurmRefused),
        ("", SlurmRefused),
    ],
)  # fmt: skip
def test_each_way_of_failing_has_its_type(said: str, kind: type) -> None:
    error = classify(said, where="scontrol")
    assert type(error) is kind
    assert "\n" not in error.what and error.what


def test_the_controller_is_set_up_from_the_settings(slurm: FakeSlurm) -> None:
    settings = Settings(slurm_bin_dir=str(slurm.folder), slurm_conf=str(slurm.conf))
    slurm.replay("24.11")
    assert len(open_controller(settings).read().nodes) == 9
