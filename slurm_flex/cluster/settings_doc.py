"""The settings as documentation: etc/slurm-flex.toml and the table of docs/settings.md.

Both are made from the fields, so that neither can say something else than the code does.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from slurm_flex.cluster.setting_fields import SECTIONS, Settings
from slurm_flex.durations import format_duration

_WIDTH: Final = 96
_HEAD: Final = """\
# slurm-flex.toml: what cluster_config.json has no place for.
#
# Every setting stands here with its default; a file needs only those that differ.
# Looked for in $SLURM_FLEX_CONFIG, then beside the slurm.conf that $SLURM_CONF names, then in
# /etc/slurm-flex/. Durations: "90s", "15m", "2h", "7d", or a number of seconds.
"""


def toml_value(value: object) -> str:
    """A setting's value as TOML: durations as text, tables inline."""
    if isinstance(value, timedelta):
        return json.dumps(format_duration(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{json.dumps(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return json.dumps(value, ensure_ascii=False)


def document(settings: Settings | None = None) -> str:
    """The whole file with every setting, its meaning and its value (by default its default)."""
    shown = settings or Settings()
    parts = [_HEAD]
    for section in SECTIONS:
        parts.append(f"\n# ---- {inspect.getdoc(section)} ----\n")
        for name in section.__annotations__:
            about = " ".join((Settings.model_fields[name].description or "").split())
            lines = textwrap.wrap(about, _WIDTH, initial_indent="# ", subsequent_indent="# ")
            parts.append("\n".join([*lines, f"{name} = {toml_value(getattr(shown, name))}", ""]))
    return "\n".join(parts)


def markdown_tables() -> str:
    """One table a section: setting, default, meaning."""
    parts = []
    for section in SECTIONS:
        parts += [f"## {inspect.getdoc(section)}", "", "| setting | default | meaning |"]
        parts.append("|---|---|---|")
        for name in section.__annotations__:
            field = Settings.model_fields[name]
            about = " ".join((field.description or "").split()).replace("|", "\\|")
            value = toml_value(getattr(Settings(), name))
            parts.append(f"| `{name}` | `{value}` | {about} |")
        parts.append("")
    return "\n".join(parts)
