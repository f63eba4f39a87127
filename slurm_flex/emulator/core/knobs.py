"""Everything about the emulated cloud that can be set while it runs.

A knob is a setting of the world (how long, how many, which of two readings of the documentation);
a fault (``faults.py``) is something that goes wrong. Each knob says how well its default is known:
*documented* by Google, *read* in a client of Google's, or *assumed*. Delays are seconds of the
wall clock, whatever the time scale; everything that the API itself speaks of (run durations,
retention, timestamps) is emulated time.
"""

# ruff: noqa: RUF009 - _knob and _delay return a field(), made once
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any

from slurm_flex.durations import parse_duration
from slurm_flex.errors import FlexError, InputErrors

Json = dict[str, Any]


def _knob(default: Any, text: str, known: str, choices: tuple[str, ...] = ()) -> Any:
    meta = {"help": text, "known": known, "choices": choices}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=meta)
    return field(default=default, metadata=meta)


def _delay(seconds: float, text: str) -> Any:
    return _knob(timedelta(seconds=seconds), text, "assumed")


@dataclass(frozen=True)
class Knobs:
    """The settings of one emulated cloud."""

    # How long things take, in seconds of the wall clock.
    op_delay: timedelta = _delay(0.2, "from an operation's insert to DONE, unless it waits longer")
    accept_delay: timedelta = _delay(0.3, "a resize request stays CREATING this long")
    provision_delay: timedelta = _delay(0.3, "an instance stays PROVISIONING this long")
    boot_delay: timedelta = _delay(0.5, "an instance stays STAGING this long, then RUNNING")
    stopping_delay: timedelta = _delay(0.5, "an instance stays STOPPING this long, then is gone")
    repair_delay: timedelta = _delay(2.0, "REPAIRING takes this long after a host error")
    capacity_retry: timedelta = _delay(10.0, "a waiting request is looked at again this often")

    # Capacity and quota.
    capacity: dict[str, Any] = _knob(
        {"*": "now"},
        'by ZONE/MACHINE_TYPE pattern, the longest that fits: "now", "never", "90s" (comes this '
        "long after the request was accepted, wall clock) or a number of places",
        "assumed",
    )
    quotas: dict[str, Any] = _knob(
        {}, "limit by METRIC or REGION/METRIC pattern; what is not named is ample", "documented"
    )
    active_resize_requests: int = _knob(100, "CREATING and ACCEPTED ones a region", "documented")
    zonal_group_size: int = _knob(1000, "instances in a zonal group", "documented")
    zonal_group_size_paginated: int = _knob(
        2000, "the same with listManagedInstancesResults=PAGINATED", "documented"
    )
    regional_group_size: int = _knob(2000, "instances in a regional group", "documented")
    regional_group_size_paginated: int = _knob(4000, "the same, PAGINATED", "assumed")
    instances_per_call: int = _knob(1000, "names in one deleteInstances and the like", "documented")
    instances_per_request: int = _knob(1000, "VMs of one resize request", "documented")
    min_run_duration: timedelta = _knob(
        timedelta(seconds=600), "the shortest requestedRunDuration", "read"
    )
    max_run_duration: timedelta = _knob(
        timedelta(days=7), "the longest requestedRunDuration", "documented"
    )
    reads_per_minute: int = _knob(1500, "get and list calls, a region; 0: no limit", "documented")
    writes_per_minute: int = _knob(
        1500, "mutations, listManagedInstances and listErrors, a region; 0: no limit", "documented"
    )
    operation_reads_per_minute: int = _knob(1500, "operations.get, a region", "documented")
    heavy_reads_per_minute: int = _knob(1500, "operations.wait, aggregatedList", "documented")

    not_offered: str = _knob(
        "", "machine types that a zone lacks: ZONE/MACHINE_TYPE patterns with commas", "assumed"
    )

    # How long things are remembered, emulated time.
    request_retention: timedelta = _knob(
        timedelta(days=14), "a finished resize request is listed this long", "documented"
    )
    operation_retention: timedelta = _knob(
        timedelta(days=14), "a finished operation can be read this long", "assumed"
    )
    request_id_window: timedelta = _knob(
        timedelta(hours=1), "a requestId is recognised this long", "assumed"
    )

    # Where the documentation leaves room.
    target_size_drops_at_end_of_life: bool = _knob(
        True, "targetSize goes down when an instance ends by its run duration", "assumed"
    )
    operation_http_status: bool = _knob(
        True, "a failed operation carries httpErrorStatusCode", "read"
    )
    cancel_race: str = _knob(
        "http",
        "how a cancel that comes too late is refused: HTTP 412, or a failed operation",
        "read",
        ("http", "operation"),
    )
    delete_queued_member: str = _knob(
        "refuse",
        "deleteInstances of a member that waits in an ACCEPTED request",
        "assumed",
        ("refuse", "allow"),
    )
    failed_insert: str = _knob(
        "failed",
        "a request whose insert operation fails stays listed as FAILED, or is not there at all",
        "assumed",
        ("failed", "absent"),
    )
    succeeded_when: str = _knob(
        "running",
        "a resize request is SUCCEEDED when all instances are RUNNING, or when they exist",
        "assumed",
        ("running", "created"),
    )
    run_duration_starts: str = _knob(
        "running",
        "the run duration is counted from RUNNING, or from the instance's creation",
        "assumed",
        ("running", "created"),
    )
    termination_timestamp: str = _knob(
        "running",
        "terminationTimestamp is shown once RUNNING, or never (clients fall back)",
        "assumed",
        ("running", "never"),
    )
    end_of_life_lateness: timedelta = _knob(
        timedelta(0), "the end may come this much later than it says (up to 30 s)", "documented"
    )
    group_delete_waits: bool = _knob(
        True, "deleting a group waits for a request that is being provisioned", "documented"
    )
    terminated_member: str = _knob(
        "stay",
        "a member whose instance is TERMINATED stays under DO_NOTHING, or leaves the group",
        "assumed",
        ("stay", "leave"),
    )
    target_size_drops_when_lost: bool = _knob(
        False,
        "targetSize goes down when a member's instance vanishes under DO_NOTHING (lost, or deleted "
        "without the group)",
        "assumed",
    )
    faulty_host_reports: str = _knob(
        "refused",
        "reportHostAsFaulty of Flex-start VMs: refused, or accepted as for allow-listed projects",
        "documented",
        ("refused", "accepted"),
    )
    guest_while_stopping: str = _knob(
        "dies",
        "the guest of a STOPPING instance is dead at once, or lives until it is gone",
        "assumed",
        ("dies", "lives"),
    )
    strict_groups: bool = _knob(
        True,
        "a resize request needs a group that doesn't repair, has one version, termination action "
        "DELETE and, if regional, shape ANY_SINGLE_ZONE",
        "documented",
    )
    flex_machine_types: str = _knob(
        "accelerators",
        "Flex-start is for machine types with GPUs and H4D, or for any",
        "read",
        ("accelerators", "any"),
    )

    # The neighbours: Resource Manager, IAM, Service Usage, Filestore, Lustre, Secret Manager.
    projects: str = _knob("*", "the projects that exist, as a pattern", "documented")
    iam_bindings: dict[str, Any] = _knob(
        {"roles/editor": ["serviceAccount:{number}@cloudservices.gserviceaccount.com"]},
        'the project policy: role to members, or to {"members": [], "condition": {}}; {number} is '
        "the project's number",
        "documented",
    )
    service_account_bindings: dict[str, Any] = _knob(
        {}, "policies of service accounts: e-mail pattern to role to members", "documented"
    )
    policy_readable: bool = _knob(True, "whether getIamPolicy is allowed", "documented")
    denied_permissions: str = _knob(
        "",
        "permissions that testIamPermissions does not return, patterns with commas; of "
        "serviceusage.services.* also those that are refused",
        "documented",
    )
    disabled_apis: str = _knob(
        "",
        "APIs that aren't enabled, patterns with commas (compute.*, file.*): their calls are "
        "refused with 403 SERVICE_DISABLED, and Service Usage says DISABLED",
        "documented",
    )
    filestores: dict[str, Any] = _knob(
        {"*": {"address": "10.0.0.2", "share": "nfsshare"}},
        'by name pattern: {"address", "share", "state"}; with "mount_point" it is a Lustre one',
        "documented",
    )
    secrets: dict[str, Any] = _knob({}, "secret name to its text", "documented")

    # How things are written.
    timestamp_offset_minutes: int = _knob(-480, "the offset of timestamps from UTC", "read")
    self_link_root: str = _knob(
        "https://www.googleapis.com", "where self links point; empty: at the emulator", "documented"
    )


def change(knobs: Knobs, values: Mapping[str, object]) -> Knobs:
    """New knobs with these values. Raises InputErrors that names every bad one."""
    known = {item.name: item for item in fields(Knobs)}
    errors: list[FlexError] = []
    read: Json = {}
    for name, value in values.items():
        if name not in known:
            errors.append(
                FlexError("no such knob", where=name, fix=f"one of {', '.join(sorted(known))}")
            )
            continue
        try:
            read[name] = _read(name, value, getattr(knobs, name), known[name].metadata["choices"])
        except FlexError as error:
            errors.append(FlexError(error.what, where=name, fix=error.fix))
    if errors:
        raise InputErrors(errors)
    return replace(knobs, **read)


def to_json(knobs: Knobs) -> Json:
    """All knobs; durations are seconds."""
    return {
        item.name: value.total_seconds() if isinstance(value, timedelta) else value
        for item in fields(knobs)
        for value in [getattr(knobs, item.name)]
    }


def describe() -> list[Json]:
    """Name, default, help and provenance of every knob, for the page and the documentation."""
    defaults = to_json(Knobs())
    return [{"name": f.name, "default": defaults[f.name], **f.metadata} for f in fields(Knobs)]


def _read(name: str, value: object, present: object, choices: tuple[str, ...]) -> object:
    if isinstance(present, timedelta):
        return parse_duration(value)
    if isinstance(present, bool):
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise FlexError(f"{value!r} is neither true nor false")
    if isinstance(present, int):
        try:
            return int(str(value))
        except ValueError:
            raise FlexError(f"{value!r} is not a whole number") from None
    if isinstance(present, dict):
        table = value if isinstance(value, Mapping) else {"*": value}
        if name not in ("capacity", "quotas"):
            return dict(table)
        return {str(key): _read_rule(rule) for key, rule in table.items()}
    if choices and value not in choices:
        raise FlexError(f"{value!r} is not among the choices", fix=f"one of {', '.join(choices)}")
    return str(value)


def _read_rule(value: object) -> object:
    if isinstance(value, (int, float)) or value in ("now", "never"):
        return value
    text = str(value)
    if text.isdigit():
        return int(text)
    parse_duration(text)
    return text
