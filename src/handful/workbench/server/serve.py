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
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

import handful
from handful.project.refusal import Refusal, invalid, plain
from handful.utils.interrupts import cleanup, patience
from handful.workbench.server import bodies
from handful.workbench.server import schemas as of
from handful.workbench.server.connections import Limits, default_limits, protocol_with
from handful.workbench.server.guard import Guard
from handful.workbench.server.solve_processes import Solvers, end_all

log = logging.getLogger("handful.workbench")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": of.Error} for status in (400, 401, 403, 404, 409, 413, 415, 421, 422, 503)
}
SOLVE_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            bodies.JSON: {"schema": bodies.SolveRequest.model_json_schema()},
            bodies.TENSORS: {"schema": {"type": "string", "format": "binary", "description": "A safetensors file."}},
        },
    }
}


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
    sentence = plain(sentence)
    log.warning("refused %.20s %.200r: %d, %s", request.method, request.scope["path"], status, sentence)
    return JSONResponse({"error": sentence}, status)


def guarded(app: FastAPI, *, token: str, port: int) -> Guard:
    """Return the app behind the guard that checks every request."""
    return Guard(app, token=token, port=port)


def solving() -> APIRouter:
    """Return the routes of `handful serve`."""
    api, solvers = APIRouter(prefix="/api/v1", responses=ERRORS), Solvers()

    @api.get("/health", response_model=of.Health)
    async def health() -> Any:
        """Whether the server answers, and its version."""
        return {"ok": True, "version": handful.__version__}

    @api.post("/solve", response_model=of.Solved, openapi_extra=SOLVE_BODY)
    async def solve(request: Request) -> Response:
        """Label the rows of `query` from those of `support`."""
        return Response(await solvers.solve(request), media_type="application/json")

    return api


def make_service(*, token: str, port: int) -> Guard:
    """The app of `handful serve`."""
    app = new_app("handful serve")
    app.include_router(solving())
    return guarded(app, token=token, port=port)


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


def serve(
    make: Callable[[str, int], Any],
    listening: socket.socket,
    ready: Callable[[str, str], None],
    limits: Limits | None = None,
) -> None:
    """Run until Ctrl-C. make(token, port) makes the app; ready(address, token) is called when it answers requests."""
    token, port = secrets.token_urlsafe(32), listening.getsockname()[1]
    host = "[::1]" if listening.family == socket.AF_INET6 else "127.0.0.1"
    limits = limits or default_limits()
    config = uvicorn.Config(
        make(token, port), http=protocol_with(limits), ws="none", proxy_headers=False, lifespan="off",
        log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=1, timeout_keep_alive=limits.keep_alive_s,
    )  # fmt: skip
    # A thread that writes to the disk releases Python's lock, and would wait up to 5 ms for it after each statement
    sys.setswitchinterval(0.0002)
    listening.listen(128)
    with patience(repeated=True), cleanup(end_all):  # the server catches Ctrl-C, ends, and sends it again
        _Server(config, lambda: ready(f"http://{host}:{port}/", token)).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Calls `ready` when it answers requests and catches Ctrl-C; in a thread, because a browser may open slowly."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        end_all()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        await asyncio.get_running_loop().run_in_executor(None, self._ready)
