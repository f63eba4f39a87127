"""The daemon's ear: a Unix datagram socket. An empty datagram means "look now" and nothing else.

What happened lies in the spool; a poke only saves waiting for the next pass. stdlib only, Python
3.9 and later: the hooks use it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

SOCKET_NAME = "wake.sock"


@contextlib.contextmanager
def _address(run_dir: Path) -> Iterator[str]:
    """The socket's address by way of an open folder: a sun_path holds only 107 bytes."""
    folder = os.open(run_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET_NAME}"
    finally:
        os.close(folder)


def poke(run_dir: Path) -> bool:
    """Wake the daemon. False: nobody listens there. Never blocks.

    A full queue means that it is awake or about to be: as good as delivered.
    """
    try:
        with (
            _address(run_dir) as address,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth,
        ):
            mouth.setblocking(False)
            mouth.sendto(b"", address)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


class Ear:
    """The listening end. Signals that are `minded` end a wait too and are collected in `heard`.

    Only the holder of the acting lock may open one: it replaces the socket that it finds.
    """

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / SOCKET_NAME
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        with _address(run_dir) as address:
            self._socket.bind(address)
        self._path.chmod(0o600)
        self._bell, self._clapper = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._bell.setblocking(False)
        self._clapper.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self.heard: set[int] = set()

    def mind(self, *signals: int) -> None:
        """Collect these signals in `heard`; call it from the main thread."""
        for number in signals:
            signal.signal(number, self._hear)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self.heard.add(number)
        with contextlib.suppress(BlockingIOError):
            self._clapper.send(b"")

    def wait(self, seconds: float) -> bool:
        """Until a poke, a minded signal or the time is up. True: it was a poke."""
        poked = False
        for key, _ in self._selector.select(max(0.0, seconds)):
            poked |= key.fileobj is self._socket
            self._empty(key.fileobj)  # type: ignore[arg-type]  # we registered sockets
        return poked

    @staticmethod
    def _empty(end: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                end.recv(64)

    def close(self) -> None:
        self._selector.close()
        for end in (self._socket, self._bell, self._clapper):
            end.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def __enter__(self) -> Ear:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
