"""A node as slurmd would find it: an install at some folder, its GPUs, its scontrol."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from health_builders import FakeScontrol

from slurm_flex.demo.fakegpu import FakeGpus

ROOT = Path(__file__).resolve().parents[3]
NODE = "c1-gx-1"


@dataclass
class Install:
    """One node: scripts run as slurmd runs them, with nothing but what slurmd gives."""

    folder: Path
    conf: Path
    gpus: FakeGpus
    scontrol: FakeScontrol
    state: Path

    def set_node(self, **values: Any) -> None:
        """Write node.json: the stand-ins' paths, and what the test wants besides."""
        own = self.gpus.node_file(NODE)
        tools = {**own["tools"], "scontrol": str(self.scontrol.path), **values.pop("tools", {})}
        data = {**own, "state": str(self.state), **values, "tools": tools}
        (self.conf.parent / "node.json").write_text(json.dumps(data))

    def add_check(self, name: str, data: Any) -> Path:
        path = self.folder / "etc/health.d" / name
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    def only_checks(self, *names: str) -> None:
        for path in (self.folder / "etc/health.d").glob("*.json"):
            if json.loads(path.read_text())["name"] not in names:
                path.unlink()

    def run(
        self, script: str, *, interpreter: tuple[str, ...] = (), **job: str
    ) -> subprocess.CompletedProcess[str]:
        environ = {
            "SLURMD_NODENAME": NODE,
            "SLURM_CONF": str(self.conf),
            "SLURM_CLUSTER_NAME": "c1",
            "SLURM_JOB_ID": "51",
            "SLURM_JOBID": "51",
            "SLURM_JOB_UID": "1000",
            "SLURM_JOB_USER": "ann",
            "SLURM_JOB_PARTITION": "gx",
            "SLURM_SCRIPT_CONTEXT": f"{script}_slurmd",
            **job,
        }
        path = self.folder / "scripts" / f"{script}.py"
        return subprocess.run(
            [*interpreter, str(path)],
            env=environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def events(self) -> list[dict[str, Any]]:
        path = self.state / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def kinds(self) -> list[tuple[str, str]]:
        return [(event["kind"], event["check"]) for event in self.events()]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """A healthy node with eight GPUs and no dcgmi, installed at a folder with a space in it."""
    folder = tmp_path / "opt/slurm flex"
    (folder / "slurm_flex").mkdir(parents=True)
    shutil.copy(ROOT / "slurm_flex/__init__.py", folder / "slurm_flex")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "slurm_flex/health", folder / "slurm_flex/health", ignore=ignore)
    shutil.copytree(ROOT / "etc/health.d", folder / "etc/health.d")
    load = folder / "etc/health.d/30-load.json"  # this machine may be busy with other tests
    load.write_text(load.read_text().replace('"per_processor": 3', '"per_processor": 1000'))
    (folder / "scripts").mkdir()
    for name in ("prolog.py", "epilog.py", "health.py"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts")
    gpus = FakeGpus(tmp_path / "gpus")
    gpus.add_node(NODE)
    conf = tmp_path / "etc/slurm.conf"
    conf.parent.mkdir()
    scontrol = FakeScontrol(tmp_path / "scontrol.d")
    made = Install(folder, conf, gpus, scontrol, tmp_path / "state")
    made.set_node(tools={"dcgmi": "/nowhere/dcgmi"}, machine_type="a3-megagpu-8g")
    return made
