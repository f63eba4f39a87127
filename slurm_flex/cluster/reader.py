"""Walk a JSON value along its schema: normalise what is right, collect everything that is wrong."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from slurm_flex.cluster.schema import Flag, Group, Items, Number, Pairs, Seconds, Shape, Text
from slurm_flex.errors import FlexError

_MARKED: Final = re.compile(
    r"<[A-Za-z][A-Za-z0-9 _./-]*>|\$\{[^}]*\}|\{\{[^}]*\}\}|\[[A-Z][A-Z_ -]*\]"
)
_SHOUTED: Final = re.compile(r"(?:^|(?<=[/@.]))[A-Z][A-Z0-9]*(?:[_-][A-Z0-9]+)*(?=$|[/@.])")
_STEP: Final = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\["([^"]*)"\]')
_FILL_IN: Final = "remove it, or fill it in"
_SECONDS: Final = re.compile(r"(\d{1,18})(?:\.0+)?s", re.ASCII)


class ClusterFileError(FlexError):
    """One thing wrong in the cluster file. ``path`` is its JSON path, keys as they are written."""

    def __init__(self, what: str, *, source: str, path: str, fix: str = "") -> None:
        self.path = path
        super().__init__(what, where=f"{source}: {path}" if path else source, fix=fix)


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, or nothing. Case and underscores don't count."""
    plain = {_plain(name): name for name in known}
    found = difflib.get_close_matches(_plain(word), list(plain), n=1, cutoff=0.72)
    return plain[found[0]] if found else ""


def camel(snake: str) -> str:
    """snake_case as proto JSON writes it in camelCase."""
    head, *rest = snake.split("_")
    return head + "".join(part.capitalize() for part in rest)


def as_written(path: str, data: object) -> str:
    """A path of snake_case keys with each key as the file spells it."""
    written = ""
    for key, index, other in _STEP.findall(path):
        if index:
            data = _at(data, int(index))
            written += f"[{index}]"
            continue
        spelt = other or key
        if isinstance(data, Mapping):
            spelt = next((way for way in (spelt, camel(spelt)) if way in data), spelt)
            data = data.get(spelt)
        written += f'["{spelt}"]' if other else f".{spelt}"
    return written.lstrip(".")


def path_to(holder: object, data: object, here: str = "") -> str:
    """Where in the JSON this very object stands; empty for the whole, and if it is not there."""
    if data is holder:
        return here
    steps: Iterable[tuple[str, object]] = ()
    if isinstance(data, Mapping):
        steps = ((f"{here}.{key}" if here else str(key), item) for key, item in data.items())
    elif isinstance(data, list):
        steps = ((f"{here}[{at}]", item) for at, item in enumerate(data))
    return next((path for step, item in steps if (path := path_to(holder, item, step))), "")


def _at(data: object, index: int) -> object:
    return data[index] if isinstance(data, list) and index < len(data) else None


def placeholder(text: str, *, shouted: bool = False) -> str:
    """What in a text still waits to be filled in, such as ``<project-id>, <region>``; or nothing.

    shouted: take a whole upper-case word between slashes (PROJECT_ID) for one as well; right
    where only lower case is legal.
    """
    found = _MARKED.findall(text) or (_SHOUTED.findall(text) if shouted else [])
    return ", ".join(dict.fromkeys(found))


class Reader:
    """Collects errors while it walks; returns plain values under snake_case keys."""

    def __init__(self, source: str, data: object, *, lenient: bool) -> None:
        self.source = source
        self.data = data
        self.lenient = lenient
        self.errors: list[FlexError] = []

    def complain(self, path: str, what: str, fix: str = "") -> None:
        """Note an error at a path; its keys may be in snake case whatever the file writes."""
        if self.is_faulty(path):
            return
        path = as_written(path, self.data)
        self.errors.append(ClusterFileError(what, source=self.source, path=path, fix=fix))

    def is_faulty(self, path: str) -> bool:
        """Something has been said of exactly this path already; more would only follow from it."""
        written = as_written(path, self.data)
        return any(isinstance(e, ClusterFileError) and e.path == written for e in self.errors)

    def is_faulty_below(self, path: str) -> bool:
        """Something has been said of an item of this list: it may lack what the file gives."""
        written = f"{as_written(path, self.data)}["
        return any(isinstance(e, ClusterFileError) and e.path.startswith(written)
                   for e in self.errors)  # fmt: skip

    def read(self, shape: Shape, value: object, path: str) -> Any:
        """The value, normalised; None stands for a value that was wrong (and is complained of)."""
        match shape:
            case Group():
                return self._group(shape, value, path)
            case Items():
                return self._items(shape, value, path)
            case Pairs():
                return self._pairs(shape, value, path)
            case Text():
                return self._text(shape, value, path)
            case Number():
                return self._number(shape, value, path)
            case Flag():
                return self._flag(value, path)
            case Seconds():
                return self._seconds(shape, value, path)

    def _group(self, shape: Group, value: object, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            self._wrong_type(value, path, "an object { }")
            return {}
        spellings = self._spellings(shape)
        result: dict[str, Any] = {}
        written: dict[str, str] = {}
        for key, item in value.items():
            here = f"{path}.{key}" if path else str(key)
            name = spellings.get(key)
            if name is None:
                self._unknown_key(shape, key, here)
                continue
            if name in shape.output:
                continue
            if name in shape.refused:
                self.complain(here, "not supported", shape.refused[name])
                continue
            if name in written:
                self.complain(here, f'says the same as "{written[name]}"', "keep one of the two")
                continue
            written[name] = key
            if item is None:  # proto JSON: null is absent
                continue
            read = self.read(shape.fields[name], item, here)
            if read is not None and read != "":  # proto JSON: an empty string is none
                result[name] = read
        if not self.lenient:
            for name in shape.required:
                item = value[written[name]] if name in written else None
                field = shape.fields[name]
                if item is None or (item == "" and isinstance(field, Text) and field.may_be_empty):
                    self.complain(f"{path}.{name}" if path else name, "is missing", _about(field))
        return result

    @staticmethod
    def _spellings(shape: Group) -> dict[str, str]:
        names = [*shape.fields, *shape.refused, *shape.output]
        spelt = {name: name for name in names} | {camel(name): name for name in names}
        for alias, name in shape.aliases.items():
            spelt |= {alias: name, camel(alias): name}
        return spelt

    def _unknown_key(self, shape: Group, key: object, path: str) -> None:
        meant = closest(str(key), [*shape.fields, *shape.aliases, *shape.refused])
        known = ", ".join(shape.fields)
        self.complain(
            path, "is not a known key", f"did you mean {meant}?" if meant else f"known are {known}"
        )

    def _items(self, shape: Items, value: object, path: str) -> list[Any]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            self._wrong_type(value, path, "a list [ ]")
            return []
        read = []
        for at, item in enumerate(value):
            if item == "" and isinstance(shape.of, Text):
                self.complain(f"{path}[{at}]", "is empty", shape.of.shape or _FILL_IN)
            elif (found := self.read(shape.of, item, f"{path}[{at}]")) is not None:
                read.append(found)
        return read

    def _pairs(self, shape: Pairs, value: object, path: str) -> dict[str, str]:
        if not isinstance(value, Mapping):
            self._wrong_type(value, path, "an object { }")
            return {}
        result = {}
        for key, item in value.items():
            here = f'{path}["{key}"]'
            if self._text(shape.key, key, here) is None:
                continue
            text = self._text(shape.value, _printed(item), here)
            if text is not None:
                result[str(key)] = text
        return result

    def _text(self, shape: Text, value: object, path: str) -> str | None:
        if not isinstance(value, str):
            self._wrong_type(value, path, "text in quotes")
            return None
        if value == "":
            if not shape.may_be_empty:
                self.complain(path, "is empty", shape.shape or _FILL_IN)
            return None if not shape.may_be_empty else ""
        if strange := _strange(value, is_script=shape.free):
            self.complain(path, f"has the character {strange} in it", "remove it")
            return None
        if shape.free:
            return value
        if self._fits(shape, value):
            return value
        shouted = bool(shape.pattern) and not (shape.choices or shape.plain)
        waiting = placeholder(value, shouted=shouted)
        if waiting:
            if self.lenient:
                return None if shape.choices else value
            fix = f"one of {', '.join(shape.choices)}" if shape.choices else shape.shape
            self.complain(path, f"{waiting} still has to be filled in", fix)
        elif shape.choices:
            meant = closest(value, shape.choices)
            hint = f"did you mean {meant}? " if meant else ""
            known = f"{hint}one of {', '.join(shape.choices)}"
            self.complain(path, f'"{value}" is not known', known)
        elif shape.longest and len(value) > shape.longest:
            self.complain(path, f"is {len(value)} characters long", f"at most {shape.longest}")
        else:
            self.complain(path, f"{_short(value)} is not valid", shape.shape)
        return None

    @staticmethod
    def _fits(shape: Text, value: str) -> bool:
        if shape.choices:
            return value in shape.choices
        if shape.longest and len(value) > shape.longest:
            return False
        if shape.pattern:
            return re.fullmatch(shape.pattern, value) is not None
        return not placeholder(value)

    def _number(self, shape: Number, value: object, path: str) -> int | None:
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value, re.ASCII):
            return self._number(shape, int(value), path)
        if isinstance(value, float) and value.is_integer():
            return self._number(shape, int(value), path)
        if isinstance(value, bool) or not isinstance(value, int):
            allowed = f"{shape.least} to {shape.most}"
            self._wrong_type(value, path, "a whole number", allowed)
            return None
        if not shape.least <= value <= shape.most:
            self.complain(path, f"{value} is out of range", f"{shape.least} to {shape.most}")
            return None
        return value

    def _flag(self, value: object, path: str) -> bool | None:
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            self._wrong_type(value, path, "true or false")
            return None
        return value

    def _seconds(self, shape: Seconds, value: object, path: str) -> int | None:
        found = _SECONDS.fullmatch(value) if isinstance(value, str) else None
        allowed = f'"{shape.least}s" to "{shape.most}s"'
        if found is None:
            self._wrong_type(value, path, "seconds in quotes", allowed)
            return None
        seconds = int(found.group(1))
        if not shape.least <= seconds <= shape.most:
            self.complain(path, f'"{value}" is out of range', allowed)
            return None
        return seconds

    def _wrong_type(self, value: object, path: str, wanted: str, allowed: str = "") -> None:
        waiting = placeholder(value, shouted=True) if isinstance(value, str) else ""
        if waiting:
            if not self.lenient:
                self.complain(path, f"{waiting} still has to be filled in", allowed or wanted)
            return
        self.complain(path, f"{_short(value)} is not {wanted}", allowed)


def _strange(text: str, *, is_script: bool) -> str:
    """The first character that no file of ours may hold: one that UTF-8 or a shell can't, and
    outside of scripts one that ends a line or steers a terminal."""
    for char in text:
        kind = unicodedata.category(char)
        if char == "\0" or kind == "Cs" or (not is_script and kind in ("Cc", "Zl", "Zp")):
            return f"U+{ord(char):04X}"
    return ""


def _plain(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()


def _printed(value: object) -> object:
    """Numbers and booleans of a free map as Slurm writes them; anything else as it is."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return f"{value}" if isinstance(value, (int, float)) else value


def _short(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + '..."'


def _about(shape: Shape) -> str:
    about = shape.about.rstrip(".")
    return about[:1].lower() + about[1:] or getattr(shape, "shape", "")
