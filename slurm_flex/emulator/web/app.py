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
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from slurm_flex.emulator.core.clock import ScaledClock
from slurm_flex.emulator.core.errors import ApiError, fault_code
from slurm_flex.emulator.web import connections
from slurm_flex.emulator.web.batch import batch
from slurm_flex.emulator.web.control import control, error_body
from slurm_flex.emulator.web.definitions import served
from slurm_flex.emulator.web.exchange import Answer, Asked, error_answer
from slurm_flex.emulator.web.metadata import metadata
from slurm_flex.emulator.web.neighbours import neighbours
from slurm_flex.emulator.web.page import page
from slurm_flex.emulator.web.service import Service
from slurm_flex.errors import FlexError

_VERBS: Final = ["GET", "POST", "PATCH", "PUT", "DELETE"]
LONGEST_WAIT: Final = 120.0
_TICK: Final = 0.05


def make_app(service: Service) -> Starlette:
    """The application of one service; a background task moves its time on."""
    pages = _Pages(service)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(_keep_moving(service))
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    routes = [
        Route("/", pages.overview, methods=["GET"]),
        Route("/emulator/{path:path}", pages.owner, methods=_VERBS),
        Route("/discovery/v1/apis/{api}/{version}/rest", pages.discovery, methods=["GET"]),
        Route("/batch/compute/{version}", pages.batch, methods=["POST"]),
        Route("/v1/{path:path}", pages.neighbours, methods=_VERBS),
        Route("/v3/{path:path}", pages.neighbours, methods=_VERBS),
        Route("/computeMetadata/v1/{path:path}", pages.metadata, methods=["GET"]),
        Route("/vm/{vm}/computeMetadata/v1/{path:path}", pages.metadata, methods=["GET"]),
        Route("/{path:path}", pages.compute, methods=_VERBS),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


class _Pages:
    """One coroutine a kind of path."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def compute(self, request: Request) -> Response:
        """The Compute API; operations.wait stays open until the operation is done."""
        asked = await _asked(request)
        try:
            answer = self._service.answer(asked)
            deadline = time.monotonic() + LONGEST_WAIT
            while answer.again and time.monotonic() < deadline:
                await asyncio.sleep(_TICK)
                answer = answer.again()
        except FlexError as error:
            answer = error_answer(fault_code(500, f"The emulator is in trouble: {error}"))
        return await _respond(request, answer)

    async def batch(self, request: Request) -> Response:
        """Many calls in one."""
        asked = await _asked(request)
        try:
            kind = request.headers.get("content-type", "")
            answer = batch(kind, asked.body, asked.root, self._service.answer)
        except ApiError as error:
            answer = error_answer(error)
        return await _respond(request, answer)

    async def discovery(self, request: Request) -> Response:
        """Google's definition of an API, with its root here."""
        words = request.path_params
        try:
            found = served(words["api"], words["version"], (await _asked(request)).root)
        except FlexError:
            return await _respond(
                request, error_answer(ApiError(404, "notFound", "Requested entity was not found."))
            )
        return JSONResponse(found)

    async def neighbours(self, request: Request) -> Response:
        """Resource Manager, IAM, Service Usage, Filestore, Lustre, Secret Manager."""
        asked = await _asked(request)
        return await _respond(request, neighbours(self._service.cloud.world.knobs, asked))

    async def metadata(self, request: Request) -> Response:
        """The metadata server."""
        self._service.settle()
        answer = metadata(
            self._service.cloud.world,
            request.path_params.get("vm", ""),
            request.path_params["path"],
            flavored=request.headers.get("metadata-flavor") == "Google",
            recursive=request.query_params.get("recursive", "").lower() == "true",
        )
        return await _respond(request, answer)

    async def overview(self, _request: Request) -> Response:
        """The page for people."""
        self._service.settle()
        cloud = self._service.cloud
        return HTMLResponse(page(cloud.world, cloud.clock.now(), self._service.calls))

    async def owner(self, request: Request) -> Response:
        """Knobs, faults and the rest of the owner's side."""
        raw = await request.body()
        try:
            body = json.loads(raw) if raw else {}
            found = control(self._service, request.method, request.path_params["path"], body)
        except FlexError as error:
            return JSONResponse(error_body(error), 400)
        except (ValueError, TypeError, AttributeError) as error:
            return JSONResponse(error_body(FlexError(f"bad request: {error}")), 400)
        except KeyError:
            return JSONResponse(error_body(FlexError("there is nothing here")), 404)
        return JSONResponse(found)


async def _asked(request: Request) -> Asked:
    given = request.query_params
    params: dict[str, str] = dict(given)
    return Asked(
        request.method,
        request.url.path,
        params,
        await request.body(),
        f"{request.url.scheme}://{request.url.netloc}",
        {name: given.getlist(name) for name in params},
    )


async def _respond(request: Request, answer: Answer) -> Response:
    if answer.delay:
        await asyncio.sleep(answer.delay.total_seconds())
    if answer.drop:
        connections.abort(request.scope)
        return Response(status_code=500)
    return Response(
        answer.body, answer.code, headers=answer.headers, media_type=answer.content_type
    )


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
