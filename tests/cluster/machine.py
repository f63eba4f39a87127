"""A VM that boots as Compute Engine's do, for the emulator's slurmd driver.

Run as ``python3 -I machine.py NAME METADATA WORLD`` (stdlib only), as pid 1 of a mount and PID
namespace of its own. It is what an image and the guest agent are: folders that forget everything,
a driver with eight GPUs, a mount.nfs; then the startup script that the metadata server has. What
NFS would serve lies in WORLD/nfs/SHARE: there is no NFS server on this machine.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

FORGETFUL = ("/etc", "/opt", "/usr", "/var")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")
MOUNT_NFS = """#!/bin/sh
# mount.nfs ADDRESS:/SHARE TARGET -o OPTIONS
exec /bin/mount --bind "{world}/nfs/${{1##*/}}" "$2"
"""
NVIDIA_SMI = """#!/bin/sh
SLURMD_NODENAME=$(hostname) exec {world}/gpus/bin/nvidia-smi "$@"
"""


def main(name: str, metadata: str, world: Path) -> int:
    socket.sethostname(name)
    forget(world)
    give_gpus(world)
    put_program(Path("/usr/sbin/mount.nfs"), MOUNT_NFS.format(world=world))
    agent = subprocess.Popen(
        ["/bin/bash", str(startup_script(metadata))],
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "SLURM_FLEX_METADATA": metadata,
            "SLURM_FLEX_CONSOLE": "/dev/null",  # the driver keeps what is printed as the console
        },
        stdin=subprocess.DEVNULL,
    )
    while True:  # as an init: slurmd, which the script leaves behind, forks its stepds twice
        pid, status = os.wait()
        if pid == agent.pid and status != 0:
            return os.waitstatus_to_exitcode(status) & 0xFF


def forget(world: Path) -> None:
    """Writable folders that are this machine's alone and end with it; the image's are below."""
    hosts = Path("/etc/hosts").read_text()
    mount("-t", "tmpfs", "tmpfs", "/mnt")
    repository = str(Path(__file__).resolve().parents[2])  # where install_dir points here
    for at, folder in enumerate((*FORGETFUL, repository)):
        layers = [Path(f"/mnt/{at}/{layer}") for layer in ("upper", "work")]
        for layer in layers:
            layer.mkdir(parents=True)
        options = f"lowerdir={folder},upperdir={layers[0]},workdir={layers[1]}"
        mount("-t", "overlay", "overlay", "-o", options, folder)
    mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run")
    Path("/etc/hosts").write_text(hosts)
    if os.path.ismount("/home"):  # another release's root has this machine's own there
        subprocess.run(["/bin/umount", "--lazy", "/home"], check=True)


def give_gpus(world: Path) -> None:
    """/dev/nvidia0 to 7, which are /dev/null, and an nvidia-smi."""
    before = Path("/mnt/dev")
    before.mkdir()
    mount("--rbind", "/dev", str(before))
    mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/dev")
    for device in DEVICES:
        there, here = before / device, Path("/dev", device)
        here.mkdir() if there.is_dir() else here.touch()
        mount("--rbind", str(there), str(here))
    for gpu in range(8):
        os.mknod(f"/dev/nvidia{gpu}", 0o020666, os.makedev(1, 3))
    put_program(Path("/usr/bin/nvidia-smi"), NVIDIA_SMI.format(world=world))


def startup_script(metadata: str) -> Path:
    url = f"{metadata}/computeMetadata/v1/instance/attributes/startup-script"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        text = answer.read().decode()
    path = Path("/run/startup-script")
    path.write_text(text)
    return path


def put_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def mount(*arguments: str) -> None:
    subprocess.run(["/bin/mount", *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
