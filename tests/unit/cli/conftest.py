"""A run folder with a published status, and the commands as a user calls them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from slurm_flex import status_file
from slurm_flex.cli.main import run
from slurm_flex.memory import Entry
from slurm_flex.model import Memory, Snapshot
from slurm_flex.status import Health, digest
from tests.builders import NOON


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@dataclass
class Site:
    folder: Path
    run_dir: Path
    state_dir: Path
    call: Callable[..., Done]

    def publish(
        self,
        snapshot: Snapshot,
        memory: Memory | None = None,
        *,
        errors: tuple[str, ...] = (),
        events: tuple[Entry, ...] = (),
    ) -> None:
        health = Health("0.1.0", 4711, NOON, NOON, timedelta(seconds=30), errors=errors)
        status_file.write(self.run_dir, digest(snapshot, memory or Memory(), health, events))


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Site:
    def call(*arguments: str) -> Done:
        capsys.readouterr()
        try:
            code = run(list(arguments))
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    monkeypatch.setenv("SLURM_FLEX_CONFIG", str(tmp_path / "slurm-flex.toml"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr("slurm_flex.cli.reading.utc_now", lambda: NOON + timedelta(seconds=20))
    (tmp_path / "slurm-flex.toml").write_text(
        f'run_dir = "{tmp_path}/run"\nstate_dir = "{tmp_path}/state"\n'
    )
    return Site(tmp_path, tmp_path / "run", tmp_path / "state", call)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
