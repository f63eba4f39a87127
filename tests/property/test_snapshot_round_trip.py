"""What is written as a snapshot reads back as the same values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta, timezone
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_flex.cluster import parse_cluster
from slurm_flex.cluster.settings import parse_settings
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
from slurm_flex.snapshot import dump_memory, dump_snapshot, load_memory, load_snapshot

TIMES = st.datetimes(
    min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(timezone.utc)
)
SECONDS = st.integers(0, 3_000_000_000).map(lambda number: timedelta(milliseconds=number))
TEXT = st.text(max_size=20)
NAMES = st.one_of(
    st.integers(0, 30).map(lambda index: f"c1-gx-{index}"), st.sampled_from(["a,b", "x y", "a[1]"])
)
NODES = st.lists(NAMES, max_size=8).map(tuple)
ERRORS = st.builds(CloudError, TEXT, TEXT)
SOURCES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"display_name": "c1", "node_pools": [{"id": "gx", "scalingSpec": {"maxNodeCount": "4"}}]},
        {
            "name": "projects/p/locations/us-east1/modelDevelopmentClusters/c1",
            "node_pools": [{"id": "gx", "flex_start_max_duration": "30s"}],
        },
    ]
)
SETTINGS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"max_queue_wait": "90s"}, {"expiry_signal": {"gx": "USR1"}, "comments": False}]
)


def maybe(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


NODE = st.builds(
    Node,
    name=NAMES,
    state=st.sampled_from(["idle~", "MIXED+CLOUD+POWERING_UP", "NEWFLAG"]),
    reason=maybe(TEXT),
    reason_time=maybe(TIMES),
    reason_user=maybe(TEXT),
    instance_id=maybe(TEXT),
    boot_time=maybe(TIMES),
    comment=maybe(TEXT),
)
JOB = st.builds(
    Job,
    id=st.integers(1, 2**40),
    state=st.sampled_from(["PENDING", "RUNNING,CONFIGURING"]),
    reason=maybe(TEXT),
    partition=maybe(TEXT),
    user=maybe(TEXT),
    batch=st.booleans(),
    nodes=NODES,
    required_nodes=NODES,
    exclude_nodes=NODES,
    features=maybe(TEXT),
    reservation=maybe(TEXT),
    num_nodes=st.integers(0, 10_000),
    time_limit=maybe(SECONDS),
    submit_time=maybe(TIMES),
    start_time=maybe(TIMES),
    end_time=maybe(TIMES),
    priority=st.integers(0, 2**32),
    exclusive=st.booleans(),
    requeue=st.booleans(),
    restarts=st.integers(0, 9),
    array_tasks=maybe(TEXT),
    het_job_id=maybe(st.integers(1, 99)),
    comment=maybe(TEXT),
    extra=maybe(TEXT),
    admin_comment=maybe(TEXT),
)
PARTITION = st.builds(
    Partition, name=NAMES, state=st.sampled_from(["UP", "DRAIN"]), nodes=NODES,
    max_time=maybe(SECONDS),
)  # fmt: skip
RESERVATION = st.builds(
    Reservation,
    name=NAMES,
    nodes=NODES,
    start=maybe(TIMES),
    end=maybe(TIMES),
    flags=st.lists(TEXT, max_size=3).map(tuple),
)
CONFIG = st.builds(
    SlurmConfig,
    suspend_exc_nodes=maybe(NAMES),
    suspend_time=maybe(st.integers(0, 99_999).map(lambda number: timedelta(seconds=number))),
    slurmctld_parameters=maybe(NAMES),
)
SLURM = st.builds(
    Slurm,
    version=maybe(TEXT),
    responding=st.booleans(),
    primary=st.booleans(),
    config=CONFIG,
    nodes=st.lists(NODE, max_size=2, unique_by=lambda one: one.name).map(tuple),
    jobs=st.lists(JOB, max_size=2, unique_by=lambda one: one.id).map(tuple),
    partitions=st.lists(PARTITION, max_size=2).map(tuple),
    reservations=st.lists(RESERVATION, max_size=2).map(tuple),
)
INSTANCE = st.builds(
    Instance,
    name=NAMES,
    id=maybe(TEXT),
    status=maybe(st.sampled_from(["RUNNING", "NEW_STATUS"])),
    action=st.sampled_from(["NONE", "DELETING"]),
    created=maybe(TIMES),
    terminates=maybe(TIMES),
    labels=maybe(st.dictionaries(TEXT, TEXT, max_size=2)),
    error=maybe(ERRORS),
    maintenance=maybe(TIMES),
)
REQUEST = st.builds(
    Request,
    name=NAMES,
    state=st.sampled_from(["ACCEPTED", "NEW_STATE"]),
    nodes=NODES,
    created=maybe(TIMES),
    run_duration=maybe(SECONDS),
    error=maybe(ERRORS),
    last_attempt=maybe(ERRORS),
)
GROUP = st.builds(
    Group,
    complete=st.booleans(),
    exists=st.booleans(),
    target_size=maybe(st.integers(0, 1000)),
    instances=st.lists(INSTANCE, max_size=2).map(tuple),
    requests=st.lists(REQUEST, max_size=2, unique_by=lambda one: one.name).map(tuple),
)
SNAPSHOT = st.builds(
    Snapshot,
    now=TIMES,
    settings=SETTINGS.map(parse_settings),
    cluster=SOURCES.map(lambda source: parse_cluster(source, lenient=True)),
    slurm=SLURM,
    cloud=st.dictionaries(TEXT, GROUP, max_size=2),
    paused_pools=st.frozensets(TEXT, max_size=2),
)


def part_of_memory(hint: object) -> st.SearchStrategy[object]:
    """Small mappings and tuples of whatever a field of Memory holds."""
    if get_origin(hint) is tuple:
        return st.lists(part_of_memory(get_args(hint)[0]), max_size=2).map(tuple)
    if get_origin(hint) in (Mapping, dict):
        return st.dictionaries(TEXT, part_of_memory(get_args(hint)[1]), max_size=1)
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*(part_of_memory(one) for one in get_args(hint)))
    if isinstance(hint, type) and is_dataclass(hint):
        return parts_of(hint)
    return {
        datetime: TIMES,
        timedelta: SECONDS,
        bool: st.booleans(),
        int: st.integers(0, 9),
        str: TEXT,
        type(None): st.none(),
    }[hint]  # type: ignore[index]


def parts_of(kind: type) -> st.SearchStrategy[object]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: part_of_memory(hints[field.name])
                              for field in fields(kind)})  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(SNAPSHOT)
def test_a_written_snapshot_reads_back_the_same(snapshot: Snapshot) -> None:
    written = json.dumps(dump_snapshot(snapshot))
    assert load_snapshot(written)[0] == snapshot


@settings(max_examples=40, deadline=None)
@given(parts_of(Memory))
def test_written_memory_reads_back_the_same(memory: Memory) -> None:
    written = json.loads(json.dumps(dump_memory(memory)))
    assert load_memory(written) == memory


def test_an_empty_memory_is_an_empty_object() -> None:
    assert dump_memory(Memory()) == {}
    assert load_memory({}) == load_memory(None) == Memory()
