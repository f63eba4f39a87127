"""Power programs of a cloud with no cloud in it: a node boots, or is gone, within seconds.

Run by slurmctld as ResumeProgram and SuspendProgram, so they are stdlib only and find everything
beside the slurm.conf that SLURM_CONF names. Each VM's pid lies in ``vm-NAME.pid`` there. No VM
comes up while a file ``no-boot`` is there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

BOOT_SECONDS = 2  # a node that registers at once is never seen powering up


def hosts(hostlist: str) -> list[str]:
    done = subprocess.run(
        ["/usr/bin/scontrol", "show", "hostnames", hostlist],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.split()


def resume(folder: Path, name: str) -> None:
    if (folder / f"vm-{name}.pid").exists():
        return  # asked for once more: ResumeTimeout starts anew
    with (folder / "log" / f"vm-{name}.out").open("ab") as log:
        vm = subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                f'sleep {BOOT_SECONDS}; while [ -e "$2" ]; do sleep 0.2; done; exec "$0" "$1"',
                str(folder / "bin/slurmd-vm"),
                name,
                str(folder / "no-boot"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (folder / f"vm-{name}.pid").write_text(str(vm.pid))


def suspend(folder: Path, name: str) -> None:
    pid_file = folder / f"vm-{name}.pid"
    if pid_file.exists():
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
        pid_file.unlink()


def main() -> None:
    act = resume if Path(sys.argv[0]).name.startswith("resume") else suspend
    for name in hosts(sys.argv[-1]):
        act(Path(os.environ["SLURM_CONF"]).parent, name)


if __name__ == "__main__":
    main()
