"""Google's own definition of the API, read from google-api-python-client when the emulator starts:
what a request body may hold, and the discovery document that is served to clients."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import resources
from typing import Any

from slurm_flex.emulator.core.errors import ApiError
from slurm_flex.errors import FlexError

Json = dict[str, Any]
_FIX = "pip install 'slurm-flex[emulator]'"


@lru_cache(maxsize=8)
def document(version: str, api: str = "compute") -> Json:
    """The discovery document of an API. Raises FlexError if it isn't there."""
    try:
        folder = resources.files("googleapiclient.discovery_cache.documents")
        text = folder.joinpath(f"{api}.{version}.json").read_text("utf-8")
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise FlexError(
            f"google-api-python-client has no definition of {api} {version}: {error}", fix=_FIX
        ) from None
    loaded: Json = json.loads(text)
    return loaded


@lru_cache(maxsize=4)
def _methods(version: str) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for resource, item in document(version)["resources"].items():
        for method, description in item.get("methods", {}).items():
            found[f"{resource}.{method}"] = description
    return found


def response_schema(version: str, name: str) -> str:
    """The schema of a method's answer, such as ``Operation`` for ``instances.insert``."""
    return str(_methods(version)[name]["response"]["$ref"])


def served(api: str, version: str, root: str) -> Json:
    """A discovery document with its root at the emulator (``http://127.0.0.1:PORT``)."""
    found = dict(document(version, api))
    found["rootUrl"] = f"{root}/"
    found["baseUrl"] = f"{root}/{found['servicePath']}"
    found.pop("mtlsRootUrl", None)
    found.pop("endpoints", None)
    return found


def read_body(version: str, schema: str, raw: bytes) -> Json:
    """A request body in its canonical form: camel case, int64 as strings, no nulls.

    Both spellings of proto-JSON are read. Raises 400 as Google does for a field or a value that
    the schema doesn't know."""
    try:
        body = json.loads(raw) if raw.strip() else {}
    except ValueError:
        raise ApiError(400, "parseError", "Parse Error") from None
    if not isinstance(body, dict):
        raise ApiError(400, "parseError", "Parse Error")
    return _object(document(version)["schemas"], {"$ref": schema}, body, "")


def camel(name: str) -> str:
    """``resize_by`` to ``resizeBy``."""
    return re.sub(r"_([a-z0-9])", lambda match: match.group(1).upper(), name)


def _object(schemas: Json, schema: Json, value: Json, path: str) -> Json:
    schema = schemas[schema["$ref"]] if "$ref" in schema else schema
    known = schema.get("properties", {})
    result: Json = {}
    for key, item in value.items():
        name = key if key in known else camel(key)
        where = f"{path}.{key}" if path else key
        if name in known:
            result[name] = _value(schemas, known[name], item, where)
        elif "additionalProperties" in schema:
            result[key] = _value(schemas, schema["additionalProperties"], item, where)
        else:
            at = f" at '{path}'" if path else ""
            raise ApiError(
                400,
                "badRequest",
                f'Invalid JSON payload received. Unknown name "{key}"{at}: Cannot find field.',
                status="INVALID_ARGUMENT",
            )
    return result


def _value(schemas: Json, schema: Json, value: object, path: str) -> object:
    if value is None:
        return None
    if "$ref" in schema:
        schema = schemas[schema["$ref"]]
    kind = schema.get("type", "object")
    if kind == "object":
        if not isinstance(value, dict):
            raise _bad(path, "TYPE_MESSAGE", value)
        return _object(schemas, schema, value, path)
    if kind == "array":
        if not isinstance(value, list):
            raise _bad(path, "TYPE_MESSAGE", value)
        items = schema["items"]
        return [_value(schemas, items, item, f"{path}[{i}]") for i, item in enumerate(value)]
    return _scalar(schema, kind, value, path)


def _scalar(schema: Json, kind: str, value: object, path: str) -> object:
    form = schema.get("format", "")
    if kind == "boolean":
        if isinstance(value, bool):
            return value
        raise _bad(path, "TYPE_BOOL", value)
    if form in ("int64", "uint64", "int32", "uint32") or kind == "integer":
        text = str(value)
        if isinstance(value, bool) or not re.fullmatch(r"-?\d+", text):
            raise _bad(path, f"TYPE_{form.upper() or 'INT32'}", value)
        return text if kind == "string" else int(text)
    if kind == "number":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _bad(path, "TYPE_DOUBLE", value)
        return value
    if not isinstance(value, str):
        raise _bad(path, "TYPE_STRING", value)
    if "enum" in schema and value not in schema["enum"]:
        raise _bad(path, "TYPE_ENUM", value)
    return value


def _bad(path: str, kind: str, value: object) -> ApiError:
    shown = json.dumps(value) if isinstance(value, str) else value
    return ApiError(
        400,
        "invalid",
        f"Invalid value at '{path}' ({kind}), {shown}",
        status="INVALID_ARGUMENT",
    )
