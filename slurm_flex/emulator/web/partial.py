"""Partial responses: ``fields=items(name,status),nextPageToken``; ``/`` and ``.`` both go down.

A name that the answer's schema doesn't know is refused as Google refuses it."""

from __future__ import annotations

from typing import Any

from slurm_flex.emulator.core.errors import ApiError

Json = dict[str, Any]
Tree = dict[str, "Tree"]


def select(body: Json, fields: str, schemas: Json, schema: str) -> Json:
    """The parts of a body that ``fields`` names. Raises 400."""
    tree, rest = _parse(fields.replace(" ", ""), 0)
    if rest != len(fields.replace(" ", "")):
        raise _bad(fields)
    _check(tree, schemas, {"$ref": schema}, "")
    kept: Json = _cut(body, tree)
    return kept


def _parse(text: str, at: int) -> tuple[Tree, int]:
    tree: Tree = {}
    while True:
        path: list[str] = []
        while True:
            start = at
            while at < len(text) and text[at] not in ",()/.":
                at += 1
            if at == start:
                raise _bad(text)
            path.append(text[start:at])
            if at < len(text) and text[at] in "/.":
                at += 1
                continue
            break
        inner: Tree = {}
        if at < len(text) and text[at] == "(":
            inner, at = _parse(text, at + 1)
            if at >= len(text) or text[at] != ")":
                raise _bad(text)
            at += 1
        _put(tree, path, inner)
        if at < len(text) and text[at] == ",":
            at += 1
            continue
        return tree, at


def _put(tree: Tree, path: list[str], inner: Tree) -> None:
    for name in path:
        tree = tree.setdefault(name, {})
    tree.update(inner)


def _cut(value: Any, tree: Tree) -> Any:
    if not tree or ("*" in tree and not tree["*"]):
        return value
    if isinstance(value, list):
        return [_cut(item, tree) for item in value]
    if not isinstance(value, dict):
        return value
    kept: Json = {}
    for key, item in value.items():
        inner = _branch(tree, key)
        if inner is not None:
            kept[key] = _cut(item, inner)
    return kept


def _branch(tree: Tree, key: str) -> Tree | None:
    """The selection below a key. ``zones`` stands for ``zones/ANY`` in aggregated lists."""
    for name in (key, "*", key.partition("/")[0] if "/" in key else key):
        if name in tree:
            return tree[name]
    return None


def _check(tree: Tree, schemas: Json, schema: Json, path: str) -> None:
    if "$ref" in schema:
        schema = schemas[schema["$ref"]]
    if schema.get("type") == "array":
        _check(tree, schemas, schema["items"], path)
        return
    known = schema.get("properties")
    for name, inner in tree.items():
        where = f"{path}/{name}" if path else name
        if name == "*":
            continue
        if known is not None:
            if name not in known:
                raise _bad(where)
            _check(inner, schemas, known[name], where)
        elif "additionalProperties" in schema:
            _check(inner, schemas, schema["additionalProperties"], where)
        else:
            raise _bad(where)


def _bad(fields: str) -> ApiError:
    return ApiError(
        400,
        "invalidParameter",
        f"Invalid field selection {fields}",
        location="fields",
        location_type="parameter",
    )
