"""Whatever is in the files: a value or InputErrors that can be printed, never anything else."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from cluster_files import example
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_flex.cluster import load_cluster, parse_cluster
from slurm_flex.cluster.reader import camel
from slurm_flex.cluster.schema import CLUSTER, Group, Items, Shape
from slurm_flex.cluster.settings import Settings, load_settings, parse_settings
from slurm_flex.errors import InputErrors
from slurm_flex.hook_site import HookSite


def _names(shape: Shape) -> set[str]:
    if isinstance(shape, Items):
        return _names(shape.of)
    if not isinstance(shape, Group):
        return set()
    deeper = set().union(*(_names(field) for field in shape.fields.values()))
    return {*shape.fields, *shape.aliases, *shape.refused, *shape.output, *deeper}


KEYS = st.sampled_from(sorted(_names(CLUSTER) | {camel(name) for name in _names(CLUSTER)}))
WORDS = st.sampled_from(
    ["", "a3u", "login", "<x>", "FLEX_START", "30s", "true", "7", "us-central1-a", "projects/p/x"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=8)
ANY = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(data=ANY, lenient=st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_json_is_a_cluster_or_errors(data: object, lenient: bool) -> None:
    try:
        cluster = parse_cluster(data, lenient=lenient)
    except InputErrors as errors:
        assert errors.errors
        assert all(str(error) for error in errors.errors)
    else:
        assert parse_cluster(cluster.source, lenient=lenient) == cluster


def _paths(value: object, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [here, *(path for key in value for path in _paths(value[key], (*here, key)))]
    if isinstance(value, list):
        return [
            here,
            *(path for at, item in enumerate(value) for path in _paths(item, (*here, at))),
        ]
    return [here]


@given(path=st.sampled_from(_paths(example())[1:]), value=ANY)
@settings(max_examples=300, deadline=None)
def test_the_example_with_anything_anywhere(path: tuple[Any, ...], value: object) -> None:
    data = copy.deepcopy(example())
    at: Any = data
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    for lenient in (False, True):
        try:
            parse_cluster(data, lenient=lenient)
        except InputErrors as errors:
            assert str(errors)


@given(
    data=st.dictionaries(st.sampled_from(sorted(Settings.model_fields)) | st.text(max_size=6), ANY)
)
@settings(max_examples=200, deadline=None)
def test_any_settings_are_settings_or_errors(data: dict[str, object]) -> None:
    try:
        found = parse_settings(data)
    except InputErrors as errors:
        assert str(errors)
    else:
        assert parse_settings(found.differing()) == found


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' + "9" * 5000 + "}", "", "nul", "\0"])
def test_text_that_is_hardly_json_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(InputErrors):
        load_cluster(path)


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000 + "]" * 5000, "active_requests = " + "9" * 5000, "\0", "a = ["]
)
def test_text_that_is_hardly_toml_is_an_error_and_no_hook_fails_over_it(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "slurm-flex.toml"
    path.write_text(f'run_dir = "{tmp_path}"\n{text}')
    with pytest.raises(InputErrors, match="is not TOML"):
        load_settings(path)
    site = HookSite({"SLURM_FLEX_CONFIG": str(path)})
    assert "is not TOML" in site.complaint
    assert site.run_dir == tmp_path


def test_numbers_of_many_digits_are_errors() -> None:
    data = example()
    data["node_pools"][1]["scaling_spec"]["max_node_count"] = "9" * 5000
    data["node_pools"][1]["flex_start_max_duration"] = "9" * 5000 + "s"
    with pytest.raises(InputErrors) as caught:
        parse_cluster(json.loads(json.dumps(data)))
    assert len(caught.value.errors) == 2
