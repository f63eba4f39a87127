"""The page at /, as a browser shows it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from slurm_flex.emulator.launcher import Emulator
from tests.contract.inside import FAST
from tests.contract.test_over_the_wire import GROUP, _ask, _statuses, _until, make_group

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def browse(url: str, tmp_path: Path, *arguments: str) -> str:
    """What headless Chromium makes of a page: its DOM, as text."""
    browser = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    assert browser, "install chromium: the page is tested in a browser"
    argv = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1280,900", *arguments, url,
    ]  # fmt: skip
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


@pytest.fixture(scope="module")
def busy() -> Iterator[Emulator]:
    """An emulator with something to see."""
    with Emulator(knobs={**FAST, "capacity": {"*": "now"}}) as emulator:
        make_group(emulator.url)
        _ask(emulator.url, "j51-1", "c1-gx-0", "c1-gx-1", seconds=3600)
        _until(lambda: list(_statuses(emulator).values()) == ["RUNNING"] * 2, "both run")
        emulator.faults.set("stockout", zone="us-central1-a")
        _ask(emulator.url, "j52-1", "c1-gx-2", seconds=3600)
        _until(lambda: emulator.world()["requests"][1]["last_attempt"], "it waits")
        yield emulator


def test_the_page_shows_groups_requests_instances_faults_and_knobs(
    busy: Emulator, tmp_path: Path
) -> None:
    dom = browse(busy.url + "/", tmp_path, "--dump-dom")
    for words in (
        "<td>j51-1</td>", 'class="SUCCEEDED"', "<td>j52-1</td>", 'class="ACCEPTED"',
        "ZONE_RESOURCE_POOL_EXHAUSTED", "<td>c1-gx-0</td>", 'class="RUNNING"', "59 min",
        "<td>stockout</td>", "zone us-central1-a", "boot_delay", "Compute Engine, emulated",
    ):  # fmt: skip
        assert words in dom, words


def test_the_page_is_plain_html_that_escapes_what_it_shows(busy: Emulator) -> None:
    busy.faults.set("stockout", zone="<script>alert(1)</script>")
    page = requests.get(busy.url + "/", timeout=30)
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.text
    assert "&lt;script&gt;" in page.text
    assert requests.get(busy.url + GROUP, timeout=30).json()["targetSize"] == 3


def test_the_page_can_be_taken_a_picture_of(busy: Emulator, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    browse(busy.url + "/", tmp_path, f"--screenshot={picture}")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 10_000
