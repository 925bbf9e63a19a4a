"""Processes that solve for POST /solve, so that the server can answer other requests meanwhile.

A thread is not enough: reading a large body, solving it and writing the answer hold Python's lock for seconds.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from contextlib import suppress
from weakref import WeakSet

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from handful.project.refusal import SERVER_STOPPED, Refusal
from handful.workbench.server.solve_request import work

log = logging.getLogger("handful.workbench")

MAX_PROCESSES = 2
MAX_REQUESTS = 4  # that are solved or wait
MAX_HELD_BYTES = 800 * 2**20  # of all bodies together, also of those that are not complete
FREE_BODY_BYTES = 2**20  # of each body: so much is read also if the others hold MAX_HELD_BYTES
MAX_REUSE_BYTES = 4 * 2**20  # a process that solved a larger request is ended, because it does not free its memory


_solvers: WeakSet[Solver] = WeakSet()


def end_all() -> None:
    """End all processes, because the server ends."""
    for solver in list(_solvers):
        solver.end()


class Solver:
    """One process, started at the first request."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, self._theirs = context.Pipe()
        self._process = context.Process(target=work, args=(self._theirs,), name="handful-solver", daemon=True)
        self._is_free, self.is_ended = True, False
        _solvers.add(self)

    def ask(self, kind: str, body: bytes) -> bytes:
        """Return the answer in JSON, or raise Refusal. It blocks: call it in a thread."""
        self._is_free = False
        if self._process.pid is None:
            self._process.start()
            self._theirs.close()
        if self.is_ended:  # while it was started
            self._process.kill()
        self._pipe.send_bytes(kind.encode())
        self._pipe.send_bytes(body)
        status, answer = int(self._pipe.recv_bytes()), self._pipe.recv_bytes()
        self._is_free = True
        if status != 200:
            raise Refusal(answer.decode(errors="replace"), status)
        return answer

    def is_free(self) -> bool:
        """Whether it can take a request: it runs, and has sent its last answer completely."""
        return self._is_free and (self._process.pid is None or self._process.is_alive())

    def end(self) -> None:
        """Kill the process; a thread that waits for its answer gets EOFError."""
        self.is_ended = True
        if self._process.pid is not None:
            self._process.kill()


class Solvers:
    """A few processes, started when they are needed."""

    def __init__(self) -> None:
        self._idle: list[Solver] = []
        self._requests = self._held_bytes = 0
        self._slots = asyncio.Semaphore(MAX_PROCESSES)

    async def solve(self, request: Request) -> bytes:
        """Return the answer in JSON. If there are too many requests, the body is not even read."""
        self._check_room()
        parts = list[bytes]()
        size = 0
        try:
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                self._held_bytes += len(part)
                if self._held_bytes > MAX_HELD_BYTES and size > FREE_BODY_BYTES:
                    raise Refusal("the server holds too many large requests: try again when some are done", 503)
            self._check_room()
            self._requests += 1  # only now: slow clients would keep the others out
            try:
                async with self._slots:
                    return await self._ask(b"".join(parts), request)
            finally:
                self._requests -= 1
        finally:
            self._held_bytes -= size

    def _check_room(self) -> None:
        if self._requests >= MAX_REQUESTS:
            raise Refusal(f"{MAX_REQUESTS} requests are being solved, the limit: try again when one is done", 503)

    async def _ask(self, body: bytes, request: Request) -> bytes:
        self._idle = [solver for solver in self._idle if solver.is_free()]
        solver = self._idle.pop() if self._idle else Solver()
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        asking = asyncio.ensure_future(run_in_threadpool(solver.ask, kind, body))
        leaving = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise Refusal("the client left before its answer was ready")
            return asking.result()
        except (EOFError, OSError) as error:
            if solver.is_ended:
                raise Refusal(SERVER_STOPPED, 503) from None
            log.warning("a process that solved ended early: %r", error)
            sentence = "the solving process has ended, probably because memory ran out: send fewer rows at once"
            raise Refusal(sentence, 503) from None
        finally:
            leaving.cancel()
            if asking.done() and solver.is_free() and len(body) <= MAX_REUSE_BYTES:
                self._idle.append(solver)
            else:
                solver.end()
                with suppress(Exception):  # the thread ends as well
                    await asking


async def _left(request: Request) -> None:
    """Returns when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        await asyncio.sleep(0.1)
