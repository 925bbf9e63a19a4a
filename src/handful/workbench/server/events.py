"""Server-sent events: the server sends changes to the page, which need not ask for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from handful.project.live import LiveProject

HEARTBEAT_S = 15.0
MIN_GAP_S = 0.1  # between two events: a progress bar need not move more often
MAX_STREAMS = 32


class Events:
    """The event streams of a project. If there are too many, the oldest ends, so that a new page gets its events."""

    def __init__(self, project: LiveProject) -> None:
        self._project = project
        self._open: dict[asyncio.Event, bool] = {}  # in the order they were opened; False: it must end

    async def stream(self) -> AsyncIterator[str]:
        """Send the project now, and after each change."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:  # from any thread
            with suppress(RuntimeError):  # the loop has ended, and nobody listens
                loop.call_soon_threadsafe(news.set)

        self._make_room()
        self._open[news] = True
        unlisten = self._project.listen(tell)
        sent: dict[str, Any] = {}
        try:
            news.set()
            while self._open[news]:
                try:
                    await asyncio.wait_for(news.wait(), HEARTBEAT_S)
                except asyncio.TimeoutError:
                    yield ": still here\n\n"
                    continue
                news.clear()
                body = self._project.summary()
                job = body["job"]
                if job is not None and job["state"] == "running":
                    yield _event("progress", {name: job[name] for name in ("kind", "done", "total")})
                if _without_progress(body) != _without_progress(sent):
                    yield _event("project", body)
                sent = body
                await asyncio.sleep(MIN_GAP_S)
        finally:
            unlisten()
            del self._open[news]

    def _make_room(self) -> None:
        going_on = [news for news, goes_on in self._open.items() if goes_on]
        if len(going_on) >= MAX_STREAMS:
            self._open[going_on[0]] = False
            going_on[0].set()


def _event(name: str, body: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(body, allow_nan=False)}\n\n"


def _without_progress(body: dict[str, Any]) -> dict[str, Any]:
    job = body.get("job")
    calm = None if job is None else {k: v for k, v in job.items() if k not in ("done", "total")}
    return body | {"job": calm}
