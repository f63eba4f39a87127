"""A site for hooks: folders, a settings file, and the hooks run the way slurmctld runs them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slurm_flex.wake import Ear

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Site:
    root: Path
    """An installation: scripts/ and slurm_flex/ as they are here, and a slurm-flex of our own."""
    run_dir: Path
    state_dir: Path
    settings: Path
    env: dict[str, str] = field(default_factory=dict)

    def command(self, script: str, *arguments: str) -> list[str]:
        return [str(self.root / "scripts" / script), *arguments]

    def call(
        self,
        script: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """As slurmctld does: no PATH, a session of its own, cwd somewhere."""
        return subprocess.run(
            self.command(script, *arguments),
            env={**self.env, **(env or {})},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            start_new_session=True,
            preexec_fn=prepare,
            check=False,
        )

    def records(self) -> list[dict[str, object]]:
        return [json.loads(file.read_text()) for file in sorted(self.spool_files())]

    def spool_files(self) -> list[Path]:
        return list((self.run_dir / "spool").glob("*"))

    def log(self) -> str:
        return (self.state_dir / "hooks.log").read_text()

    def install_program(self, body: Sequence[str]) -> None:
        """What stands in for slurm-flex: a shell script with these lines."""
        program = self.root / ".venv" / "bin" / "slurm-flex"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("\n".join(["#!/bin/sh", *body, ""]))
        program.chmod(0o755)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    root = tmp_path / "install"
    root.mkdir()
    (root / "slurm_flex").symlink_to(ROOT / "slurm_flex")
    (root / "scripts").mkdir()
    for script in ("resume.py", "suspend.py"):
        (root / "scripts" / script).write_bytes((ROOT / "scripts" / script).read_bytes())
        (root / "scripts" / script).chmod(0o755)
    site = Site(root, tmp_path / "run", tmp_path / "state", tmp_path / "etc" / "slurm-flex.toml")
    site.settings.parent.mkdir()
    site.settings.write_text(f'run_dir = "{site.run_dir}"\nstate_dir = "{site.state_dir}"\n')
    site.run_dir.mkdir()
    site.env["SLURM_CONF"] = str(site.settings.parent / "slurm.conf")
    return site


@pytest.fixture
def ear(site: Site) -> Iterator[Ear]:
    """A daemon that listens."""
    with Ear(site.run_dir) as ear:
        yield ear
