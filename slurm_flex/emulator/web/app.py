"""The ASGI application: HTTP in and out, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from slurm_flex.emulator.core.clock import ScaledClock
from slurm_flex.emulator.web import connections
from slurm_flex.emulator.web.control import control, error_body
from slurm_flex.emulator.web.service import Answer, Asked, Service
from slurm_flex.errors import FlexError

_VERBS: Final = ["GET", "POST", "PATCH", "PUT", "DELETE"]
LONGEST_WAIT: Final = 120.0
_TICK: Final = 0.05


def make_app(service: Service) -> Starlette:
    """The application of one service; a background task moves its time on."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(_keep_moving(service))
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def compute(request: Request) -> Response:
        asked = await _asked(request)
        answer = service.answer(asked)
        deadline = time.monotonic() + LONGEST_WAIT
        while answer.again and time.monotonic() < deadline:
            await asyncio.sleep(_TICK)
            answer = answer.again()
        return await _respond(request, answer)

    async def owner(request: Request) -> Response:
        raw = await request.body()
        try:
            body = json.loads(raw) if raw else {}
            found = control(service, request.method, request.path_params["path"], body)
        except FlexError as error:
            return JSONResponse(error_body(error), 400)
        except (ValueError, TypeError) as error:
            return JSONResponse(error_body(FlexError(f"bad request: {error}")), 400)
        except KeyError:
            return JSONResponse(error_body(FlexError("there is nothing here")), 404)
        return JSONResponse(found)

    routes = [
        Route("/emulator/{path:path}", owner, methods=_VERBS),
        Route("/{path:path}", compute, methods=_VERBS),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


async def _asked(request: Request) -> Asked:
    params: dict[str, str] = dict(request.query_params)
    return Asked(
        request.method,
        request.url.path,
        params,
        await request.body(),
        f"{request.url.scheme}://{request.url.netloc}",
    )


async def _respond(request: Request, answer: Answer) -> Response:
    if answer.delay:
        await asyncio.sleep(answer.delay.total_seconds())
    if answer.drop:
        connections.abort(request.scope)
        return Response(status_code=500)
    return Response(answer.body, answer.code, media_type=answer.content_type)


async def _keep_moving(service: Service) -> None:
    """Let due things happen when nobody asks. A driver's trouble is told and doesn't end it."""
    while True:
        try:
            service.settle()
        except (FlexError, OSError) as error:
            print(f"slurm-flex emulator: {error}", flush=True)
        await asyncio.sleep(_pause(service))


def _pause(service: Service) -> float:
    due = service.cloud.world.next_due()
    clock: Any = service.cloud.clock
    if due is None or not isinstance(clock, ScaledClock):
        return _TICK
    return min(_TICK, max(0.002, clock.wall_delay(due)))
