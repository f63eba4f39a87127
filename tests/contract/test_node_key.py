"""A node's way to its key, by its own startup script, with Secret Manager and metadata emulated."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_flex.cluster.storage import Share
from slurm_flex.render.startup import startup_script
from tests.contract.site import Cloud, cloud, cluster_of, pool

SECRET = "secret:projects/p1/secrets/munge-key"
KEY = "k" * 64
HOME = {"projects/p1/locations/us-central1-a/instances/h": Share("nfs", "10.0.0.2:/h")}


@pytest.fixture(scope="module")
def site() -> Iterator[Cloud]:
    with cloud(cluster_of(pool("gx"))) as found:
        found.make_groups()
        found.ask("gx", "j1-1", ["c1-gx-0"])
        found.running("gx", 1)
        yield found


@pytest.fixture(params=["curl", "python"])
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A PATH with curl, or without, where nobody sleeps between tries."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sleep").symlink_to("/bin/true")
    wanted = "bash mktemp rm cat mv stat base64 python3 cp".split()
    for name in [*wanted, *(["curl"] if request.param == "curl" else [])]:
        there = sys.executable if name == "python3" else shutil.which(name)
        if there is None:
            pytest.skip(f"this machine has no {name}")
        (folder / name).symlink_to(there)
    return str(folder)


def fetched(site: Cloud, tools: str, tmp_path: Path, source: str, **knobs: object) -> str:
    """What the script puts in the key's place, or its last words."""
    site.emulator.knobs.set(**{"secrets": {}, "disabled_apis": "", **knobs})
    settings = site.settings.model_copy(update={"key_source": source})
    text = startup_script(site.cluster, settings, site.pool("gx"), HOME)
    functions, _, _ = text.partition("\nfind_name\nsay ")
    functions = functions.replace("export PATH=", "unused=")
    placed = tmp_path / "placed"
    script = tmp_path / "find_key.sh"
    script.write_text(f'{functions}\nplace_key() {{ cp "$1" {placed}; }}\nfind_key\n')
    done = subprocess.run(
        [f"{tools}/bash", str(script)],
        env={
            "PATH": tools,
            "SLURM_FLEX_METADATA": f"{site.emulator.url}/vm/c1-gx-0",
            "SLURM_FLEX_SECRETS": site.emulator.url,
            "SLURM_FLEX_CONSOLE": os.devnull,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return placed.read_text()
    return done.stdout.strip()


@pytest.mark.parametrize("version", ["", "/versions/1"])
def test_a_secret_becomes_the_key(site: Cloud, tools: str, tmp_path: Path, version: str) -> None:
    found = fetched(site, tools, tmp_path, SECRET + version, secrets={"munge-key": KEY})
    assert found == KEY


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({}, "munge-key/versions/latest can't be read (roles/secretmanager.secretAccessor for"),
        ({"disabled_apis": "secretmanager.*", "secrets": {"munge-key": KEY}},
         "(gcloud services enable secretmanager.googleapis.com --project=1"),
        ({"secrets": {"munge-key": "short"}}, "has 5 bytes, at least 32 are needed"),
    ],
)  # fmt: skip
def test_a_secret_that_gives_no_key_is_explained_on_the_console(
    site: Cloud, tools: str, tmp_path: Path, knobs: dict[str, object], words: str
) -> None:
    found = fetched(site, tools, tmp_path, SECRET, **knobs)
    assert found.startswith("slurm-flex: FAILED: key: ")
    assert words in found
