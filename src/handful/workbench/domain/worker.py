"""One thread for what takes long: embedding and solving, one job at a time, with progress and a way to stop."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger("handful.workbench")


class Cancelled(Exception):
    """Somebody does not want this job any more."""


@dataclass
class Job:
    """What is being done. The work calls `at` as it goes on, which raises `Cancelled` where it shall stop."""

    kind: str  # embed or solve
    tell: Callable[[], None]
    wanted: str = ""  # what it was asked for, where it begins with something else
    state: str = "running"
    done: int = 0
    total: int = 0
    message: str = ""
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.wanted = self.kind

    def at(self, done: int, total: int, message: str | None = None) -> None:
        """Report progress; raise Cancelled if the job is to stop."""
        if self.stop.is_set():
            raise Cancelled
        self.done, self.total = done, total
        self.message = self.message if message is None else message
        self.tell()

    def shown(self) -> dict[str, Any]:
        """Return what the page shows of the job."""
        return {name: getattr(self, name) for name in ("kind", "state", "done", "total", "message")}


Work = Callable[[Job], None]


class Worker:
    """Jobs in the order they are asked for. `job` is the one that runs, or the last that did."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.job: Job | None = None
        self._tell = tell
        self._waiting: deque[tuple[Job, Work]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="handful-worker", daemon=True)
        self._thread.start()

    def submit(self, kind: str, work: Work, message: str = "") -> Job:
        """Put a job at the end of the queue; return it."""
        job = Job(kind, self._tell, message=message)
        with self._changed:
            if self._idle():
                self.job = job  # seen at once: whoever asks next must not take the last one's end for this one's
            self._waiting.append((job, work))
            self._changed.notify_all()
        self._tell()
        return job

    def busy(self, kind: str | None = None) -> bool:
        """Whether a job, of this kind, runs or waits."""
        with self._changed:
            jobs = [job for job, _ in self._waiting]
            if self.job is not None and self.job.state == "running":
                jobs.append(self.job)
        return any(kind in (None, job.wanted) for job in jobs)

    def cancel(self) -> bool:
        """Stop what runs, and forget what waits. What runs ends at its next step, and its result is dropped."""
        with self._changed:
            found = bool(self._waiting)
            for job, _ in self._waiting:
                job.state = "cancelled"
            self._waiting.clear()
            if self.job is not None and self.job.state == "running":
                self.job.message = "stopping"
                self.job.stop.set()
                found = True
            self._changed.notify_all()
        self._tell()
        return found

    def wait(self, seconds: float | None = None) -> bool:
        """Until nothing runs or waits."""
        with self._changed:
            return self._changed.wait_for(self._idle, seconds)

    def close(self) -> None:
        """Cancel the running job and end the thread."""
        self._closed = True
        self.cancel()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(10)

    def _idle(self) -> bool:
        return not self._waiting and (self.job is None or self.job.state != "running")

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                job, work = self._waiting.popleft()
                self.job = job
            self._tell()
            state, message = _done(job, work)
            with self._changed:
                job.message, job.state = message, state
                if self._waiting:
                    self.job = self._waiting[0][0]
                self._changed.notify_all()
            self._tell()


def _done(job: Job, work: Work) -> tuple[str, str]:
    try:
        work(job)
    except Cancelled:
        return "cancelled", ""
    except (ValueError, OSError, ImportError, TypeError) as error:  # they say what to do
        log.warning("the job %s failed: %s", job.kind, error)
        return "failed", str(error)
    except sqlite3.Error as error:
        log.warning("the job %s could not be kept: %s", job.kind, error)
        return "failed", f"the result could not be kept ({error}): free some space on the disk, then start this again"
    except MemoryError:
        return "failed", "there is not enough memory for this: close other programs, or take fewer pictures"
    except Exception as error:
        log.exception("the job %s failed", job.kind)
        return "failed", f"something went wrong that should not ({type(error).__name__}: {error}): please report it"
    return "done", job.message
