"""Reading the one-line records of ``scontrol show ... -o``, for tests and the demo."""

from __future__ import annotations

import re
from typing import Final

# A key follows a space and begins with a capital; values may hold spaces (Reason, Comment, OS).
_KEY: Final = re.compile(r"(?:\A|\s)([A-Z][A-Za-z_:/]*)=")


def record(line: str) -> dict[str, str]:
    """Split ``NodeName=a State=IDLE Reason=two words`` into a dict; ``(null)`` stays as it is."""
    first = line.strip().splitlines()[0] if line.strip() else ""
    keys = list(_KEY.finditer(first))
    ends = [*(key.start() for key in keys), len(first)][1:]
    found: dict[str, str] = {}
    for key, end in zip(keys, ends, strict=False):  # no key at all leaves no end either
        found.setdefault(key.group(1), first[key.end() : end].strip())
    return found


def flags(state: str) -> frozenset[str]:
    """``IDLE+CLOUD+POWERED_DOWN`` as a set; the old suffix of a node that doesn't answer is cut."""
    return frozenset(flag.rstrip("*") for flag in state.split("+") if flag)
