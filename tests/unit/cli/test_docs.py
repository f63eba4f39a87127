"""Every command and option that README.md and docs/ tell somebody to type is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from slurm_flex.cli.explain import EVENTS
from slurm_flex.cli.main import app
from slurm_flex.cluster.setting_fields import Settings

ROOT = Path(__file__).parents[3]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
CALL = re.compile(r"(?<![/\w.-])slurm-flex +([a-z]+)([^\n#|&`]*)")
SETTING = re.compile(r'^([a-z_]+) = (?:"|\d|true|false)', re.MULTILINE)


def calls(page: Path) -> list[tuple[str, str]]:
    """(command, what follows on its line) of every call in a page's code."""
    code = "\n".join(CODE.findall(page.read_text())).replace("\\\n", " ")
    return CALL.findall(code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_the_docs_exists_with_its_options(page: Path) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, rest in calls(page):
        command = commands.get(name)
        assert command is not None, f"{page.name}: slurm-flex {name}"
        if name == "emulator":  # it has a parser of its own
            continue
        known = {option for parameter in command.params for option in parameter.opts}
        for option in re.findall(r"--[a-z][a-z-]*", rest):
            assert option in known | {"--help"}, f"{page.name}: slurm-flex {name} {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_in_the_docs_exists(page: Path) -> None:
    for name in SETTING.findall(page.read_text()):
        assert name in Settings.model_fields, f"{page.name}: {name}"


def test_the_way_from_the_json_to_a_job_names_every_step() -> None:
    told = {name for name, _ in calls(ROOT / "docs" / "setup.md")}
    assert {"init", "render", "apply", "doctor", "why", "nodes"} <= told


def test_every_kind_of_event_is_explained_and_documented() -> None:
    pages = [*(ROOT / "slurm_flex" / "rules").glob("*.py"), ROOT / "slurm_flex/health/verdict.py"]
    rules = "".join(page.read_text() for page in pages)
    written = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', rules)) - {"MAX_QUEUE_WAIT"}
    assert written == set(EVENTS)
    table = (ROOT / "docs" / "operations.md").read_text()
    assert all(f"| `{kind}` | {text} |" in table for kind, text in EVENTS.items())
