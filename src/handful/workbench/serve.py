"""What both servers share, and the smaller of them: `handful serve`, a method behind POST /api/v1/solve."""

from __future__ import annotations

import logging
import secrets
import socket
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

import handful
from handful.arrays import to_numpy
from handful.interrupts import patience
from handful.workbench import schemas as of
from handful.workbench.guard import Guard
from handful.workbench.refusal import Refusal

log = logging.getLogger("handful.workbench")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": of.Error} for status in (400, 401, 403, 404, 409, 413, 415, 421, 422)
}


def new_app(title: str) -> FastAPI:
    """An app whose errors are sentences in JSON; no pages that load scripts from elsewhere."""
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
        return _say(request, error.status, str(error))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        known = {404: "there is nothing at this address", 405: "this address does not take such requests"}
        return _say(request, error.status_code, known.get(error.status_code, str(error.detail)))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        return _say(request, 422, f"{where[:100]}: {first['msg']}")

    @app.exception_handler(ValueError)
    async def wrong(request: Request, error: ValueError) -> JSONResponse:
        return _say(request, 400, str(error))

    @app.exception_handler(sqlite3.Error)
    @app.exception_handler(OSError)
    async def not_kept(request: Request, error: Exception) -> JSONResponse:
        return _say(request, 507, f"nothing was changed, as it could not be written ({error}): see to the disk")

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        return _say(request, 500, f"something went wrong that should not ({type(error).__name__}): please report it")

    return app


def _say(request: Request, status: int, sentence: str) -> JSONResponse:
    log.warning("refused %s %.200r: %d, %.300s", request.method, request.url.path, status, sentence)
    return JSONResponse({"error": sentence}, status)


def guarded(app: FastAPI, *, token: str, port: int) -> Guard:
    return Guard(app, token=token, port=port)


def solving() -> APIRouter:
    api = APIRouter(prefix="/api/v1", responses=ERRORS)

    @api.get("/health", response_model=of.Health)
    def health() -> Any:
        return {"ok": True, "version": handful.__version__}

    @api.post("/solve", response_model=of.Solved)
    def solve(wanted: of.SolveWanted) -> Any:
        """Label the rows of `query` from those of `support`."""
        return JSONResponse(solved(wanted))

    return api


def solved(wanted: of.SolveWanted) -> dict[str, Any]:
    support, query = (np.array(_rectangular(x, name), np.float64) for x, name in _tables(wanted))
    result = handful.solve(wanted.method, support, wanted.labels, query, outlier_share=wanted.outlier_share)
    interval = result.outlier_share_interval
    return {
        "labels": result.labels.tolist(),
        "unknown": to_numpy(result.unknown).tolist(),
        "p_unknown": None if result.p_unknown is None else result.p_unknown.tolist(),
        "probabilities": to_numpy(result.probabilities).astype(np.float64).tolist(),
        "classes": result.classes.tolist(),
        "outlier_share": float(result.outlier_share),
        "outlier_share_interval": None if interval is None else np.ravel(interval).tolist(),
    }


def _tables(wanted: of.SolveWanted) -> list[tuple[list[list[float]], str]]:
    return [(wanted.support, "support"), (wanted.query, "query")]


def _rectangular(rows: list[list[float]], name: str) -> list[list[float]]:
    if len({len(row) for row in rows}) > 1:
        raise Refusal(f"the rows of {name} are not equally long: each needs the same features", 422)
    return rows


def make_service(*, token: str, port: int) -> Guard:
    """The app of `handful serve`."""
    app = new_app("handful serve")
    app.include_router(solving())
    return guarded(app, token=token, port=port)


def bind(host: str, port: int) -> socket.socket:
    """A listening place on this machine alone; port 0 is any that is free."""
    if host not in LOOPBACK:
        raise ValueError(
            f"--host {host}: this server is for this machine alone, 127.0.0.1; to reach it from another, use an SSH "
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
    """Run until Ctrl-C. make(token, port) gives the app; ready(address, token) is called when it can be asked."""
    token, port = secrets.token_urlsafe(32), listening.getsockname()[1]
    host = "[::1]" if listening.family == socket.AF_INET6 else "127.0.0.1"
    config = uvicorn.Config(
        make(token, port), log_level="warning", access_log=False, server_header=False, lifespan="off",
        timeout_graceful_shutdown=1, timeout_keep_alive=30, limit_concurrency=500,
    )  # fmt: skip
    # Whoever writes to the disk lets others run meanwhile, and would wait 5 ms for its turn after each statement
    sys.setswitchinterval(0.0002)
    listening.listen(128)
    ready(f"http://{host}:{port}/", token)
    with patience(repeated=True):  # the server hears Ctrl-C, ends, and sends it again
        uvicorn.Server(config).run(sockets=[listening])
