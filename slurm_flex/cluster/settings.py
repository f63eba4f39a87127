"""Find, read and document slurm-flex.toml."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from slurm_flex.cluster.reader import closest
from slurm_flex.cluster.setting_fields import SECTIONS, Settings
from slurm_flex.durations import format_duration
from slurm_flex.errors import FlexError, InputErrors
from slurm_flex.hook_site import may_be_a_file
from slurm_flex.text import one_line

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "SECTIONS",
    "Settings",
    "cluster_file",
    "find_settings_file",
    "load_settings",
    "parse_settings",
]

FILE_NAME: Final = "slurm-flex.toml"
SYSTEM_FILE: Final = Path("/etc/slurm-flex") / FILE_NAME
_TOML_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_LONGEST_SUSPEND_TIMEOUT: Final = timedelta(seconds=110)
_NOT_LONGER_THAN: Final = (
    ("busy_interval", "interval"),
    ("capacity_backoff", "capacity_backoff_max"),
    ("quota_backoff", "quota_backoff_max"),
    ("boot_backoff", "boot_backoff_max"),
)


def find_settings_file(env: Mapping[str, str]) -> Path | None:
    """SLURM_FLEX_CONFIG, then beside the slurm.conf that SLURM_CONF names, then /etc/slurm-flex.

    A file that SLURM_FLEX_CONFIG names is returned even if it isn't there, so that reading it
    says so. None: there is no file, and every setting has its default.
    """
    named = env.get("SLURM_FLEX_CONFIG")
    if named:
        return Path(named)
    slurm_conf = env.get("SLURM_CONF")
    places = [Path(slurm_conf).parent / FILE_NAME] if slurm_conf else []
    return next((place for place in (*places, SYSTEM_FILE) if may_be_a_file(place)), None)


def load_settings(path: Path | None = None) -> Settings:
    """Read a settings file; without a path the one that the environment leads to.

    Raises InputErrors with everything that is wrong, each with its line.
    """
    path = find_settings_file(os.environ) if path is None else path
    if path is None:
        return Settings()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputErrors([FlexError(error.strerror or str(error), where=str(path))]) from error
    except UnicodeDecodeError as error:
        where = f"{path}:{error.object[: error.start].count(10) + 1}"
        raise InputErrors([FlexError("is not UTF-8 text", where=where)]) from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputErrors([_not_toml(str(error), str(path), text)]) from error
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number of 5000 digits
        what = f"is not TOML that can be read: {error}"
        raise InputErrors([FlexError(what, where=str(path))]) from error
    return parse_settings(data, source=str(path), text=text)


def parse_settings(
    data: Mapping[str, object], *, source: str = FILE_NAME, text: str = ""
) -> Settings:
    """Check settings and make them a value. ``text`` is the file, for the line numbers.

    Raises InputErrors with all errors at once.
    """
    if not isinstance(data, Mapping):
        raise InputErrors([FlexError("is not a table of settings", where=source)])
    try:
        settings = Settings.model_validate(dict(data))
    except ValidationError as error:
        order = {str(key): at for at, key in enumerate(data)}
        wrong = sorted(error.errors(include_url=False), key=lambda item: order[str(item["loc"][0])])
        raise InputErrors([_said(item, source, text) for item in wrong]) from error
    errors = list(_contradictions(settings, data, source, text))
    if errors:
        raise InputErrors(errors)
    return settings


def _contradictions(
    settings: Settings, data: Mapping[str, object], source: str, text: str
) -> Iterator[FlexError]:
    for first, second in _NOT_LONGER_THAN:
        if getattr(settings, first) > getattr(settings, second):
            where = _place(first if first in data else second, source, text)
            yield FlexError(f"{first} is longer than {second}", where=where, fix="shorten it")
    if settings.suspend_timeout > _LONGEST_SUSPEND_TIMEOUT:
        yield FlexError(
            f"suspend_timeout {format_duration(settings.suspend_timeout)} is too long",
            where=_place("suspend_timeout", source, text),
            fix="at most 110s: Slurm requeues a job 120 s after a node failure, and by then its "
            "node must be usable again",
        )


def cluster_file(settings: Settings, settings_path: Path | None) -> Path:
    """Where the cluster file is: as set, else cluster_config.json beside the settings file."""
    folder = (SYSTEM_FILE if settings_path is None else settings_path).parent
    return folder / (settings.cluster_file or "cluster_config.json")


def _not_toml(message: str, source: str, text: str) -> FlexError:
    found = _TOML_PLACE.search(message)
    if found is None:
        return FlexError(f"is not TOML: {message}", where=source)
    line = found.group(1) or str(text.count("\n") + 1)
    return FlexError(f"is not TOML: {message[: found.start()]}", where=f"{source}:{line}")


def _place(key: str, source: str, text: str) -> str:
    """file:line of a top-level key or table, or just the file where the text isn't at hand."""
    name = re.escape(key)
    wanted = re.compile(rf'\s*(?:\[\s*)?["\']?{name}["\']?\s*(?:[=.\]])')
    for number, line in enumerate(text.splitlines(), 1):
        if wanted.match(line):
            return f"{source}:{number}"
    return source


def _said(item: Any, source: str, text: str) -> FlexError:
    """One of pydantic's complaints in our words."""
    key, *deeper = (str(part) for part in item["loc"])
    where = _place(key, source, text)
    name = ".".join((key, *deeper))
    kind = item["type"]
    if kind == "extra_forbidden":
        meant = closest(key, Settings.model_fields)
        fix = f"did you mean {meant}?" if meant else "see etc/slurm-flex.toml for all settings"
        return FlexError(f"{name} is no setting", where=where, fix=fix)
    if kind == "value_error":
        return FlexError(f"{name}: {item['ctx']['error']}", where=where)
    if kind == "literal_error":
        return FlexError(f"{name}: {item['input']!r} is not {item['ctx']['expected']}", where=where)
    fix = _about(key) if kind == "string_pattern_mismatch" else ""
    return FlexError(f"{name}: {_limit(item)}", where=where, fix=fix)


def _about(key: str) -> str:
    """What the setting is, from the text that etc/slurm-flex.toml has of it."""
    return one_line(Settings.model_fields[key].description or "", 160).rstrip(".")


_LIMITS: Final = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
}
_KINDS: Final = {
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text in quotes",
    "mapping_type": "a table",
    "dict_type": "a table",
}


def _limit(item: Any) -> str:
    kind = item["type"]
    shown = item["input"]
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        limit = item["ctx"][name]
        limit = "0s" if "timedelta" in repr(limit) else limit  # durations have no other limit
        return f"{shown!r} is out of range, {words} {limit}"
    if kind == "string_pattern_mismatch":
        return f"{one_line(str(shown), 60)!r} is not valid here"
    return f"{shown!r} is not {_KINDS.get(kind, item['msg'])}"
