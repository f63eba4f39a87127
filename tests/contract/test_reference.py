"""docs/emulator.md says what the code says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from slurm_flex.emulator.core.knobs import Knobs
from slurm_flex.emulator.reference import faults, knobs, methods

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/emulator.md").read_text("utf-8")


def test_knobs_faults_and_methods_are_documented_as_they_are() -> None:
    for table in (knobs(), faults(), methods()):
        assert table in TEXT, "run python -m slurm_flex.emulator.reference and paste its tables"


def test_every_assumed_or_optional_behaviour_of_the_table_names_a_knob_that_exists() -> None:
    section = TEXT.partition("## What is known")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    names = {item.name for item in fields(Knobs)}
    assert len(rows) > 30
    for row in rows:
        behaviour, known, knob = (cell.strip() for cell in row.strip("|").split("|"))
        assert known in ("documented", "read in clients", "assumed"), row
        used = set(re.findall(r"`(\w+)`", knob))
        assert used <= names, row
        if known == "assumed":
            assert used, f"an assumption without a knob: {behaviour}"


def test_the_picture_is_there() -> None:
    assert "emulator.png" in TEXT
    assert (ROOT / "docs/emulator.png").read_bytes().startswith(b"\x89PNG")
