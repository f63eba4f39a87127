"""Durations read as people write them, and read back as they were written."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_flex.durations import format_duration, humanize, parse_duration
from slurm_flex.errors import FlexError


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604800), ("45", 45), (30, 30), ("1.5h", 5400)],
)
def test_what_people_write_is_read(written: object, seconds: int) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written", ["", "7 weeks", "-5s", "1h30m", True, None, [], "9" * 30, "nan"]
)
def test_what_is_no_duration_is_refused_with_what_is_allowed(written: object) -> None:
    with pytest.raises(FlexError, match=r"duration|ten years"):
        parse_duration(written)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=3650)))
def test_what_is_written_reads_back_the_same(value: timedelta) -> None:
    assert abs(parse_duration(format_duration(value)) - value) < timedelta(microseconds=2)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (45, "45 s"), (7800, "2 h 10 min"), (604800, "7 d"), (86400 + 61, "1 d")],
)
def test_people_hear_two_units_at_most(seconds: int, said: str) -> None:
    assert humanize(timedelta(seconds=seconds)) == said
