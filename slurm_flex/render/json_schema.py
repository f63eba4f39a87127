"""render --schema: a JSON Schema of cluster_config.json for editors, made from the same shapes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from slurm_flex.cluster.reader import camel
from slurm_flex.cluster.schema import (
    CLUSTER,
    Flag,
    Group,
    Items,
    Number,
    Pairs,
    Seconds,
    Shape,
    Text,
)

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def cluster_schema() -> dict[str, Any]:
    """The schema as a value: both spellings of each key, strings where the reader takes them.

    It can't say what holds between parts of the file (references, min <= max); the reader does.
    """
    return {
        "$schema": _DIALECT,
        "title": "cluster_config.json",
        "description": "A cluster for slurm-flex: Google's ModelDevelopmentCluster",
        **_of(CLUSTER),
    }


def schema_text() -> str:
    return json.dumps(cluster_schema(), indent=2) + "\n"


def _of(shape: Shape) -> dict[str, Any]:
    match shape:
        case Group():
            return _group(shape)
        case Items():
            one = shape.of
            if isinstance(one, Text):  # in a list an empty string is no absent one
                one = replace(one, may_be_empty=False)
            return _described({"type": "array", "items": _of(one)}, shape.about)
        case Pairs():
            scalar = {"type": ["string", "number", "boolean"]}
            found: dict[str, Any] = {"type": "object", "additionalProperties": scalar}
            if shape.key.pattern:
                found["propertyNames"] = {"pattern": f"^(?:{shape.key.pattern})$"}
            return _described(found, shape.about)
        case Text():
            return _text(shape)
        case Number():
            number = {"type": "integer", "minimum": shape.least, "maximum": shape.most}
            return _described({"anyOf": [number, _digits()]}, shape.about)
        case Flag():
            return _described({"enum": [True, False, "true", "false"]}, shape.about)
        case Seconds():
            about = shape.about or f"{shape.least}s to {shape.most}s"
            return _described({"type": "string", "pattern": r"^\d+(\.0+)?s$"}, about)


def _group(shape: Group) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, field in shape.fields.items():
        properties[name] = _nullable(_of(field))
        if camel(name) != name:
            properties[camel(name)] = {"$comment": f"the same as {name}", **_nullable(_of(field))}
    for alias, name in shape.aliases.items():
        properties[alias] = properties[camel(alias)] = _nullable(_of(shape.fields[name]))
    for name in shape.output:
        properties[name] = properties[camel(name)] = {"readOnly": True}
    found: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    required = [_either(name, shape) for name in shape.required]
    if required:
        found["allOf"] = required
    return _described(found, shape.about)


def _either(name: str, shape: Group) -> dict[str, Any]:
    also = [alias for alias, field in shape.aliases.items() if field == name]
    names = dict.fromkeys(way for spelt in (name, *also) for way in (spelt, camel(spelt)))
    return {"anyOf": [{"required": [way]} for way in names]}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _text(shape: Text) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string"}
    if shape.choices:
        found = {"enum": list(shape.choices)}
    elif shape.pattern:
        empty = "^$|" if shape.may_be_empty else ""
        found["pattern"] = f"{empty}^(?:{shape.pattern})$"
    elif not shape.may_be_empty:
        found["minLength"] = 1
    if shape.longest:
        found["maxLength"] = shape.longest
    return _described(found, shape.about or shape.shape)


def _digits() -> dict[str, Any]:
    return {"type": "string", "pattern": r"^-?\d+$"}


def _described(schema: dict[str, Any], about: str) -> dict[str, Any]:
    return {"description": about, **schema} if about else schema
