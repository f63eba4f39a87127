"""Texts of others, made fit to be shown: one line, no control characters, a known length.

Whatever Google, Slurm or a job wrote goes through here before it becomes a reason, a comment or
an event. Nothing is escaped: our children get argv lists, so quotes and `$(..)` are just text.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_ELLIPSIS: Final = "…"
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def one_line(text: str, limit: int = 200) -> str:
    """The text as one line of at most `limit` characters; a longer one ends in "…".

    Line breaks, control and format characters (NUL, escape sequences, bidi overrides) and lone
    surrogates, which can't be written as UTF-8, become spaces; runs of spaces become one.
    """
    shown = " ".join("".join(" " if _is_unprintable(char) else char for char in text).split())
    if len(shown) <= limit:
        return shown
    return shown[: max(0, limit - 1)].rstrip() + _ELLIPSIS if limit > 0 else ""


def whole_number(text: str) -> int | None:
    """The number that the text is; None for any other text, and for more than 18 digits: Python
    refuses to read thousands of them, and nobody means so many."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def _is_unprintable(char: str) -> bool:
    """Unicode's categories C (control, format, surrogate, unassigned) and line separators."""
    category = unicodedata.category(char)
    return category[0] == "C" or category in ("Zl", "Zp")
