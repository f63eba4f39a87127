"""The page at /: what is there, live, as plain HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Final

from slurm_flex.durations import humanize
from slurm_flex.emulator.core import knobs
from slurm_flex.emulator.core.records import Request
from slurm_flex.emulator.core.world import World
from slurm_flex.emulator.web.control import billing

MOST_ROWS: Final = 200
_STYLE: Final = """
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#202124}
h1{font-size:1.35em;margin:0}h2{font-size:1.05em;margin:1.6em 0 .3em}p{margin:.2em 0;color:#5f6368}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.25em .8em .25em 0;border-bottom:1px solid #e8eaed;vertical-align:top}
th{font-weight:600;color:#5f6368}code{font-size:.95em}
.RUNNING,.SUCCEEDED,.DONE{color:#137333}.ACCEPTED,.CREATING,.PROVISIONING,.STAGING{color:#b06000}
.FAILED,.TERMINATED,.STOPPING,.CANCELLED{color:#c5221f}
"""


def page(world: World, now: datetime, calls: int) -> str:
    """The whole page; it loads itself anew every two seconds."""
    bill = billing(world)["seconds"]
    sections = [
        _groups(world),
        _requests(world, now),
        _instances(world, now),
        _faults(world),
        _knobs(world),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="refresh" content="2"><title>slurm-flex emulator</title>'
        f"<style>{_STYLE}</style></head><body><h1>Compute Engine, emulated</h1>"
        f"<p>{escape(now.isoformat(sep=' ', timespec='seconds'))} · time runs "
        f"{world.scale:g}× · {calls} calls · {len(world.instances)} instances · "
        f"{bill:,.0f} VM seconds billed</p>{''.join(sections)}</body></html>\n"
    )


def _groups(world: World) -> str:
    rows = []
    for group in world.groups:
        actions = Counter(member.action for member in world.members.under(group.path))
        shown = ", ".join(f"{count} {name}" for name, count in sorted(actions.items()))
        rows.append((group.name, group.scope.name, group.project, group.target_size, shown))
    return _table("Groups", ("name", "place", "project", "target size", "members"), rows)


def _requests(world: World, now: datetime) -> str:
    rows = []
    for item in sorted(world.requests, key=lambda r: r.created, reverse=True):
        state = f"{item.state} (provisioning)" if item.provisioning else item.state
        age = humanize(now - item.created)
        names = item.names[0] + (f" … {item.names[-1]}" if len(item.names) > 1 else "")
        group = item.group.rsplit("/", 1)[-1]
        rows.append((item.name, group, state, len(item.names), names, age, _said(item)))
    head = ("name", "group", "state", "VMs", "nodes", "age", "last answer")
    return _table("Resize requests", head, rows)


def _said(item: Request) -> str:
    errors = item.error or item.last_attempt
    return f"{errors[0].get('code')}: {errors[0].get('message')}" if errors else ""


def _instances(world: World, now: datetime) -> str:
    rows = []
    for item in world.instances:
        left = humanize(item.terminates - now) if item.terminates else ""
        group = item.group.rsplit("/", 1)[-1]
        rows.append((item.name, item.zone, item.status, item.machine_type, group, left))
    head = ("name", "zone", "status", "machine type", "group", "time left")
    return _table("Instances", head, rows)


def _faults(world: World) -> str:
    rows = []
    for item in world.fault_table:
        where = ", ".join(f"{key} {value}" for key, value in item.where.items()) or "everywhere"
        left = "until cleared" if item.left is None else f"{item.left} more"
        until = item.until.isoformat(timespec="seconds") if item.until else ""
        params = ", ".join(f"{key} {value}" for key, value in item.params.items())
        rows.append((item.name, where, params, left, until))
    return _table("Faults in force", ("name", "where", "with", "times", "until"), rows)


def _knobs(world: World) -> str:
    before = knobs.to_json(knobs.Knobs())
    present = knobs.to_json(world.knobs)
    rows = [(k, str(v), str(before[k])) for k, v in present.items() if v != before[k]]
    return _table("Knobs that were turned", ("name", "value", "default"), rows)


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    listed = list(rows)
    if not listed:
        return f"<h2>{title}</h2><p>none</p>"
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = [f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in listed[:MOST_ROWS]]
    more = len(listed) - MOST_ROWS
    tail = f"<p>and {more} more</p>" if more > 0 else ""
    return (
        f'<h2>{title} ({len(listed)})</h2><table id="{title.split(maxsplit=1)[0].lower()}">'
        f"<tr>{cells}</tr>{''.join(lines)}</table>{tail}"
    )


def _cell(value: object) -> str:
    text = str(value)
    word = text.partition(" ")[0]
    mark = f' class="{word}"' if word.isupper() and word.isalpha() else ""
    return f"<td{mark}>{escape(text)}</td>"
