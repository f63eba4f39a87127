"""Whose the files are that root, SlurmUser and everybody else leave, and who may read them.

Real processes of real users; neither Slurm nor a cloud is there, which every command must bear.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_flex.demo.flex_daemon import FLEX
from slurm_flex.demo.world_space import REPOSITORY, WorldSpace, user_env
from tests.cluster.test_harness import until

pytestmark = pytest.mark.cluster

SLURM_USER = "slurm"
ANYBODY = "nobody"
SETTINGS = """
run_dir = "{folder}/run"
state_dir = "{folder}/state"
slurm_bin_dir = "{folder}/nowhere"
credentials = "anonymous"
endpoint = "http://127.0.0.1:9"
observe_deadline = "1s"
cloud_timeout = "1s"
"""


class Host:
    """A controller's files as an operator has them, in a folder that is root's."""

    def __init__(self, space: WorldSpace) -> None:
        self.folder = space.folder
        self.run_dir = self.folder / "run"
        self.state_dir = self.folder / "state"
        self._space = space
        (self.folder / "slurm.conf").write_text(f"ClusterName=c\nSlurmUser={SLURM_USER}\n")
        (self.folder / "slurm-flex.toml").write_text(SETTINGS.format(folder=self.folder))
        shutil.copy(REPOSITORY / "etc/cluster_config.json", self.folder)

    def make(self, folder: Path, owner: str = SLURM_USER, mode: int = 0o755) -> None:
        folder.mkdir()
        folder.chmod(mode)
        shutil.chown(folder, owner)

    def flex(
        self, *arguments: str, user: str, umask: int = 0o022, code: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """slurm-flex as that user; whatever comes of it, it is said in plain words."""
        done = self._run([*FLEX, *arguments], user, umask)
        said = done.stdout + done.stderr
        assert "Traceback" not in said, said
        assert "a defect" not in said, said
        assert code in (None, done.returncode), said
        return done

    def hook(self, script: str, nodes: str, user: str, umask: int = 0o022) -> None:
        """As slurmctld calls it, or a curious admin."""
        done = self._run([str(REPOSITORY / "scripts" / script), nodes], user, umask)
        assert done.returncode == 0, done.stderr

    def _run(self, argv: list[str], user: str, umask: int) -> subprocess.CompletedProcess[str]:
        env = {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            self._space.enter(argv, user=user), env=user_env(env, user), umask=umask, cwd="/",
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def shell(self, command: str) -> None:
        """What a message says that root does."""
        subprocess.run(self._space.enter(["/bin/sh", "-ec", command]), check=True)

    def foreign(self) -> list[str]:
        """What in both folders isn't SlurmUser's."""
        found = [path for top in (self.run_dir, self.state_dir) for path in (top, *top.rglob("*"))]
        return [str(path) for path in found if path.exists() and path.owner() != SLURM_USER]


@pytest.fixture
def host() -> Iterator[Host]:
    with WorldSpace(for_users=True) as space:
        yield Host(space)


def test_root_is_sent_to_slurm_user_before_anything_is_made(host: Host) -> None:
    for command in (("reconcile", "--once"), ("run",)):
        said = host.flex(*command, user="root", code=1).stderr
        assert "SlurmUser is slurm" in said
        assert "sudo -u slurm slurm-flex" in said
    assert not host.run_dir.exists()
    assert not host.state_dir.exists()


def test_whatever_root_has_made_before_is_named_with_the_command_that_mends_it(host: Host) -> None:
    def is_refused(where: Path, mend: str) -> None:
        said = host.flex("reconcile", "--once", user=SLURM_USER, code=1).stderr
        assert str(where) in said
        assert f"(as root: {mend})" in said
        host.shell(mend)

    for folder in (host.run_dir, host.state_dir):
        is_refused(folder, f"install -d -o slurm {folder}")
    for folder, name in ((host.run_dir, "acting.lock"), (host.state_dir, "memory.sqlite")):
        shutil.chown(folder, "root")
        is_refused(folder, f"chown -R slurm: {folder}")
        file = folder / name
        file.touch(mode=0o600)
        shutil.chown(file, "root")
        is_refused(file, f"chown -R slurm: {folder}")
    host.flex("reconcile", "--once", user=SLURM_USER)
    assert (host.run_dir / "status.json").exists()
    assert host.foreign() == []


def test_anybody_may_read_what_is_meant_for_all_and_nothing_else_whatever_the_umask(
    host: Host,
) -> None:
    host.make(host.folder / "base")
    settings = SETTINGS.format(folder=host.folder / "base")
    (host.folder / "slurm-flex.toml").write_text(settings)
    for at, name in (("run_dir", "run"), ("state_dir", "state")):
        setattr(host, at, host.folder / "base" / name)
    host.flex("pause", "a3u", user="root", umask=0o077, code=0)
    host.hook("resume.py", "demo-a3u-0", SLURM_USER, umask=0o077)
    # The hook found no daemon and started a pass.
    until((host.run_dir / "status.json").exists, "a pass")
    for command in (["status"], ["nodes"], ["queue"], ["events"], ["why", "demo-a3u-0"]):
        host.flex(*command, user=ANYBODY)
    assert '"paused": true' in host.flex("status", "--json", user=ANYBODY).stdout
    assert host.foreign() == []
    open_to_all = {"status.json"}
    for path in (*host.run_dir.rglob("*"), *host.state_dir.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == (0o044 if path.name in open_to_all else 0), path
    for folder in (host.run_dir, host.state_dir):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_root_that_looks_or_tries_a_hook_leaves_nothing_in_slurm_users_way(host: Host) -> None:
    for folder in (host.run_dir, host.state_dir):
        host.make(folder)
    host.hook("resume.py", "demo-a3u-0", "root")
    log = host.state_dir / "hooks.log"
    assert "call it as slurm" in log.read_text()
    host.hook("resume.py", "demo-a3u-1", SLURM_USER)
    until((host.run_dir / "status.json").exists, "a pass")
    host.flex("events", user="root", code=0)
    host.flex("unpause", "a3u", user="root", code=0)
    assert log.read_text().count("called for demo-a3u-") == 2
    assert host.foreign() == []


def test_anybody_is_told_what_they_may_not_read(host: Host) -> None:
    for folder in (host.run_dir, host.state_dir):
        host.make(folder)
    host.flex("reconcile", "--once", user=SLURM_USER)
    memory = host.state_dir / "memory.sqlite"
    assert f"without the daemon's memory: {memory}" in host.flex("plan", user=ANYBODY).stderr
    host.run_dir.chmod(0o700)
    assert "meant for everybody" in host.flex("status", user=ANYBODY, code=1).stderr
    settings = host.folder / "slurm-flex.toml"
    settings.chmod(0o600)
    for command in ("status", "plan"):
        assert f"{settings}" in host.flex(command, user=ANYBODY, code=1).stderr
    host.folder.chmod(0o700)
    for command in ("events", "plan"):
        assert f"{settings}" in host.flex(command, user=ANYBODY, code=1).stderr
