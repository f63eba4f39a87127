"""Hostile tools: they hang, fork, spew, ignore signals, or aren't there."""

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from health_builders import alive, program

from slurm_flex.health.run import GRACE, LARGEST_OUTPUT, Command, child_environment, run, run_all

PYTHON = f"#!{sys.executable} -IS\n"


def command(path, *arguments: str, timeout: float = 5) -> Command:
    return Command((str(path), *arguments), timedelta(seconds=timeout))


def soon(seconds: float = 20) -> float:
    return time.monotonic() + seconds


def pids_in(path: Path, count: int) -> list[int]:
    """The process ids that a tool wrote down, once there are so many."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        pids = path.read_text().split() if path.exists() else []
        if len(pids) == count:
            return [int(pid) for pid in pids]
        time.sleep(0.01)
    raise AssertionError(f"{path} never held {count} pids")


def gone(pids: list[int]) -> bool:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.01)
    return False


def test_what_a_tool_says_and_how_it_ends(tmp_path):
    tool = program(tmp_path / "tool", "#!/bin/sh\necho out; echo err >&2; exit 3\n")
    output = run(command(tool), {}, soon())
    assert (output.status, output.stdout, output.stderr) == (3, "out\n", "err\n")
    assert output.trouble() == ""


def test_one_argv_runs_once_however_many_ask(tmp_path):
    tool = program(tmp_path / "tool", f"#!/bin/sh\necho x >> {tmp_path}/ran\n")
    outputs = run_all([command(tool)] * 5, {}, soon())
    assert len(outputs) == 1
    assert (tmp_path / "ran").read_text() == "x\n"


def test_commands_run_at_the_same_time(tmp_path):
    """Each waits for the other: one after the other they would both hang."""
    text = PYTHON + (
        "import sys, time, pathlib\n"
        "here = pathlib.Path(__file__).parent\n"
        "(here / sys.argv[1]).touch()\n"
        "while not (here / sys.argv[2]).exists(): time.sleep(0.005)\n"
    )
    tool = program(tmp_path / "tool", text)
    outputs = run_all([command(tool, "a", "b"), command(tool, "b", "a")], {}, soon())
    assert [output.status for output in outputs.values()] == [0, 0]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path / "missing", "No such file"),
        (lambda path: path, "Permission denied"),
        (lambda path: program(path / "x", "no shebang and no program\n"), "Exec format error"),
        (lambda path: program(path / "x", "#!/no/such/interpreter\n"), "No such file"),
    ],
)
def test_a_tool_that_cannot_be_run_never_raises(tmp_path, make, why):
    output = run(command(make(tmp_path)), {}, soon())
    assert output.status is None
    assert why in output.trouble()


def test_a_hung_tool_is_killed_with_its_children_within_its_time(tmp_path):
    text = (
        "#!/bin/sh\n"
        f"sleep 600 & echo $! >> {tmp_path}/pids\n"
        f"(sleep 600 & echo $! >> {tmp_path}/pids; wait) &\n"
        f"echo $$ >> {tmp_path}/pids\nwait\n"
    )
    tool = program(tmp_path / "tool", text)
    began = time.monotonic()
    output = run(command(tool, timeout=1), {}, soon())
    assert time.monotonic() - began < 1 + 3 * GRACE.total_seconds()
    assert output.hung
    assert output.status is None
    assert output.trouble() == "no answer within 1 s"
    assert gone(pids_in(tmp_path / "pids", 3))


DAEMON = (
    PYTHON
    + """
import os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
ready, wrote = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open(here / "pids", "a") as pids:
            pids.write(f"{os.getpid()}\\n")
        os.write(wrote, b"x")
        time.sleep(600)
    os._exit(0)
os.read(ready, 1)
print("started", flush=True)
if "hang" in sys.argv:
    time.sleep(600)
"""
)


def test_a_daemon_of_a_hung_tool_dies_with_it_though_it_left_the_group(tmp_path):
    tool = program(tmp_path / "tool", DAEMON)
    output = run(command(tool, "hang", timeout=2), {}, soon())
    assert output.hung
    assert output.stdout == "started\n"
    assert gone(pids_in(tmp_path / "pids", 1))


def test_a_daemon_that_holds_the_pipe_is_not_waited_for(tmp_path):
    tool = program(tmp_path / "tool", DAEMON)
    began = time.monotonic()
    output = run(command(tool, timeout=10), {}, soon())
    daemon = pids_in(tmp_path / "pids", 1)[0]
    try:
        assert (output.status, output.stdout) == (0, "started\n")
        assert time.monotonic() - began < 5
        assert alive(daemon), "a service that a tool started on purpose stays"
    finally:
        os.kill(daemon, 9)


def test_the_group_of_a_tool_that_ended_is_cleared(tmp_path):
    tool = program(tmp_path / "tool", f"#!/bin/sh\nsleep 600 & echo $! > {tmp_path}/pids\n")
    assert run(command(tool), {}, soon()).status == 0
    assert gone(pids_in(tmp_path / "pids", 1))


def test_a_hung_tool_takes_no_other_with_it(tmp_path):
    hung = program(tmp_path / "hung", "#!/bin/sh\nsleep 600\n")
    slow = program(tmp_path / "slow", "#!/bin/sh\nsleep 2.5\necho done\n")
    outputs = run_all([command(hung, timeout=0.2), command(slow)], {}, soon())
    assert outputs[(str(hung),)].hung
    assert outputs[(str(slow),)].stdout == "done\n"


def test_a_tool_is_asked_to_stop_before_it_is_killed(tmp_path):
    """dcgmi calls its diagnostic off then; killed at once, it leaves it running."""
    text = PYTHON + (
        "import signal, sys, time\n"
        "def stop(*_):\n    print('called off', flush=True)\n    sys.exit(1)\n"
        "signal.signal(signal.SIGTERM, stop)\nprint('ready', flush=True)\ntime.sleep(600)\n"
    )
    output = run(command(program(tmp_path / "tool", text), timeout=2), {}, soon())
    assert output.stdout == "ready\ncalled off\n"
    assert output.hung


def test_a_tool_that_ignores_being_asked_is_killed(tmp_path):
    text = PYTHON + (
        "import os, pathlib, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(tmp_path)!r}, 'pids').write_text(str(os.getpid()))\ntime.sleep(600)\n"
    )
    began = time.monotonic()
    output = run(command(program(tmp_path / "tool", text), timeout=2), {}, soon())
    assert output.hung
    assert time.monotonic() - began < 2 + 3 * GRACE.total_seconds()
    assert gone(pids_in(tmp_path / "pids", 1))


def test_the_whole_set_ends_within_its_budget(tmp_path):
    text = PYTHON + "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)\n"
    tool = program(tmp_path / "tool", text)
    began = time.monotonic()
    outputs = run_all([command(tool, str(n), timeout=60) for n in range(4)], {}, began + 3)
    assert time.monotonic() - began < 3.5
    assert all(output.hung for output in outputs.values())


def test_without_time_nothing_is_started(tmp_path):
    tool = program(tmp_path / "tool", f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    output = run(command(tool), {}, time.monotonic() + 1)
    assert output.trouble() == "no time was left for it"
    assert not (tmp_path / "ran").exists()


def test_output_without_end_is_cut_and_said_to_be(tmp_path):
    text = PYTHON + "import sys\nwhile True: sys.stdout.write('x' * 65536)\n"
    output = run(command(program(tmp_path / "tool", text), timeout=1), {}, soon())
    assert len(output.stdout) == LARGEST_OUTPUT
    assert output.truncated
    assert output.trouble()


def test_bytes_that_are_no_text_are_replaced(tmp_path):
    tool = program(tmp_path / "tool", "#!/bin/sh\nprintf '\\377\\376\\000ok\\n'\n")
    assert run(command(tool), {}, soon()).stdout == "\ufffd\ufffd\x00ok\n"


def test_a_tool_killed_by_a_signal_says_so(tmp_path):
    tool = program(tmp_path / "tool", "#!/bin/sh\nkill -11 $$\n")
    assert run(command(tool), {}, soon()).trouble() == "ended by signal 11"


def test_a_tool_reads_nothing_from_us(tmp_path):
    tool = program(tmp_path / "tool", "#!/bin/sh\ncat; echo end\n")
    assert run(command(tool), {}, soon()).stdout == "end\n"


def test_what_the_user_wrote_is_not_passed_on():
    """Comment, extra, file names and SPANK variables are the user's own words, and root runs."""
    environ = {
        "SLURMD_NODENAME": "n",
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_COMMENT": "$(reboot)",
        "SLURM_JOB_EXTRA": "x",
        "SLURM_JOB_STDOUT": "/x",
        "SPANK_X": "y",
        "LD_PRELOAD": "/tmp/evil.so",
        "PYTHONPATH": "/tmp",
        "PATH": "/tmp",
    }
    passed = child_environment(environ)
    assert passed["PATH"].startswith("/usr/sbin:/usr/bin")
    assert set(passed) == {"PATH", "LC_ALL", "TZ", "HOME", "SLURMD_NODENAME", "SLURM_JOB_ID"}


def test_no_descriptor_is_left_behind(tmp_path):
    tool = program(tmp_path / "tool", "#!/bin/sh\necho x\n")
    run(command(tool), {}, soon())
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        run(command(tool), {}, soon())
        run(command(tmp_path / "missing"), {}, soon())
    assert len(list(Path("/proc/self/fd").iterdir())) == before
