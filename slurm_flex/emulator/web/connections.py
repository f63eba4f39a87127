"""Breaking a connection the way a network does: a reset instead of an answer."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

_OPEN: Final[dict[tuple[str, int], asyncio.Transport]] = {}


class TrackedProtocol(H11Protocol):
    """uvicorn's HTTP protocol, which remembers its transport by the client's address."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the transport."""
        super().connection_made(transport)
        if peer := transport.get_extra_info("peername"):
            _OPEN[(peer[0], peer[1])] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the transport."""
        for key in [key for key, value in _OPEN.items() if value is self.transport]:
            del _OPEN[key]
        super().connection_lost(exc)


def abort(scope: Any) -> None:
    """Reset the connection that this ASGI scope came over, without sending anything."""
    client = scope.get("client")
    transport = _OPEN.get((client[0], client[1])) if client else None
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
