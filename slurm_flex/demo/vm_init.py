"""The first process of a demo VM: a machine's worth of processes that ends as one.

Run as ``python3 -I vm_init.py NAME PROGRAM ARG...`` as pid 1 of a PID namespace (stdlib only). It
names the machine, gives it an empty spool, starts the program and reaps what is orphaned, as an
init does: slurmd forks each slurmstepd twice. Killing the namespace takes slurmd, its steps and
their tasks at once, the way a VM goes that Compute Engine stops. SIGTERM is passed on, for an
orderly shutdown.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import Final

# What a machine's service manager gives its daemons, whatever the PATH of whoever started us.
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def main(argv: list[str]) -> int:
    name, *program = argv
    socket.sethostname(name)
    spool = Path(__file__).parent / "spool" / name
    shutil.rmtree(spool, ignore_errors=True)  # what the last machine of this name left
    spool.mkdir()
    child = os.fork()
    if child == 0:
        environment = {**os.environ, "PATH": PATH, "SLURMD_NODENAME": name}
        os.execve(program[0], program, environment)  # noqa: S606 - no shell is meant

    def forward(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGHUP, forward)
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
