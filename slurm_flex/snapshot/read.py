"""Read a snapshot. What isn't needed may be left out; what isn't known is an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Final, TypeVar

from slurm_flex.cluster import Cluster, parse_cluster
from slurm_flex.cluster.config import parse_json
from slurm_flex.cluster.settings import Settings, parse_settings
from slurm_flex.errors import InputErrors
from slurm_flex.model import (
    CloudError,
    Group,
    Instance,
    Job,
    Memory,
    Node,
    Partition,
    Request,
    Reservation,
    Slurm,
    SlurmConfig,
    Snapshot,
)
from slurm_flex.slurm.values import CONFIG_KEYS, CONFIG_TIMES, parse_config, parse_seconds
from slurm_flex.snapshot.memory import load_memory
from slurm_flex.snapshot.record import Complaints, Record, shown

T = TypeVar("T")
FORMAT: Final = "slurm-flex-snapshot/1"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def load_snapshot(
    text_or_obj: str | bytes | Mapping[str, object], *, source: str = "snapshot"
) -> tuple[Snapshot, Memory]:
    """A snapshot, given as JSON text or as the object in it, and the memory that it carries.

    Only format, now and cluster must be there. Raises InputErrors with every error at once, each
    with its JSON path and, where one can be guessed, what was meant.
    """
    data = _parsed(text_or_obj, source)
    complaints = Complaints(source)
    top = Record(data, "", complaints)
    found = top.raw("format")
    if isinstance(data, Mapping) and found != FORMAT:
        said = "is missing" if found is None else f"{shown(found)} is not known here"
        top.complain("format", said, f'this release reads "{FORMAT}"')
    if complaints.errors:
        raise InputErrors(complaints.errors)
    if top.raw("now") is None:
        top.complain("now", "is missing", 'the moment, like "2026-12-01T12:00:00Z"')
    now = top.time("now")
    settings, paused_pools = _settings(top)
    snapshot = Snapshot(
        now=now or _EPOCH,
        settings=settings,
        cluster=_cluster(top, settings),
        slurm=_slurm(top),
        cloud=_cloud(top),
        paused_pools=paused_pools,
    )
    memory = _memory(top)
    top.close()
    if complaints.errors:
        raise InputErrors(complaints.errors)
    return snapshot, memory


def _parsed(given: str | bytes | Mapping[str, object], source: str) -> object:
    if isinstance(given, Mapping):
        return given
    complaints = Complaints(source)
    try:
        text = given.decode("utf-8-sig") if isinstance(given, bytes) else given.lstrip("\ufeff")
        return parse_json(text, source=source)
    except UnicodeDecodeError as error:
        complaints.add("", f"is not UTF-8 text (byte {error.start})")
    except (RecursionError, ValueError) as error:
        complaints.add("", f"is not a snapshot: {error}")
    raise InputErrors(complaints.errors)


def _settings(top: Record) -> tuple[Settings, frozenset[str]]:
    given = top.raw("settings")
    if given is None:
        return Settings(), frozenset()
    record = Record(given, "settings", top.complaints)
    paused = frozenset(record.words("paused_pools", "a list of pool ids"))
    if not isinstance(given, Mapping):
        return Settings(), paused
    rest = {
        key: value for key, value in given.items() if key != "paused_pools" and value is not None
    }
    try:
        return parse_settings(rest, source=_place(top, "settings")), paused
    except InputErrors as errors:
        top.complaints.include(errors)
        return Settings(), paused


def _cluster(top: Record, settings: Settings) -> Cluster:
    given = top.raw("cluster")
    if given is None:
        top.complain("cluster", "is missing", "it is what cluster_config.json holds")
        return Cluster(id="cluster")
    try:
        cluster = parse_cluster(given, source=_place(top, "cluster"), lenient=True)
        return replace(
            cluster,
            project=settings.project or cluster.project,
            region=settings.region or cluster.region,
        )
    except InputErrors as errors:
        top.complaints.include(errors)
        return Cluster(id="cluster")


def _memory(top: Record) -> Memory:
    try:
        return load_memory(top.raw("memory"), source=_place(top, "memory"))
    except InputErrors as errors:
        top.complaints.include(errors)
        return Memory()


def _place(top: Record, key: str) -> str:
    return f"{top.complaints.source}: {key}"


def _slurm(top: Record) -> Slurm:
    record = top.record("slurm")
    if record is None:
        return Slurm()
    slurm = Slurm(
        version=record.text("version"),
        responding=record.certainty("responding"),
        primary=record.flag("primary", True),
        config=_config(record),
        nodes=_unique(record, "nodes", record.records("nodes", _node), lambda node: node.name),
        jobs=_unique(record, "jobs", record.records("jobs", _job), lambda job: str(job.id)),
        partitions=record.records("partitions", _partition),
        reservations=record.records("reservations", _reservation),
    )
    record.close()
    return slurm


def _unique(
    record: Record, key: str, items: tuple[T, ...], name_of: Callable[[T], str]
) -> tuple[T, ...]:
    """Two things of one name would make the plan depend on their order."""
    seen: set[str] = set()
    for item in items:
        name = name_of(item)
        if name in seen:
            record.complain(key, f"{shown(name)} is there twice", "each has one entry")
        seen.add(name)
    return items


def _config(slurm: Record) -> SlurmConfig:
    record = slurm.record("config")
    if record is None:
        return SlurmConfig()
    values = {key: record.text(key) for key in CONFIG_KEYS}
    for key in CONFIG_TIMES:
        try:
            parse_seconds(values[key])
        except ValueError as error:
            record.complain(key, str(error), "a number, INFINITE or null")
            values[key] = None
    record.close()
    return parse_config(values)


def _node(record: Record) -> Node:
    return Node(
        name=record.needed_text("name"),
        state=record.needed_text("state"),
        reason=record.text("reason"),
        reason_time=record.time("reason_time"),
        reason_user=record.text("reason_user"),
        instance_id=record.text("instance_id"),
        boot_time=record.time("boot_time"),
        comment=record.text("comment"),
    )


def _job(record: Record) -> Job:
    nodes = record.names("nodes")
    required_nodes = record.names("required_nodes")
    num_nodes = record.number("num_nodes")
    return Job(
        id=record.needed_number("id", 1),
        state=record.needed_text("state"),
        reason=record.text("reason"),
        partition=record.text("partition"),
        user=record.text("user"),
        batch=record.flag("batch", True),
        nodes=nodes,
        required_nodes=required_nodes,
        exclude_nodes=record.names("exclude_nodes"),
        features=record.text("features"),
        reservation=record.text("reservation"),
        num_nodes=len(nodes or required_nodes) or 1 if num_nodes is None else num_nodes,
        time_limit=record.seconds("time_limit"),
        submit_time=record.time("submit_time"),
        start_time=record.time("start_time"),
        end_time=record.time("end_time"),
        priority=record.number("priority") or 0,
        exclusive=record.flag("exclusive", False),
        requeue=record.flag("requeue", True),
        restarts=record.number("restarts") or 0,
        array_tasks=record.text("array_tasks"),
        het_job_id=record.number("het_job_id"),
        comment=record.text("comment"),
        extra=record.text("extra"),
        admin_comment=record.text("admin_comment"),
    )


def _partition(record: Record) -> Partition:
    return Partition(
        name=record.needed_text("name"),
        state=record.text("state") or "UP",
        nodes=record.names("nodes"),
        max_time=record.seconds("max_time"),
    )


def _reservation(record: Record) -> Reservation:
    return Reservation(
        name=record.needed_text("name"),
        nodes=record.names("nodes"),
        start=record.time("start"),
        end=record.time("end"),
        flags=record.words("flags", "a list of flags"),
    )


def _cloud(top: Record) -> dict[str, Group]:
    given = top.raw("cloud")
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        top.complain("cloud", f"{shown(given)} is not an object {{ }}", "one key a pool")
        return {}
    return {
        str(pool): _group(Record(group, f"cloud.{pool}", top.complaints))
        for pool, group in given.items()
        if group is not None
    }


def _group(record: Record) -> Group:
    group = Group(
        complete=record.certainty("complete"),
        exists=record.flag("group", True),
        target_size=record.number("target_size"),
        instances=record.records("instances", _instance),
        requests=_unique(
            record, "requests", record.records("requests", _request), lambda one: one.name
        ),
    )
    record.close()
    return group


def _instance(record: Record) -> Instance:
    return Instance(
        name=record.needed_text("name"),
        id=record.text("id"),
        status=record.text("status"),
        action=record.text("action") or "NONE",
        created=record.time("created"),
        terminates=record.time("terminates"),
        labels=_labels(record),
        error=_error(record, "error"),
        maintenance=record.time("maintenance"),
    )


def _labels(record: Record) -> Mapping[str, str] | None:
    """Labels are whatever the VM carries: no key is unknown, and a value is text in the end."""
    given = record.raw("labels")
    if given is None:
        return None
    if not isinstance(given, Mapping):
        record.complain("labels", f"{shown(given)} is not an object {{ }}")
        return None
    return {
        str(key): value if isinstance(value, str) else json.dumps(value)
        for key, value in given.items()
    }


def _request(record: Record) -> Request:
    return Request(
        name=record.needed_text("name"),
        state=record.needed_text("state"),
        nodes=record.names("nodes"),
        created=record.time("created"),
        run_duration=record.seconds("run_duration"),
        error=_error(record, "error"),
        last_attempt=_error(record, "last_attempt"),
    )


def _error(parent: Record, key: str) -> CloudError | None:
    record = parent.record(key)
    if record is None:
        return None
    error = CloudError(record.text("code") or "", record.text("message") or "")
    record.close()
    return error
