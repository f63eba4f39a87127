"""What scripts/resume.py and scripts/suspend.py call: record, wake, go.

slurmctld runs them without PATH, perhaps without descriptors, kills whatever they leave behind and
stands still while they run (facts: slurm.md, "Calling contract"). So a hook only writes down what
it was asked, wakes the daemon and exits; deciding is the next pass's business, and it looks for
itself. A lost record costs seconds, never a node. stdlib only, Python 3.9 and later, under 60 ms.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_flex import oneshot, spool, wake
from slurm_flex.hook_site import HookLog, HookSite

_LARGEST_RESUME_FILE = 64_000_000
_NOT_AS_WRITTEN = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)


def resume(argv: Sequence[str], env: Mapping[str, str], root: Path) -> int:
    """ResumeProgram: `root` is the installation (the folder of scripts/). Returns the exit code."""
    return _hook("resume", argv, env, root)


def suspend(argv: Sequence[str], env: Mapping[str, str], root: Path) -> int:
    """SuspendProgram and ResumeFailProgram; which of the two, slurmctld doesn't say."""
    return _hook("suspend", argv, env, root)


def _hook(program: str, argv: Sequence[str], env: Mapping[str, str], root: Path) -> int:
    _hold_standard_descriptors()
    log = HookLog(program)
    log.say(f"called for {argv[-1] if len(argv) > 1 else 'no nodes'}")
    if len(argv) < 2:
        log.say(f"usage: {program}.py [ARGUMENT...] HOSTLIST (slurmctld calls it)")
        return 2
    record: dict[str, object] = {
        "program": program,
        "time": time.time(),
        "nodes": argv[-1],
        "arguments": list(argv[1:-1]),  # PowerAction's (26.05) come before the hostlist
    }
    if program == "resume":
        record["jobs"], record["note"] = read_resume_file(env.get("SLURM_RESUME_FILE"))
        if record["note"]:
            log.say(f"{record['note']}: the node list is used")
    site = HookSite(env)
    log.write_to(site.state_dir)
    if site.complaint:
        log.say(site.complaint)
    try:
        spool.put(site.run_dir, record)
    except OSError as error:
        log.say(f"cannot record this call in {site.run_dir / spool.FOLDER_NAME}: {error}; waking")
    _wake(root, site, env, log)
    return 0


def _wake(root: Path, site: HookSite, env: Mapping[str, str], log: HookLog) -> None:
    if wake.poke(site.run_dir):
        return
    try:
        log.say(oneshot.start(root, site, env))
    except OSError as error:
        log.say(f"no daemon listens in {site.run_dir}, and none could be started: {error}")


def read_resume_file(path: str | None) -> tuple[dict[str, str], str]:
    """The jobs of SLURM_RESUME_FILE with the nodes each waits for, and what was wrong with it.

    The file is slurmctld's descriptor and vanishes; some builds write none (no json-c). The jobs
    are for the journal only. Keys: slurm.md; 22.05 has `nodes` where later releases have
    `nodes_resume`.
    """
    if not path:
        return {}, "no SLURM_RESUME_FILE"
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # may be /proc/PID/fd/N: no Path games
            data = json.loads(file.read(_LARGEST_RESUME_FILE))
        return {
            str(int(job["job_id"])): str(job.get("nodes_resume", job.get("nodes", "")))
            for job in data["jobs"]
        }, ""
    except OSError as error:
        return {}, f"cannot read SLURM_RESUME_FILE {path}: {error.strerror}"
    except _NOT_AS_WRITTEN as error:
        return {}, f"SLURM_RESUME_FILE {path} isn't what slurmctld writes ({error!r})"


def _hold_standard_descriptors() -> None:
    """Slurm 22.05 closes 0-2: the next file opened would become a child's stdout."""
    while True:
        handle = os.open(os.devnull, os.O_RDWR)
        if handle > 2:
            os.close(handle)
            return
        os.set_inheritable(handle, True)
