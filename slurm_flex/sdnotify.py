"""systemd's side of a service: "I am ready", "I am alive" (sd_notify(3)); silent elsewhere."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping


class Notifier:
    """Sends states to the socket that systemd named in NOTIFY_SOCKET, if it did."""

    def __init__(self, env: Mapping[str, str]) -> None:
        address = env.get("NOTIFY_SOCKET", "")
        # An abstract socket is written with an at sign.
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def send(self, *states: str) -> None:
        """For example "READY=1" or "WATCHDOG=1". A systemd that doesn't listen is its problem."""
        if not self._address:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth,
        ):
            mouth.sendto("\n".join(states).encode(), self._address)
