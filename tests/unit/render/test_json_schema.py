"""The JSON Schema agrees with the reader: what one takes by its form the other takes too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from slurm_flex.render.json_schema import cluster_schema, schema_text

EXAMPLE = Path(__file__).parents[3] / "etc" / "cluster_config.json"


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def example() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(EXAMPLE.read_text())
    return data


def test_the_example_is_valid(validator: jsonschema.Draft202012Validator) -> None:
    assert validator.is_valid(example())


@pytest.mark.parametrize(
    ("key", "value", "valid"),
    [
        ("zone", "us-central1-a", True),
        ("zone", "nowhere", False),
        ("enable_public_ips", "true", True),
        ("enable_public_ips", "yes", False),
        ("enablePublicIps", True, True),
        ("provisioning_model", "STANDARD", False),
        ("scaling_spec", {"minNodeCount": "0", "max_node_count": 3}, True),
        ("scaling_spec", {"min": 0}, False),
        ("filestores", [""], False),
        ("node_image", "", True),
        ("labels", {"a": "b"}, True),
        ("labels", ["a"], False),
        ("flex_start_max_duration", "7d", False),
        ("node_image", None, True),
        ("gpus", 8, False),
    ],
)
def test_a_pools_key_is_judged_as_the_reader_does(
    validator: jsonschema.Draft202012Validator, key: str, value: object, valid: bool
) -> None:
    data = example()
    data["node_pools"][1][key] = value
    assert validator.is_valid(data) == valid


def test_required_keys_count_in_either_spelling(
    validator: jsonschema.Draft202012Validator,
) -> None:
    data = example()
    data["nodePools"] = data.pop("node_pools")
    assert validator.is_valid(data)
    del data["nodePools"]
    assert not validator.is_valid(data)


def test_every_property_is_described_or_structured() -> None:
    assert "node_pools" in cluster_schema()["properties"]
    assert "orchestratorSpec" in cluster_schema()["properties"]
