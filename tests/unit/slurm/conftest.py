from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.slurm.fake_slurm import FakeSlurm


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)
