"""How commands print: columns that awk can read, JSON, and one line for what went wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import typer

from slurm_flex.durations import humanize

Row = Sequence[object]


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(headers: Sequence[str], rows: Sequence[Row], *, empty: str) -> None:
    """Columns under their headers; `empty` where there is no row. Nothing is cut off."""
    if not rows:
        typer.echo(empty)
        return
    texts = [[_cell(value) for value in row] for row in rows]
    widths = [
        max(len(header), *(len(row[at]) for row in texts)) for at, header in enumerate(headers)
    ]
    head = _line(headers, widths)
    typer.echo(typer.style(head, bold=True) if sys.stdout.isatty() else head)
    for row in texts:
        typer.echo(_line(row, widths))


def print_facts(facts: Mapping[str, object]) -> None:
    """One fact a line, the values under each other; what isn't known is left out."""
    known = {name: _cell(value) for name, value in facts.items() if value not in (None, "", [])}
    width = max((len(name) for name in known), default=0)
    for name, value in known.items():
        typer.echo(f"{name:<{width}}  {value}")


def warn(text: str) -> None:
    typer.echo(f"slurm-flex: {text}", err=True)


def clock(text: str | None) -> datetime | None:
    """A time of the status file, which is written in UTC with a Z."""
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


def since(text: str | None, now: datetime) -> str:
    """How long ago: ``2 h 10 min``, or nothing."""
    moment = clock(text)
    return "" if moment is None else humanize(now - moment)


def until(text: str | None, now: datetime) -> str:
    """How long from now, "now" once it is reached, or nothing."""
    moment = clock(text)
    if moment is None:
        return ""
    return humanize(moment - now) if moment > now else "now"


def at(text: str | None) -> str:
    """A time for people, in their own zone."""
    moment = clock(text)
    return "" if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


def said(error: Mapping[str, Any] | None) -> str:
    """Google's code and text on one line."""
    if error is None:
        return ""
    return ": ".join(part for part in (error.get("code"), error.get("message")) if part)


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value) or "-"
    return str(value)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
