"""What both servers share, and the smaller server: `handful serve`, which has POST /api/v1/solve."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import sqlite3
import sys
from collections.abc import Callable
from errno import ENAMETOOLONG
from types import FrameType
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

import handful
from handful.project.refusal import Refusal
from handful.utils.interrupts import cleanup, patience
from handful.utils.text import shortened
from handful.workbench.server import schemas as of
from handful.workbench.server.guard import Guard
from handful.workbench.server.solve import add_solve, end_solvers, invalid

log = logging.getLogger("handful.workbench")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": of.Error} for status in (400, 401, 403, 404, 409, 413, 415, 421, 422, 503)
}
MAX_CONNECTIONS = 256
MAX_HEAD_BYTES = 32 * 1024
MAX_SENTENCE_CHARACTERS = 400
KEEP_ALIVE_S = 30  # between two requests


def new_app(title: str) -> FastAPI:
    """An app whose errors are sentences in JSON. No documentation pages: they load scripts from the web."""
    app = FastAPI(
        title=title,
        version=handful.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        redirect_slashes=False,
    )

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> JSONResponse:
        return _error_response(request, error.status, str(error))

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> JSONResponse:
        return _error_response(request, 400, "the client left before it had sent the whole request")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        sentences = {404: "there is nothing at this address", 405: "this address does not take such requests"}
        return _error_response(request, error.status_code, sentences.get(error.status_code, str(error.detail)))

    @app.exception_handler(RequestValidationError)
    async def not_valid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return _error_response(request, 422, invalid(first["loc"][1:] or first["loc"], first["msg"]))

    @app.exception_handler(ValueError)
    async def wrong(request: Request, error: ValueError) -> JSONResponse:
        return _error_response(request, 400, str(error))

    @app.exception_handler(sqlite3.Error)
    @app.exception_handler(OSError)
    async def not_kept(request: Request, error: Exception) -> JSONResponse:
        if getattr(error, "errno", None) == ENAMETOOLONG:
            return _error_response(request, 422, "nothing was changed, because a name is too long: type a shorter one")
        return _error_response(
            request, 507, f"nothing was changed, because it could not be written ({error}): check the disk"
        )

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        return _error_response(
            request, 500, f"something went wrong that should not ({type(error).__name__}): please report it"
        )

    return app


def _error_response(request: Request, status: int, sentence: str) -> JSONResponse:
    sentence = shortened(sentence, MAX_SENTENCE_CHARACTERS)  # parts of it may come from the request
    log.warning("refused %.20s %.200r: %d, %s", request.method, request.scope["path"], status, sentence)
    return JSONResponse({"error": sentence}, status)


def router() -> APIRouter:
    """Routes under /api/v1 whose errors are sentences."""
    return APIRouter(prefix="/api/v1", responses=ERRORS)


def make_service(*, token: str, port: int) -> Guard:
    """The app of `handful serve`."""
    app, api = new_app("handful serve"), router()
    add_solve(api)
    app.include_router(api)
    return Guard(app, token=token, port=port)


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket on this machine only; port 0 takes any free port."""
    if host not in LOOPBACK:
        raise ValueError(
            f"--host {host}: this server is for this machine only, 127.0.0.1; to reach it from another one, use an SSH "
            "tunnel: ssh -L PORT:127.0.0.1:PORT"
        )
    family = socket.AF_INET6 if host == "::1" else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("::1" if host == "::1" else "127.0.0.1", port))
    except OSError as error:
        listening.close()
        raise ValueError(f"port {port} cannot be used ({error.strerror}): give another, or --port 0") from None
    return listening


def serve(make: Callable[[str, int], Any], listening: socket.socket, ready: Callable[[str, str], None]) -> None:
    """Run until Ctrl-C. make(token, port) makes the app; ready(address, token) is called when it answers requests."""
    token, port = secrets.token_urlsafe(32), listening.getsockname()[1]
    host = "[::1]" if listening.family == socket.AF_INET6 else "127.0.0.1"
    config = uvicorn.Config(
        make(token, port), http="h11", ws="none", proxy_headers=False, lifespan="off",
        log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=1,
        timeout_keep_alive=KEEP_ALIVE_S, limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )  # fmt: skip
    # A thread that writes to the disk releases Python's lock, and would wait up to 5 ms for it after each statement
    sys.setswitchinterval(0.0002)
    listening.listen(128)
    with patience(repeated=True), cleanup(end_solvers):  # the server catches Ctrl-C, ends, and sends it again
        _Server(config, lambda: ready(f"http://{host}:{port}/", token)).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Calls `ready` when it answers requests and catches Ctrl-C; in a thread, because a browser may open slowly."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        end_solvers()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        await asyncio.get_running_loop().run_in_executor(None, self._ready)
