"""A queue of changes: they are made in the order of the requests, and waiting changes are written together.

Each answer waits until its change is on the disk, which takes milliseconds. Threads would get a lock in any order, and
fifty clients would wait for fifty writes. So one thread writes all waiting changes in one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from handful.project.edits import Edits

MAX_CHANGES_PER_WRITE = 200  # changes in one write


class WriteQueue:
    """`await write(work, ...)` returns the result of `work` when its change is stored, or raises its error."""

    def __init__(self, edits: Edits) -> None:
        self._edits = edits
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="handful-writer")
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def __call__(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Run a function after those that came before, in another thread; return its result."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((partial(work, *arguments, **named), done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await done

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_CHANGES_PER_WRITE], self._waiting[MAX_CHANGES_PER_WRITE:]
                works = [work for work, _ in batch]
                results: list[tuple[Any, Exception | None]]
                try:
                    results = await asyncio.get_running_loop().run_in_executor(self._pool, self._edits.together, works)
                except Exception as error:  # the disk failed: none of them was stored
                    results = [(None, error)] * len(batch)
                for (_, done), (value, error_) in zip(batch, results, strict=True):
                    if done.cancelled():
                        continue
                    if error_ is None:
                        done.set_result(value)
                    else:
                        done.set_exception(error_)
        finally:
            self._writing = None
