"""No daemon: a hook starts one detached reconcile, whatever slurmctld does to its own children.

Scenario 16: elsewhere a stale heartbeat means that nodes fail; here their VMs come all the same.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.unit.hooks.conftest import Site


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


def count_lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_a_one_shot_reconcile_runs_with_a_usable_environment(site: Site, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    site.install_program(
        [f'echo "$@ $SLURM_CONF $SLURM_FLEX_CONFIG $PATH $(pwd)" >{ran}.new', f"mv {ran}.new {ran}"]
    )
    assert site.call("resume.py", "c1-gx-0").returncode == 0
    wait_for(ran.exists, "the one-shot")
    said = ran.read_text().split()
    assert said[:2] == ["reconcile", "--once"]
    assert said[2:4] == [site.env["SLURM_CONF"], str(site.settings)]
    assert "/usr/bin" in said[4].split(":")
    assert said[5] == "/"


def test_it_outlives_the_kill_of_the_hooks_process_group(site: Site, tmp_path: Path) -> None:
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    site.install_program([f"while [ ! -e {gate} ]; do sleep 0.02; done", f"echo x >>{ran}"])
    hook = subprocess.Popen(
        site.command("suspend.py", "c1-gx-0"), env=site.env, start_new_session=True
    )
    assert hook.wait(20) == 0
    # What slurmscriptd does to the group of a program that has exited.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(hook.pid, signal.SIGKILL)
    gate.touch()
    wait_for(lambda: count_lines(ran) == 1, "the one-shot's end")


def test_many_hooks_start_one_and_late_ones_are_seen_by_a_second(
    site: Site, tmp_path: Path
) -> None:
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    site.install_program([f"echo x >>{ran}", f"while [ ! -e {gate} ]; do sleep 0.02; done"])
    site.call("resume.py", "c1-gx-0")
    wait_for(lambda: count_lines(ran) == 1, "the first run")
    callers = [
        threading.Thread(target=site.call, args=("resume.py", f"c1-gx-{n}")) for n in range(1, 21)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert count_lines(ran) == 1
    gate.touch()
    wait_for(lambda: count_lines(ran) == 2, "the second run, for those that came late")
    wait_for(lambda: not _is_locked(site), "the end of it")
    assert count_lines(ran) == 2
    assert site.log().count("started a one-shot reconcile") == 1


def test_no_program_at_all_is_said_and_the_call_kept(site: Site) -> None:
    done = site.call("resume.py", "c1-gx-0")
    assert done.returncode == 0
    assert len(site.records()) == 1
    assert "no slurm-flex program under" in site.log()


def test_the_one_shot_holds_none_of_the_hooks_descriptors(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    site.install_program([f"while [ ! -e {gate} ]; do sleep 0.02; done"])
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    hook = subprocess.Popen(
        site.command("suspend.py", "c1-gx-0"),
        env=site.env, start_new_session=True, close_fds=False, stdout=subprocess.PIPE,
    )  # fmt: skip
    os.close(writer)
    try:
        assert hook.wait(20) == 0
        assert os.read(reader, 1) == b""  # the end of the pipe: nobody holds it any more
        assert hook.stdout is not None
        assert hook.stdout.read() == b""
    finally:
        gate.touch()
        os.close(reader)
        if hook.stdout:
            hook.stdout.close()


def _is_locked(site: Site) -> bool:
    import fcntl

    with (site.run_dir / "oneshot.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
