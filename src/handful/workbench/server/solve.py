"""POST /solve: a task in, labels out, solved in a process of its own.

A thread is not enough: reading a large body, solving it and writing the answer hold Python's lock for seconds.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sqlite3
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from errno import ENAMETOOLONG
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

import handful
from handful.core.arrays import to_numpy
from handful.project.refusal import Refusal
from handful.workbench.server import schemas as of
from handful.workbench.server.guard import JSON, TENSORS

MAX_REQUESTS = 4  # one is solved, the others wait
REQUEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": of.SolveRequest.model_json_schema()},
            TENSORS: {"schema": {"type": "string", "format": "binary", "description": "A safetensors file."}},
        },
    }
}


def add_solve(api: APIRouter) -> None:
    """Add the routes that need no project."""
    queue = SolveQueue()

    @api.get("/health", response_model=dict[str, bool | str])
    async def health() -> Any:
        """Whether the server answers, and its version."""
        return {"ok": True, "version": handful.__version__}

    @api.post("/solve", response_model=of.Solved, openapi_extra=REQUEST_BODY)
    async def solve(request: Request) -> Response:
        """Label the rows of `query` from those of `support`."""
        return Response(await queue.solve(request), media_type=JSON)


def status_and_sentence(error: Exception) -> tuple[int, str]:
    """What a client is told of an error."""
    if isinstance(error, Refusal):
        return error.status, str(error)
    if isinstance(error, ClientDisconnect):
        return 400, "the client left before it had sent the whole request"
    if isinstance(error, HTTPException):
        sentences = {404: "there is nothing at this address", 405: "this address does not take such requests"}
        return error.status_code, sentences.get(error.status_code, str(error.detail))
    if isinstance(error, RequestValidationError | ValidationError):
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"][isinstance(error, RequestValidationError) :] or first["loc"]))[:100]
        return 422, f"{place}: {first['msg']}" if place else first["msg"]
    if isinstance(error, ValueError):
        return 400, str(error)
    if isinstance(error, MemoryError):
        return 413, "there is not enough memory for this: send fewer rows at once"
    if getattr(error, "errno", None) == ENAMETOOLONG:
        return 422, "nothing was changed, because a name is too long: type a shorter one"
    if isinstance(error, sqlite3.Error | OSError):
        return 507, f"nothing was changed, because it could not be written ({error}): check the disk"
    return 500, f"something went wrong that should not ({type(error).__name__}): please report it"


def end_solvers() -> None:
    """End the process that solves: the server ends, or nobody waits for the answer."""
    for process in multiprocessing.active_children():
        process.kill()


class SolveQueue:
    """Requests are solved one after the other, in one process, which is started when it is needed."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._requests = 0  # whose body has arrived
        self._turn = asyncio.Lock()

    async def solve(self, request: Request) -> bytes:
        """Return the answer in JSON. If there are too many requests, the body is not even read."""
        self._check_room()
        body = await request.body()
        self._check_room()
        self._requests += 1  # only now: slow clients would keep the others out
        try:
            async with self._turn:
                return await self._ask(body, request)
        finally:
            self._requests -= 1

    def _check_room(self) -> None:
        if self._requests >= MAX_REQUESTS:
            raise Refusal(f"{MAX_REQUESTS} requests are being solved, the limit: try again when one is done", 503)

    async def _ask(self, body: bytes, request: Request) -> bytes:
        pool, self._pool = self._pool or ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin), None
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        asking = asyncio.ensure_future(_in_process(pool, kind, body))
        leaving = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise Refusal("the client left before its answer was ready")
            status, answer = asking.result()
            self._pool = pool
        except BrokenProcessPool:
            raise Refusal(
                "the solving process has ended: the server was stopped, or memory ran out; send fewer rows at once", 503
            ) from None
        finally:
            leaving.cancel()
            if self._pool is None:
                asking.cancel()
                end_solvers()
        if status != 200:
            raise Refusal(answer, status)
        return answer.encode()


async def _in_process(pool: ProcessPoolExecutor, kind: str, body: bytes) -> tuple[int, str]:
    # In a thread, because the first one starts the process
    return await asyncio.wrap_future(await run_in_threadpool(pool.submit, answer_of, kind, body))


async def _disconnected(request: Request) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        await asyncio.sleep(0.1)


# ---- in that process


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()  # a server that is killed cannot end this process
    os._exit(0)


def answer_of(kind: str, body: bytes) -> tuple[int, str]:
    """200 and JSON; or for any error, another status and a sentence."""
    try:
        return 200, json.dumps(solved(*(_from_tensors(body) if kind == TENSORS else _from_json(body))), allow_nan=False)
    except Exception as error:
        return status_and_sentence(error)


def solved(options: of.SolveOptions, support: np.ndarray, query: np.ndarray) -> dict[str, Any]:
    """Solve a task; return the answers for JSON."""
    result = handful.solve(support, options.labels, query, method=options.method, outlier_share=options.outlier_share)
    interval, precision = result.outlier_share_interval, result.expected_precision
    return {
        "labels": result.labels.tolist(),
        "unknown": to_numpy(result.unknown).tolist(),
        "confidence": to_numpy(result.confidence).astype(np.float64).tolist(),
        "p_unknown": None if result.p_unknown is None else result.p_unknown.tolist(),
        "probabilities": to_numpy(result.probabilities).astype(np.float64).tolist(),
        "classes": result.classes.tolist(),
        "outlier_share": float(result.outlier_share),
        "outlier_share_interval": None if interval is None else np.ravel(interval).tolist(),
        "expected_precision": None if precision is None or np.isnan(precision) else precision,
    }


def _from_json(body: bytes) -> tuple[of.SolveOptions, np.ndarray, np.ndarray]:
    request = of.SolveRequest.model_validate_json(body)
    return request, _table(request.support, "support"), _table(request.query, "query")


def _table(rows: list[list[float]], name: str) -> np.ndarray:
    if len({len(row) for row in rows}) > 1:
        raise Refusal(f"the rows of {name} are not equally long: each needs the same features", 422)
    return np.array(rows, np.float64)


def _from_tensors(body: bytes) -> tuple[of.SolveOptions, np.ndarray, np.ndarray]:
    """A safetensors file with the arrays `support` and `query` and, in its metadata, `options` as JSON."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(body)
        metadata = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")]).get("__metadata__") or {}
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise Refusal(f"the body is not a safetensors file that can be read ({type(error).__name__})", 422) from None
    if set(arrays) != {"support", "query"} or any(array.ndim != 2 for array in arrays.values()):
        raise Refusal("the body must hold two arrays of two dimensions, `support` and `query`, and no others", 422)
    if "options" not in metadata:
        raise Refusal('the metadata of the body lacks `options`: JSON such as {"labels": ["cat", "dog"]}', 422)
    return of.SolveOptions.model_validate_json(metadata["options"]), arrays["support"], arrays["query"]
