"""systemd's side of a service: "I am ready", "I am alive" (sd_notify(3)); silent elsewhere."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping
from typing import Final

_PET_EVERY_SECONDS: Final = 10.0


class Notifier:
    """Sends states to the socket that systemd named in NOTIFY_SOCKET, if it did."""

    def __init__(self, env: Mapping[str, str]) -> None:
        address = env.get("NOTIFY_SOCKET", "")
        # An abstract socket is written with an at sign.
        self._petted = time.monotonic()
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def still_alive(self) -> None:
        """Pet the watchdog, now and then: called between the actions of a pass that may be long."""
        now = time.monotonic()
        if now - self._petted >= _PET_EVERY_SECONDS:
            self._petted = now
            self.send("WATCHDOG=1")

    def send(self, *states: str) -> None:
        """For example "READY=1" or "WATCHDOG=1". A systemd that doesn't listen is its problem."""
        if not self._address:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth,
        ):
            mouth.sendto("\n".join(states).encode(), self._address)
