"""Snapshots as people write them."""

from __future__ import annotations

import copy
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from slurm_flex.errors import InputErrors
from slurm_flex.model import CloudError, Memory, SlurmConfig
from slurm_flex.snapshot import dump_snapshot, load_snapshot

# The example of DESIGN.md, as it stands there.
EXAMPLE = """
{"format": "slurm-flex-snapshot/1", "now": "2026-12-01T12:00:00Z",
 "settings": {"max_queue_wait": "7d"},
 "cluster": {"display_name": "c1", "node_pools": [], "orchestrator_spec": {"slurm_spec": {}}},
 "slurm": {"version": "24.11.5", "responding": true, "primary": true,
  "nodes": [{"name": "c1-gx-0", "state": "MIXED+CLOUD+POWERING_UP", "reason": null,
             "reason_time": null, "instance_id": null, "boot_time": null, "comment": null}],
  "jobs": [{"id": 51, "state": "CONFIGURING", "reason": "None", "partition": "gx",
            "nodes": "c1-gx-[0-3]", "required_nodes": null, "num_nodes": 4, "time_limit": 3600,
            "submit_time": "2026-12-01T11:00:00Z", "start_time": null, "end_time": null,
            "priority": 1000, "exclusive": true, "requeue": true, "restarts": 0,
            "admin_comment": null}],
  "reservations": [{"name": "maint_x", "nodes": "c1-gx-0", "start": "2026-12-01T18:00:00Z",
                    "end": "2026-12-01T20:00:00Z", "flags": ["MAINT"]}]},
 "cloud": {"gx": {"complete": true, "group": true, "target_size": 4,
  "instances": [{"name": "c1-gx-0", "id": "123", "status": "RUNNING", "action": "NONE",
                 "created": "2026-12-01T11:00:00Z", "terminates": "2026-12-08T11:00:00Z",
                 "labels": {"slurm-flex-cluster": "c1"}, "error": null}],
  "requests": [{"name": "j51-1", "state": "ACCEPTED", "nodes": "c1-gx-[0-3]",
                "created": "2026-12-01T11:59:00Z", "run_duration": 604800, "error": null,
                "last_attempt": null}]}},
 "memory": {}}
"""
LEAST = {"format": "slurm-flex-snapshot/1", "now": "2026-12-01T12:00:00Z", "cluster": {}}


def with_change(*path: str | int, to: object) -> dict[str, Any]:
    """The example with one value changed or added."""
    data: Any = json.loads(EXAMPLE)
    top = data
    for step in path[:-1]:
        data = data[step]
    data[path[-1]] = to
    result: dict[str, Any] = top
    return result


def errors(data: object) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        load_snapshot(data if isinstance(data, dict) else str(data))
    return [str(error) for error in caught.value.errors]


def utc(hour: int, day: int = 1) -> datetime:
    return datetime(2026, 12, day, hour, tzinfo=timezone.utc)


def test_the_example_of_the_design_reads_as_it_says() -> None:
    snapshot, memory = load_snapshot(EXAMPLE)
    assert memory == Memory()
    assert snapshot.now == utc(12)
    assert snapshot.settings.max_queue_wait == timedelta(days=7)
    assert snapshot.cluster.id == "c1"
    assert snapshot.slurm.version == "24.11.5"
    (node,) = snapshot.slurm.nodes
    assert node.is_powering_up
    (job,) = snapshot.slurm.jobs
    assert job.nodes == ("c1-gx-0", "c1-gx-1", "c1-gx-2", "c1-gx-3")
    assert job.time_limit == timedelta(hours=1)
    assert job.submit_time == utc(11)
    assert (job.batch, job.exclusive, job.required_nodes) == (True, True, ())
    (reservation,) = snapshot.slurm.reservations
    assert (reservation.start, reservation.end, reservation.flags) == (utc(18), utc(20), ("MAINT",))
    group = snapshot.cloud["gx"]
    assert (group.complete, group.exists, group.target_size) == (True, True, 4)
    assert group.instances[0].terminates == utc(11, day=8)
    assert group.instances[0].is_labelled("c1")
    assert group.requests[0].run_duration == timedelta(days=7)


def test_an_announced_maintenance_is_the_one_key_that_may_be_missing_in_what_is_written() -> None:
    without, _ = load_snapshot(EXAMPLE)
    begins = with_change(
        "cloud", "gx", "instances", 0, "maintenance", to="2026-12-03T13:00:00+01:00"
    )
    announced, _ = load_snapshot(begins)
    assert without.cloud["gx"].instances[0].maintenance is None
    assert announced.cloud["gx"].instances[0].maintenance == utc(12, day=3)
    assert "maintenance" not in dump_snapshot(without)["cloud"]["gx"]["instances"][0]
    (written,) = dump_snapshot(announced)["cloud"]["gx"]["instances"]
    assert written["maintenance"] == "2026-12-03T12:00:00Z"


def test_a_snapshot_needs_no_more_than_its_format_a_time_and_a_cluster() -> None:
    snapshot, memory = load_snapshot(LEAST)
    assert memory == Memory()
    assert snapshot.slurm.responding and snapshot.slurm.primary
    assert snapshot.cloud == {}
    assert snapshot.paused_pools == frozenset()


def test_a_pool_in_the_cloud_is_complete_and_has_a_group_unless_it_says_otherwise() -> None:
    snapshot, _ = load_snapshot({**LEAST, "cloud": {"gx": {}}})
    assert snapshot.cloud["gx"].complete and snapshot.cloud["gx"].exists
    snapshot, _ = load_snapshot({**LEAST, "cloud": {"gx": {"complete": False, "group": False}}})
    assert not snapshot.cloud["gx"].complete and not snapshot.cloud["gx"].exists


@pytest.mark.parametrize("key", ["format", "now", "cluster"])
def test_what_must_be_there_is_asked_for_by_name(key: str) -> None:
    (said,) = errors({name: value for name, value in LEAST.items() if name != key})
    assert said.startswith(f"snapshot: {key}: is missing")


def test_another_format_is_refused_by_name_before_anything_else() -> None:
    (said,) = errors({"format": "slurm-flex-snapshot/9", "wrong": 1})
    assert '"slurm-flex-snapshot/9"' in said and "slurm-flex-snapshot/1" in said


def test_all_errors_come_at_once_each_with_its_path_and_what_was_meant() -> None:
    data = json.loads(EXAMPLE)
    data["setings"] = {}
    data["settings"] = {"max_queue_weight": "7d"}
    data["cluster"]["node_pool"] = []
    data["slurm"]["jobs"][0]["stat"] = "RUNNING"
    data["slurm"]["jobs"][0]["submit_time"] = "2026-12-01T11:00:00"
    del data["slurm"]["nodes"][0]["state"]
    data["cloud"]["gx"]["instances"][0]["status "] = 1
    data["memory"] = {"nonsense": 1}
    said = errors(data)
    for start, hint in (
        ("snapshot: setings: is not a known key", "settings"),
        ("snapshot: settings: max_queue_weight is no setting", "max_queue_wait"),
        ("snapshot: cluster: node_pool: is not a known key", "node_pools"),
        ("snapshot: slurm.jobs[0].stat: is not a known key", "state"),
        ("snapshot: slurm.jobs[0].submit_time: ", "no time zone"),
        ("snapshot: slurm.nodes[0].state: is missing", ""),
        ("snapshot: cloud.gx.instances[0].status : is not a known key", "status"),
        ("snapshot: memory: nonsense: is no part of memory", "leave memory out"),
    ):
        (found,) = [line for line in said if line.startswith(start)]
        assert hint in found
    assert len(said) == 8


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-12-01T12:00:00Z", utc(12)),
        ("2026-12-01t12:00:00z", utc(12)),
        ("2026-12-01T04:00:00-08:00", utc(12)),
        ("2026-12-01T12:00:00.123Z", utc(12).replace(microsecond=123000)),
        ("2026-12-01T17:30:00.123456789+05:30", utc(12).replace(microsecond=123456)),
    ],
)
def test_times_are_rfc_3339_in_any_zone(written: str, meant: datetime) -> None:
    snapshot, _ = load_snapshot({**LEAST, "now": written})
    assert snapshot.now == meant
    assert snapshot.now.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "written",
    ["2026-12-01T12:00:00", "2026-12-01", "yesterday", "2026-13-01T12:00:00Z", 1764590400, "",
     "0001-01-01T00:00:00+14:00", "2026-12-01T12:00:00 UTC", "٢026-12-01T12:00:00Z"],
)  # fmt: skip
def test_a_time_without_zone_or_sense_is_an_error_at_its_path(written: object) -> None:
    (said,) = errors(with_change("slurm", "jobs", 0, "end_time", to=written))
    assert said.startswith("snapshot: slurm.jobs[0].end_time: ")
    assert written != "2026-12-01T12:00:00" or "time zone" in said


@pytest.mark.parametrize("written", ["c1-gx-[0-1]", ["c1-gx-0", "c1-gx-1"], "c1-gx-0,c1-gx-1"])
def test_nodes_are_a_hostlist_or_a_list_of_names(written: object) -> None:
    snapshot, _ = load_snapshot(with_change("slurm", "jobs", 0, "nodes", to=written))
    assert snapshot.slurm.jobs[0].nodes == ("c1-gx-0", "c1-gx-1")


@pytest.mark.parametrize("written", ["c1-gx-[0-", "c1-gx-[3-1]", 7, [1], {"a": 1}])
def test_nodes_that_are_no_hostlist_are_an_error_at_their_path(written: object) -> None:
    (said,) = errors(with_change("slurm", "jobs", 0, "nodes", to=written))
    assert said.startswith("snapshot: slurm.jobs[0].nodes: ")


def test_ids_may_be_numbers_or_digits() -> None:
    snapshot, _ = load_snapshot(with_change("slurm", "jobs", 0, "id", to="52"))
    assert snapshot.slurm.jobs[0].id == 52
    snapshot, _ = load_snapshot(with_change("cloud", "gx", "instances", 0, "id", to=456))
    assert snapshot.cloud["gx"].instances[0].id == "456"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("slurm", "jobs", 0, "id"), "11_3"),
        (("slurm", "jobs", 0, "id"), 0),
        (("slurm", "jobs", 0, "time_limit"), "1:00:00"),
        (("slurm", "jobs", 0, "time_limit"), -1),
        (("slurm", "jobs", 0, "time_limit"), float("nan")),
        (("slurm", "jobs", 0, "exclusive"), "maybe"),
        (("slurm", "jobs", 0, "requeue"), 1),
        (("slurm", "jobs"), {}),
        (("slurm", "nodes", 0), "c1-gx-0"),
        (("slurm", "nodes", 0, "name"), ""),
        (("slurm", "reservations", 0, "flags"), "MAINT"),
        (("cloud", "gx", "requests", 0, "error"), "no capacity"),
        (("cloud", "gx", "requests", 0, "error"), {"Code": "x"}),
        (("cloud", "gx", "instances", 0, "labels"), ["a"]),
        (("cloud", "gx", "target_size"), 1.5),
        (("slurm", "config"), {"SuspendTime": "soon"}),
        (("slurm", "config"), {"suspend_time": 300}),
        (("slurm",), []),
        (("cloud",), []),
        (("cloud", "gx"), []),
        (("settings",), []),
        (("settings",), {"paused_pools": "gx"}),
        (("settings",), {"max_queue_wait": "soon"}),
        (("cluster",), []),
        (("memory",), []),
        (("memory",), {"sightings": {"a": 1}}),
        (("memory",), {"armed": {"c1-gx-0": "2026-12-01T12:00:00"}}),
    ],
)
def test_a_value_of_the_wrong_kind_is_one_error_at_its_path(
    path: tuple[str | int, ...], value: object
) -> None:
    said = errors(with_change(*path, to=value))
    assert said
    assert all(line.startswith(f"snapshot: {path[0]}") for line in said)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"now": 1, "now": 2}', "[" * 100_000, "\ud800"]
)
def test_what_is_no_json_object_is_refused_in_words(text: str) -> None:
    assert errors(text)


def test_bytes_are_read_as_utf_8() -> None:
    assert load_snapshot(EXAMPLE.encode())[0].now == utc(12)
    with pytest.raises(InputErrors, match="UTF-8"):
        load_snapshot(b"\xff")


def test_the_configuration_is_read_as_slurm_prints_it() -> None:
    printed = {
        "SuspendExcNodes": "c1-gx-[0-1]",
        "SuspendExcParts": "(null)",
        "SuspendTime": "300 sec",
        "SuspendTimeout": 60,
        "ResumeTimeout": "INFINITE",
        "SlurmctldParameters": "cloud_dns,idle_on_node_suspend",
    }
    snapshot, _ = load_snapshot(with_change("slurm", "config", to=printed))
    assert snapshot.slurm.config == SlurmConfig(
        suspend_exc_nodes="c1-gx-[0-1]",
        suspend_time=timedelta(minutes=5),
        suspend_timeout=timedelta(minutes=1),
        slurmctld_parameters="cloud_dns,idle_on_node_suspend",
    )
    for never in ("NONE", "-1", -1, "(null)", None):
        snapshot, _ = load_snapshot(with_change("slurm", "config", to={"SuspendTime": never}))
        assert snapshot.slurm.config.suspend_time is None


def test_paused_pools_stand_among_the_settings() -> None:
    snapshot, _ = load_snapshot(with_change("settings", to={"paused_pools": ["gx"]}))
    assert snapshot.paused_pools == {"gx"}
    assert snapshot.settings.differing() == {}


def test_labels_may_hold_anything_and_read_as_text() -> None:
    labels = {"a": "b", "number": 1, "deep": {"x": [None]}, "unknown-key": "fine"}
    snapshot, _ = load_snapshot(with_change("cloud", "gx", "instances", 0, "labels", to=labels))
    assert snapshot.cloud["gx"].instances[0].labels == {
        "a": "b",
        "number": "1",
        "deep": '{"x": [null]}',
        "unknown-key": "fine",
    }


def test_errors_of_the_cloud_are_a_code_and_a_message() -> None:
    error = {"code": "QUOTA_EXCEEDED", "message": "q"}
    snapshot, _ = load_snapshot(with_change("cloud", "gx", "requests", 0, "last_attempt", to=error))
    assert snapshot.cloud["gx"].requests[0].last_attempt == CloudError("QUOTA_EXCEEDED", "q")


def test_a_job_that_counts_no_nodes_wants_as_many_as_it_holds_or_requires() -> None:
    data = json.loads(EXAMPLE)
    job = data["slurm"]["jobs"][0]
    del job["num_nodes"]
    assert load_snapshot(copy.deepcopy(data))[0].slurm.jobs[0].num_nodes == 4
    job["nodes"] = None
    assert load_snapshot(copy.deepcopy(data))[0].slurm.jobs[0].num_nodes == 1
    job["required_nodes"] = "c1-gx-[0-1]"
    assert load_snapshot(data)[0].slurm.jobs[0].num_nodes == 2


def test_a_job_may_carry_its_users_words() -> None:
    data = with_change("slurm", "jobs", 0, "comment", to="flex-signal=USR1@600")
    data["slurm"]["jobs"][0]["extra"] = "healthchecks_prolog=off"
    (job,) = load_snapshot(data)[0].slurm.jobs
    assert (job.comment, job.extra) == ("flex-signal=USR1@600", "healthchecks_prolog=off")


def test_the_projects_of_the_settings_win_as_they_do_on_the_controller() -> None:
    data = with_change("settings", to={"project": "p2", "region": "us-east1"})
    cluster = load_snapshot(data)[0].cluster
    assert (cluster.project, cluster.region) == ("p2", "us-east1")
