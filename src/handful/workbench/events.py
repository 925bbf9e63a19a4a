"""Server-sent events: the page is told of changes instead of asking for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from handful.workbench.project import Project

HEARTBEAT = 15.0
CALM = 0.1  # seconds between two events: a bar need not move more often


async def events(project: Project) -> AsyncIterator[str]:
    """The project now, and whenever something changed."""
    loop, news = asyncio.get_running_loop(), asyncio.Event()

    def told() -> None:  # from any thread
        with suppress(RuntimeError):  # the loop has ended, and nobody listens
            loop.call_soon_threadsafe(news.set)

    quiet = project.listen(told)
    shown: dict[str, Any] = {}
    try:
        news.set()
        while True:
            try:
                await asyncio.wait_for(news.wait(), HEARTBEAT)
            except asyncio.TimeoutError:
                yield ": still here\n\n"
                continue
            news.clear()
            body = project.summary()
            job = body["job"]
            if job is not None and job["state"] == "running":
                yield _event("progress", {name: job[name] for name in ("kind", "done", "total")})
            if _without_progress(body) != _without_progress(shown):
                yield _event("project", body)
            shown = body
            await asyncio.sleep(CALM)
    finally:
        quiet()


def _event(name: str, body: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(body, allow_nan=False)}\n\n"


def _without_progress(body: dict[str, Any]) -> dict[str, Any]:
    job = body.get("job")
    calm = None if job is None else {k: v for k, v in job.items() if k not in ("done", "total")}
    return body | {"job": calm}
