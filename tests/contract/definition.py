"""Checks exchanges against Google's discovery document, on its own: nothing of the emulator's is
used here. Unknown methods, parameters, fields, types, formats and enum values are all errors."""

from __future__ import annotations

import base64
import binascii
import json
import re
from datetime import datetime
from functools import lru_cache
from importlib import resources
from typing import Any

Json = dict[str, Any]
OPEN_ENUMS = {
    # Real regions list metrics (H200, B200, ...) that the definition doesn't name.
    "Quota.metric",
}
_LIMITS = {
    "int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1),
}  # fmt: skip
_TIMES = re.compile(r"(Timestamp|insertTime|startTime|endTime|Time)\Z")


@lru_cache(maxsize=8)
def document(api: str, version: str) -> Json:
    """Google's discovery document."""
    folder = resources.files("googleapiclient.discovery_cache.documents")
    found: Json = json.loads(folder.joinpath(f"{api}.{version}.json").read_text("utf-8"))
    return found


@lru_cache(maxsize=8)
def _methods(api: str, version: str) -> list[tuple[str, re.Pattern[str], str, Json]]:
    found = []
    base = document(api, version)["servicePath"]

    def walk(resources_: Json, prefix: str) -> None:
        for resource, item in resources_.items():
            for name, method in item.get("methods", {}).items():
                path = method["path"]
                for key, parameter in method.get("parameters", {}).items():
                    shape = parameter.get("pattern", ".+").strip("^$")
                    path = path.replace(f"{{+{key}}}", f"(?P<{key}>{shape})")
                path = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
                pattern = re.compile(f"/{base}{path}")
                found.append((method["httpMethod"], pattern, f"{prefix}{resource}.{name}", method))
            walk(item.get("resources", {}), f"{prefix}{resource}.")

    walk(document(api, version)["resources"], "")
    return found


def method_of(verb: str, path: str, version: str = "v1", api: str = "compute") -> tuple[str, Json]:
    """The name and definition of the method that a call is of."""
    for method_verb, pattern, name, method in _methods(api, version):
        if method_verb == verb and pattern.fullmatch(path):
            return name, method
    raise AssertionError(f"no method of {api} {version} is {verb} {path}")


def problems(
    verb: str, path: str, query: dict[str, str], request: bytes, code: int, response: bytes,
    version: str = "v1", api: str = "compute",
) -> list[str]:  # fmt: skip
    """Everything in this exchange that Google's definition doesn't allow."""
    name, method = method_of(verb, path, version, api)
    schemas = document(api, version)["schemas"]
    found = []
    common = set(document(api, version)["parameters"])
    for key in query:
        if key not in method.get("parameters", {}) and key not in common:
            found.append(f"{name}: unknown parameter {key}")
    if "request" in method and request:
        # Google's own Python client writes enum fields and int64 in proto-JSON; so do we read it.
        found += _check(schemas, method["request"], json.loads(request), f"{name} request")
    if code == 200:
        found += _check(schemas, method["response"], json.loads(response), f"{name} response")
    else:
        found += _error(name, code, response)
    return found


def _error(name: str, code: int, response: bytes) -> list[str]:
    body = json.loads(response)
    error = body.get("error", {})
    wrong = []
    if error.get("code") != code or not error.get("message"):
        wrong.append(f"{name}: error without its code or message: {body}")
    for item in error.get("errors", [{}]):
        if not {"message", "domain", "reason"} <= set(item):
            wrong.append(f"{name}: errors[] without message, domain or reason: {body}")
    return wrong


def _check(schemas: Json, schema: Json, value: Any, where: str, label: str = "") -> list[str]:
    if "$ref" in schema:
        label = schema["$ref"]
        schema = schemas[label]
    kind = schema.get("type", "any")
    if kind == "object":
        return _object(schemas, schema, value, where, label)
    if kind == "array":
        if not isinstance(value, list):
            return [f"{where}: no list: {value!r}"]
        return [
            problem
            for index, item in enumerate(value)
            for problem in _check(schemas, schema["items"], item, f"{where}[{index}]", label)
        ]
    return [] if kind == "any" else _scalar(schema, kind, value, where, label)


def _object(schemas: Json, schema: Json, value: Any, where: str, label: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where}: no object: {value!r}"]
    known = schema.get("properties", {})
    found = []
    for key, item in value.items():
        if key in known:
            inner = f"{label}.{key}"
            found += _check(schemas, known[key], item, f"{where}.{key}", inner)
        elif "additionalProperties" in schema:
            found += _check(schemas, schema["additionalProperties"], item, f"{where}.{key}")
        else:
            found.append(f"{where}: unknown field {key}")
    return found


def _scalar(schema: Json, kind: str, value: Any, where: str, label: str) -> list[str]:
    types: dict[str, Any] = {"string": str, "boolean": bool, "integer": int, "number": (int, float)}
    if not isinstance(value, types[kind]) or (kind in ("integer", "number") and value is True):
        return [f"{where}: {value!r} is no {kind}"]
    form = schema.get("format", "")
    found = []
    if form in _LIMITS:
        low, high = _LIMITS[form]
        text = str(value)
        if not re.fullmatch(r"-?\d+", text) or not low <= int(text) <= high:
            found.append(f"{where}: {value!r} is no {form}")
    if form == "byte":
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            found.append(f"{where}: {value!r} is no base64")
    timed = form in ("google-datetime", "date-time") or _TIMES.search(where.rsplit(".", 1)[-1])
    if timed and kind == "string" and not _is_time(value):
        found.append(f"{where}: {value!r} is no RFC 3339 time")
    if "enum" in schema and value not in schema["enum"] and label not in OPEN_ENUMS:
        found.append(f"{where}: {value!r} is none of the enum")
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        found.append(f"{where}: {value!r} doesn't match {schema['pattern']}")
    return found


def _is_time(value: str) -> bool:
    try:
        return datetime.fromisoformat(value.replace("Z", "+00:00")).tzinfo is not None
    except ValueError:
        return False
