"""A request as it came in and what goes out, free of any HTTP library."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from slurm_flex.emulator.core.errors import ApiError


@dataclass(frozen=True)
class Asked:
    """A request as it came in. ``root`` is scheme, host and port that it was sent to; ``repeated``
    are all values of each parameter, where ``params`` has the last."""

    verb: str
    path: str
    params: dict[str, str]
    body: bytes = b""
    root: str = ""
    repeated: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass
class Answer:
    """What goes out. ``drop`` breaks the connection instead; ``delay`` comes before it.

    ``again`` is set while an operations.wait isn't over: it looks once more."""

    code: int
    body: bytes
    content_type: str = "application/json; charset=UTF-8"
    drop: bool = False
    delay: timedelta = field(default_factory=timedelta)
    again: Callable[[], Answer] | None = None
    headers: dict[str, str] = field(default_factory=dict)


def json_answer(body: Any, code: int = 200) -> Answer:
    """An answer of JSON."""
    return Answer(code, json.dumps(body, ensure_ascii=False).encode())


def error_answer(error: ApiError) -> Answer:
    """An error of the Compute API."""
    return json_answer(error.body(), error.code)


def rpc_error(code: int, status: str, message: str, details: list[Any] | None = None) -> Answer:
    """An error of Google's newer APIs: code, message, status, details."""
    error: dict[str, Any] = {"code": code, "message": message, "status": status}
    if details:
        error["details"] = details
    return json_answer({"error": error}, code)
