"""The ninety scenarios of the field that slurm-flex answers: each is named by a test of it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
_NAMED = re.compile(r"[Ss]cenarios? (\d+(?:(?:, | and |, and | or )\d+)*)")


def test_each_scenario_is_named_by_a_test() -> None:
    named = {
        int(number)
        for file in TESTS.rglob("test_*.py")
        for numbers in _NAMED.findall(file.read_text(encoding="utf-8"))
        for number in re.findall(r"\d+", numbers)
    }
    assert sorted(set(range(1, 91)) - named) == []
