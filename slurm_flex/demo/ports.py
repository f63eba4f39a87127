"""Free TCP ports on loopback, several in a row."""

from __future__ import annotations

import secrets
import socket
from typing import Final

from slurm_flex.errors import FlexError

# Below the range from which the kernel gives ports to outgoing connections (32768 and up), so
# that a port found free isn't taken by a passing connection before it is used.
_LOWEST: Final = 12000
_HIGHEST: Final = 32000
_TRIES: Final = 50


def free_ports(count: int) -> int:
    """The first of ``count`` ports in a row that are free on 127.0.0.1. Raises FlexError."""
    for _ in range(_TRIES):
        first = _LOWEST + secrets.randbelow(_HIGHEST - _LOWEST - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise FlexError(f"no {count} free ports in a row found", where="127.0.0.1")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
