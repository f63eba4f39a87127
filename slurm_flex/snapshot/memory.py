"""Memory as JSON: opaque to everything but the rules, carried by a snapshot and by the daemon."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.model import Memory

_MEMORY: Final[TypeAdapter[Memory]] = TypeAdapter(Memory)
_KEYS: Final = frozenset(field.name for field in fields(Memory))
_FIX: Final = "feed back what a plan returned, or leave memory out"


def dump_memory(memory: Memory) -> dict[str, Any]:
    """Memory as JSON values, what is empty left out."""
    written: dict[str, Any] = _MEMORY.dump_python(memory, mode="json", exclude_defaults=True)
    return written


def load_memory(data: object, *, source: str = "memory") -> Memory:
    """Memory from what :func:`dump_memory` wrote; null and {} are an empty one.

    Raises InputErrors for anything else, with the place of each error.
    """
    if data is None:
        return Memory()
    if not isinstance(data, Mapping):
        raise InputErrors([FlexError("is not an object { }", where=source, fix=_FIX)])
    foreign = [FlexError("is no part of memory", where=f"{source}: {key}", fix=_FIX)
               for key in data if key not in _KEYS]  # fmt: skip
    if foreign:
        raise InputErrors(foreign)
    try:
        memory = _MEMORY.validate_python(dict(data))
    except ValidationError as error:
        raise InputErrors(
            [
                FlexError(item["msg"], where=f"{source}: {_path(item['loc'])}", fix=_FIX)
                for item in error.errors(include_url=False, include_context=False)
            ]
        ) from error
    naive = [FlexError("a time has no zone", where=f"{source}: {path}", fix=_FIX)
             for path in _naive_times(memory, "")]  # fmt: skip
    if naive:
        raise InputErrors(naive)
    return memory


def _path(loc: Iterable[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def _naive_times(value: object, path: str) -> list[str]:
    """Where a time without a zone stands: a rule that compared it would fail."""
    if isinstance(value, datetime):
        return [path] if value.tzinfo is None else []
    if isinstance(value, Mapping):
        inside = [(f"{path}.{key}".lstrip("."), item) for key, item in value.items()]
    elif isinstance(value, tuple):
        inside = [(f"{path}[{at}]", item) for at, item in enumerate(value)]
    elif is_dataclass(value):
        inside = [
            (f"{path}.{field.name}".lstrip("."), getattr(value, field.name))
            for field in fields(value)
        ]
    else:
        return []
    return [found for where, item in inside for found in _naive_times(item, where)]
