"""Rate limits by minute, region and kind of call; knobs."""

from __future__ import annotations

import pytest

from slurm_flex.emulator.core.knobs import Knobs, change, describe, to_json
from slurm_flex.errors import InputErrors
from tests.unit.emulator.here import ZONE, Here


def test_a_bucket_is_refilled_at_the_full_minute() -> None:
    here = Here(reads_per_minute=3)
    here.wall = 119.0
    codes = [here.call("GET", f"{ZONE}/instances")[0] for _ in range(4)]
    assert codes == [200, 200, 200, 403]
    here.wall = 120.0
    here.ok("GET", f"{ZONE}/instances")


def test_regions_and_projects_have_buckets_of_their_own() -> None:
    here = Here(reads_per_minute=1)
    here.ok("GET", f"{ZONE}/instances")
    here.ok("GET", "zones/us-east1-b/instances")
    here.ok("GET", f"/compute/v1/projects/q/{ZONE}/instances")
    here.refused(403, "GET", "zones/us-central1-b/instances")


def test_an_exceeded_limit_says_so_in_googles_words() -> None:
    here = Here(reads_per_minute=1)
    here.ok("GET", f"{ZONE}/instances")
    _, body = here.call("GET", f"{ZONE}/instances")
    error = body["error"]
    assert error["errors"][0]["reason"] == "rateLimitExceeded"
    assert error["errors"][0]["domain"] == "usageLimits"
    assert error["details"][0]["reason"] == "RATE_LIMIT_EXCEEDED"
    assert error["message"].startswith("Quota exceeded for quota metric 'Queries' and limit")


@pytest.mark.parametrize(
    ("verb", "path", "knob"),
    [
        ("POST", "listManagedInstances", "writes_per_minute"),
        ("GET", "listErrors", "writes_per_minute"),
        ("GET", "", "reads_per_minute"),
    ],
)
def test_what_is_charged_to_which_bucket(verb: str, path: str, knob: str) -> None:
    here = Here()
    group = here.group()
    here.wall += 60
    here.knob(**{knob: 1})
    url = f"{group}/{path}".rstrip("/")
    here.ok(verb, url)
    here.refused(403, verb, url)


def test_waiting_for_operations_and_aggregated_lists_are_heavy_reads() -> None:
    here = Here(heavy_reads_per_minute=1, operation_reads_per_minute=1)
    operation = here.ok("PATCH", here.group(), {})
    path = f"{ZONE}/operations/{operation['name']}"
    here.wait(10)
    here.ok("POST", f"{path}/wait")
    here.refused(403, "POST", f"{path}/wait")
    here.ok("GET", path)
    here.refused(403, "GET", path)
    here.ok("GET", "aggregated/instances")
    here.refused(403, "GET", "aggregated/instances")


def test_zero_is_no_limit() -> None:
    here = Here(reads_per_minute=0)
    assert {here.call("GET", f"{ZONE}/instances")[0] for _ in range(50)} == {200}


def test_knobs_are_read_as_people_write_them() -> None:
    knobs = change(
        Knobs(),
        {"boot_delay": "2m", "op_delay": 0.5, "strict_groups": "false", "zonal_group_size": "7",
         "capacity": {"us-*/a3-*": "90s", "*": "4"}, "cancel_race": "operation"},
    )  # fmt: skip
    assert knobs.boot_delay.total_seconds() == 120
    assert knobs.op_delay.total_seconds() == 0.5
    assert knobs.strict_groups is False
    assert knobs.zonal_group_size == 7
    assert knobs.capacity == {"us-*/a3-*": "90s", "*": 4}
    assert change(Knobs(), to_json(knobs)) == knobs


def test_all_bad_knobs_are_named_at_once() -> None:
    with pytest.raises(InputErrors) as caught:
        change(
            Knobs(),
            {"bot_delay": "1s", "boot_delay": "soon", "cancel_race": "maybe",
             "strict_groups": "perhaps", "capacity": "sometimes", "zonal_group_size": "big"},
        )  # fmt: skip
    named = [error.where for error in caught.value.errors]
    assert named == [
        "bot_delay", "boot_delay", "cancel_race", "strict_groups", "capacity", "zonal_group_size",
    ]  # fmt: skip


def test_every_knob_says_what_it_is_and_how_well_its_default_is_known() -> None:
    for knob in describe():
        assert knob["help"], knob
        assert knob["known"] in ("documented", "read", "assumed"), knob


def test_the_longest_pattern_decides_about_capacity() -> None:
    here = Here(capacity={"*": "never", "us-central1-a/*": "never", "us-central1-a/a3-*": "now"})
    here.up(here.group(), "j1-1", "n-0")
