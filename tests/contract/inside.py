"""The emulator in a thread of the test's own process, so that every exchange can be looked at."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn

from slurm_flex.emulator.options import EmulatorOptions
from slurm_flex.emulator.server import make_service
from slurm_flex.emulator.web.app import make_app
from slurm_flex.emulator.web.connections import TrackedProtocol

Message = MutableMapping[str, Any]
FAST = {
    "op_delay": 0.02, "accept_delay": 0.04, "provision_delay": 0.02, "boot_delay": 0.04,
    "stopping_delay": 0.06, "repair_delay": 0.05, "capacity_retry": 0.2,
}  # fmt: skip


@dataclass(frozen=True)
class Exchange:
    """One request and its answer."""

    client: str
    verb: str
    path: str
    query: dict[str, str]
    request: bytes
    code: int
    response: bytes

    @property
    def json(self) -> Any:
        """The answer's JSON."""
        return json.loads(self.response)


class Inside:
    """``with Inside(knobs=...) as inside``: ``inside.url``, ``inside.service``, ``exchanges``."""

    def __init__(self, *, state: Path | None = None, **knobs: object) -> None:
        self.service = make_service(EmulatorOptions(state=state, knobs={**FAST, **knobs}))
        self.exchanges: list[Exchange] = []
        config = uvicorn.Config(
            self._recorded(make_app(self.service)), http=TrackedProtocol, log_level="warning",
            port=0, lifespan="on", loop="asyncio",
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self.url = ""

    def __enter__(self) -> Inside:
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self._server.started:
            assert time.monotonic() < deadline, "the server didn't start"
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(20)

    def until(self, condition: Callable[[], bool], what: str, limit: float = 15) -> None:
        """Wait for a condition, with a limit."""
        deadline = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.02)

    def fault(self, name: str, **order: object) -> None:
        """Set a fault from the test's thread."""
        self.service.set_fault({"name": name, **order})

    def _recorded(self, app: Any) -> Any:
        async def recorder(
            scope: Message,
            receive: Callable[[], Awaitable[Message]],
            send: Callable[[Message], Awaitable[None]],
        ) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            asked, answered, codes = bytearray(), bytearray(), []

            async def listen() -> Message:
                message = await receive()
                asked.extend(message.get("body", b""))
                return message

            async def speak(message: Message) -> None:
                codes.append(message.get("status", 0))
                answered.extend(message.get("body", b""))
                await send(message)

            await app(scope, listen, speak)
            self.exchanges.append(
                Exchange(
                    _client(scope),
                    scope["method"],
                    scope["path"],
                    dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True)),
                    bytes(asked),
                    codes[0],
                    bytes(answered),
                )
            )

        return recorder


def _client(scope: Message) -> str:
    headers = {key.decode().lower(): value.decode() for key, value in scope["headers"]}
    told = headers.get("x-goog-api-client", "")
    if "gapic/" in told:
        return "google-cloud-compute"
    return "google-api-python-client" if "gdcl/" in told else "other"
