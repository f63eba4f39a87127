"""Every setting of slurm-flex.toml with its default: what the cluster file has no place for.

The classes are the sections of the documented file; the keys are flat. The text under a setting
is its documentation: `etc/slurm-flex.toml` and docs/settings.md are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
)

from slurm_flex.durations import format_duration, parse_duration
from slurm_flex.errors import FlexError

_NONE = timedelta(0)


def _duration(value: object) -> timedelta:
    try:
        return parse_duration(value)
    except FlexError as error:
        raise ValueError(str(error)) from error


Duration = Annotated[timedelta, BeforeValidator(_duration), Ge(_NONE)]
"""A duration, zero allowed."""
Interval = Annotated[timedelta, BeforeValidator(_duration), Gt(_NONE)]
"""A duration longer than zero."""
Count = Annotated[StrictInt, Ge(1)]
Percent = Annotated[StrictInt, Ge(1), Le(100)]


def _matching(pattern: str) -> StringConstraints:
    return StringConstraints(strict=True, pattern=f"^(?:{pattern})?$")


Url = Annotated[str, _matching(r"https?://[^\s/]+(?:/\S*)?")]
SlurmTime = Annotated[str, _matching(r"\d+(?:-\d+)?(?::\d+){0,2}|INFINITE|UNLIMITED")]
Image = Annotated[str, _matching(r"projects/[^/\s]+/global/images/(?:family/)?[^/\s]+")]
KeySource = Annotated[
    str,
    _matching(
        r"secret:projects/[^/\s]+/secrets/[^/\s]+(?:/versions/[^/\s]+)?|nfs:/\S+|metadata:[\w.-]+"
    ),
]
Host = Annotated[str, _matching(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?")]
Signal = Annotated[str, _matching(r"(?:B:)?(?:SIG)?[A-Z][A-Z0-9]{1,8}|\d{1,2}")]


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=False
    )


class Edges(_Section):
    """Where things are"""

    project: str = ""
    """Google Cloud project id. Empty: the one in the cluster file's `name`."""
    region: str = ""
    """Region of the cluster. Empty: the one in the cluster file's `name`, or of its zones."""
    cluster_file: str = ""
    """The cluster file. Empty: cluster_config.json beside this file. Relative: to this folder."""
    endpoint: Url = ""
    """URL of the Compute Engine API, for the emulator. Empty: Google's own."""
    credentials: Literal["default", "anonymous"] = "default"
    """How to sign in: application default credentials, or not at all (the emulator)."""
    node_image: Image = ""
    """Image of pools that name no node_image: projects/P/global/images/family/F. It must hold
    slurmd, munge and, for GPUs, the driver."""
    backend: Literal["scontrol", "pyslurm"] = "scontrol"
    """How to talk to slurmctld. pyslurm needs the extra [pyslurm] and its Slurm release."""
    slurm_bin_dir: str = ""
    """Folder of scontrol and squeue. Empty: found on PATH, then /usr/bin, /usr/local/bin,
    /opt/slurm/bin."""
    slurm_conf: str = ""
    """The slurm.conf to use. Empty: SLURM_CONF of the environment, or Slurm's built-in path."""
    state_dir: str = "/var/lib/slurm-flex"
    """What must outlive a reboot: memory, event journal, consoles of nodes that failed to boot."""
    run_dir: str = "/run/slurm-flex"
    """Socket, lock, spool and the world-readable status file."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe line that is logged."""
    metrics_port: Annotated[StrictInt, Ge(0), Le(65535)] = 0
    """Port of Prometheus metrics on 127.0.0.1. 0: off."""


class Pace(_Section):
    """How often, and how long to wait for an answer"""

    interval: Interval = timedelta(seconds=30)
    """Between passes while nothing is on its way. A hook wakes the daemon at once."""
    busy_interval: Interval = timedelta(seconds=5)
    """Between passes while a request queues, a node boots or leaves."""
    slurm_timeout: Interval = timedelta(seconds=20)
    """For one scontrol or squeue call."""
    cloud_timeout: Interval = timedelta(seconds=30)
    """For one call to Compute Engine, retries included."""
    observe_deadline: Interval = timedelta(seconds=60)
    """For reading everything in one pass; what isn't there by then is unknown in this pass."""


class Launching(_Section):
    """Asking for VMs"""

    boot_timeout: Interval = timedelta(minutes=15)
    """From a VM's creation to its slurmd's registration; later it is a boot failure. A node that
    was up may be silent, or its VM in repair, for as long before it is replaced."""
    max_queue_wait: Interval = timedelta(days=7)
    """How long a request may queue before its job is delayed and asked for anew."""
    partial_wait: Interval = timedelta(minutes=15)
    """How long some VMs of a job may wait, billed, for the rest of them."""
    active_requests: Count = 100
    """Requests in the queue at once, per region (Google's quota ACTIVE_RESIZE_REQUESTS)."""
    launches_per_node_hour: Count = 6
    """Launches of one node within an hour before the pool's breaker opens."""
    run_duration: Literal["pool", "job"] = "pool"
    """What a request asks for: the pool's flex_start_max_duration, or the job's own time limit
    plus boot_timeout and job_margin where that is shorter."""
    job_margin: Duration = timedelta(minutes=10)
    """Added to a job's time limit with run_duration = "job"."""


class BackOff(_Section):
    """After a failure"""

    capacity_backoff: Interval = timedelta(minutes=2)
    """First wait after a request failed for want of capacity; doubles up to the next."""
    capacity_backoff_max: Interval = timedelta(hours=1)
    """Longest wait for capacity between requests."""
    quota_backoff: Interval = timedelta(minutes=10)
    """First wait after a quota was exceeded; doubles."""
    quota_backoff_max: Interval = timedelta(hours=4)
    """Longest wait after a quota was exceeded."""
    config_backoff: Interval = timedelta(minutes=30)
    """Wait after a refusal that only a person can mend (permission, bad configuration)."""
    boot_backoff: Interval = timedelta(minutes=5)
    """First wait after a node failed to boot; doubles."""
    boot_backoff_max: Interval = timedelta(hours=1)
    """Longest wait after a node failed to boot."""
    breaker_failures: Annotated[StrictInt, Ge(1), Le(4)] = 2
    """Failures among a pool's last four launches that open its breaker."""
    breaker_retry: Interval = timedelta(minutes=30)
    """How long an open breaker waits before one more try."""


class EndOfLife(_Section):
    """When Compute Engine ends a VM"""

    end_margin: Duration = timedelta(minutes=5)
    """Nothing may run on a node in the last moments before its end: a reservation begins here."""
    expiry_warning: Duration = timedelta(minutes=10)
    """How long before the end jobs that would outlast the node are told. 0s: never."""
    expiry_signal: Mapping[str, Signal] = Field(default_factory=dict)
    """Signal to the batch step at the warning, by partition: { gpu = "USR1" }. A signal kills a
    job that doesn't trap it. Jobs may ask by themselves: --comment="flex-signal=USR1@600", or
    the same in --extra (Slurm 23.11 and later)."""
    expiry_requeue: StrictBool = False
    """Requeue jobs in order, expiry_grace before the end, rather than let them die with it. On
    Slurm before 23.02 a job on several nodes that end together is requeued so in any case: that
    slurmctld never gives back the GPUs of a job that loses all its nodes at once."""
    expiry_grace: Duration = timedelta(seconds=60)
    """How long before the end jobs are requeued in order."""
    min_useful_life: Duration = timedelta(minutes=15)
    """An idle node with less left goes home early (or with less than a quarter of the pool's
    duration, where that is shorter)."""
    refresh_static: StrictBool = False
    """Renew an idle static node before its end rather than after."""
    renew_on_demand: StrictBool = True
    """Send idle nodes home when a pending job fits only a fresh one."""
    max_expiries: Annotated[StrictInt, Ge(0)] = 0
    """Hold a job that was cut by the end of its node so often and needs longer than the pool's
    duration. 0: never."""
    clock_skew: Duration = timedelta(seconds=90)
    """How far clocks may differ, and how late Compute Engine may be (it allows itself 30 s)."""


class Safety(_Section):
    """Before anything is deleted"""

    orphan_grace: Duration = timedelta(seconds=90)
    """Age of a thing of ours that no node wants before it is deleted."""
    delete_grace: Duration = timedelta(seconds=90)
    """Age of an instance whose node is off before it is deleted."""
    vanish_percent: Percent = 20
    """So much of a pool gone at once, before its time, is not believed without a third look."""
    vanish_minimum: Count = 4
    """And at least so many nodes."""
    sick_percent: Percent = 20
    """While more than so much of a pool is sick nothing is replaced: the check may be wrong."""
    sick_minimum: Count = 3
    """And at least so many nodes."""


class Health(_Section):
    """Checks on the nodes"""

    max_health_restarts: Annotated[StrictInt, Ge(0)] = 5
    """After so many restarts of a job by failed checks its nodes are drained and kept."""
    health_partial_node: Literal["drain", "replace"] = "drain"
    """What happens to a node that failed a check before or after a job with only a part of its
    GPUs, or while several jobs were on it: drained for a person to see, or replaced when idle."""
    health_breaker_nodes: Count = 3
    """Nodes failing the same check within health_breaker_window before the check is doubted."""
    health_breaker_window: Interval = timedelta(minutes=10)
    """See health_breaker_nodes."""
    report_faulty_hosts: StrictBool = False
    """Report the host of a broken GPU to Google before the VM is deleted. Google takes no
    reports for Flex-start VMs unless your account team arranged it."""
    health_checks: StrictBool = True
    """Render Prolog, Epilog and HealthCheckProgram, and put the checks on every node."""
    health_opt_out: StrictBool = True
    """Let a job skip the checks with --comment=health=off, see docs/health.md."""


class Rendering(_Section):
    """What is written into slurm.conf.d and the startup script"""

    resume_timeout: Interval = timedelta(hours=6)
    """ResumeTimeout: a watchdog on slurm-flex, which re-arms it while a request queues. At most
    65535s."""
    suspend_timeout: Interval = timedelta(seconds=60)
    """SuspendTimeout: how long a node that goes down is unusable. Less than Slurm's 120 s wait
    after a node failure, or the job takes other nodes."""
    suspend_time: Interval = timedelta(minutes=5)
    """SuspendTime: how long a dynamic node may be idle."""
    default_time: SlurmTime = ""
    """DefaultTime of the partitions ("4:00:00", "1-00:00:00"): a job without a time limit fits
    only a node that has never lived. Empty: none."""
    boot_allowance: Duration = timedelta(minutes=15)
    """Taken off the pool's duration for MaxTime: the clock starts when the VM does."""
    install_dir: str = "/opt/slurm-flex"
    """Where scripts/ lies on the controller."""
    node_overrides: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)
    """Keys of a pool's NodeName line as slurmd -C prints them on a real node, by pool:
    { a3u = { RealMemory = "2900000" } }."""
    gpu_files: Literal["device", "nvml", "none"] = "device"
    """How a node finds its GPUs (gres.conf): /dev/nvidia0 and so on, slurmd's own NVML library, or
    not at all: Slurm then knows of no GPUs, and jobs ask for whole nodes. (Slurm takes no GPU
    without a device file; to share them without isolation set ConstrainDevices=no.)"""
    conf_server: Host = ""
    """HOST or HOST:PORT of slurmctld as the nodes reach it. Empty: the controller's host name."""
    slurmd_options: str = ""
    """Further options of slurmd on the nodes, such as "-v"."""
    auth_type: Literal["munge", "slurm"] = "munge"
    """What the key is for: auth/munge, or auth/slurm (Slurm 23.11 and later)."""
    key_source: KeySource = ""
    """Where a node finds the key: "secret:projects/P/secrets/S", "nfs:/home/.../munge.key" (a
    path on a mounted file system) or "metadata:KEY". Empty: the image has it."""


class Narration(_Section):
    """What users see"""

    comments: StrictBool = True
    """Write the story of a wait into AdminComment of the job and Comment of the node."""


SECTIONS: tuple[type[_Section], ...] = (
    Edges,
    Pace,
    Launching,
    BackOff,
    EndOfLife,
    Safety,
    Health,
    Rendering,
    Narration,
)


class Settings(Narration, Rendering, Health, Safety, EndOfLife, BackOff, Launching, Pace, Edges):
    """All settings, frozen. ``Settings()`` is every default."""

    def differing(self) -> dict[str, Any]:
        """The settings that differ from their defaults, durations as text (for snapshots)."""
        plain = Settings()
        return {
            name: _written(value)
            for name in Settings.model_fields
            if (value := getattr(self, name)) != getattr(plain, name)
        }


def _written(value: object) -> object:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, Mapping):
        return {key: _written(item) for key, item in value.items()}
    return value
