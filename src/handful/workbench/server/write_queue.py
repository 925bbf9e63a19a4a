"""Changes in the order they are asked for; those that wait go to the disk together.

Each answer waits until its change is on the disk, which takes milliseconds. Threads that fight for a lock would get it
in no order, and fifty clients would wait for fifty writes; so, in one thread, all that wait are written as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from handful.workbench.domain.edits import Edits

MOST = 200  # changes in one write


class Turns:
    """`await turn(work, ...)`: what `work` gives, once it is kept, or what it raises."""

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
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                works = [work for work, _ in batch]
                results: list[tuple[Any, Exception | None]]
                try:
                    results = await asyncio.get_running_loop().run_in_executor(self._pool, self._edits.together, works)
                except Exception as error:  # the disk: none of them was kept
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
