"""The page says what the code takes."""

import json
import re
from pathlib import Path

import pytest

from slurm_flex.health.catalogue import BUILTINS, OPTIONS
from slurm_flex.health.checkfile import CHECK_FIELDS, VERDICT_FIELDS, read_check
from slurm_flex.health.node import NODE_FIELDS, Node, read_node
from slurm_flex.health.schema import read_object

PAGE = (Path(__file__).resolve().parents[3] / "docs/health.md").read_text()


@pytest.mark.parametrize("key", [*CHECK_FIELDS, *NODE_FIELDS])
def test_every_key_has_a_row(key):
    assert f"| `{key}` |" in PAGE or key == "options"


@pytest.mark.parametrize(
    "word", [*VERDICT_FIELDS, *(f for fields in OPTIONS.values() for f in fields)]
)
def test_every_option_is_named(word):
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize("check", BUILTINS)
def test_every_built_in_check_is_described(check):
    assert f"| `{check}` |" in PAGE


def test_the_examples_are_good():
    node, check = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.S))
    assert read_object(node, NODE_FIELDS, "")[1] == []
    assert read_check(check, "", OPTIONS)[1] == []


def test_the_default_budgets_are_the_documented_ones():
    budgets = [
        f"{value.total_seconds():.0f} s" for value in read_node("n", None)[0].budgets.values()
    ]
    assert f"| {', '.join(budgets)} |" in PAGE
    assert f"`{Node('n').state}`" in PAGE
