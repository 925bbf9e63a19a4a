"""What both servers share, and the smaller server: `handful serve`, which has POST /api/v1/solve."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import sqlite3
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

import handful
from handful.utils.interrupts import cleanup, patience
from handful.utils.text import shortened
from handful.workbench.server import schemas as of
from handful.workbench.server.guard import Guard
from handful.workbench.server.solve import add_solve, end_solvers, status_and_sentence

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

    async def answer(request: Request, error: Exception) -> JSONResponse:
        status, sentence = status_and_sentence(error)
        sentence = shortened(sentence, MAX_SENTENCE_CHARACTERS)  # parts of it may come from the request
        log.warning("refused %.20s %.200r: %d, %s", request.method, request.scope["path"], status, sentence)
        return JSONResponse({"error": sentence}, status)

    kinds = (HTTPException, RequestValidationError, ClientDisconnect, ValueError, sqlite3.Error, OSError, Exception)
    for kind in kinds:
        app.add_exception_handler(kind, answer)
    return app


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
