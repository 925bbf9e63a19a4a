"""One thread for long work: embedding and solving, one job at a time, with progress and cancelling."""

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
    """The job was cancelled."""


@dataclass
class BackgroundJob:
    """A job and its progress. The work calls `at` at each step, which raises `Cancelled` if it must stop."""

    kind: str  # embed or solve
    tell: Callable[[], None]
    submitted_kind: str = ""  # the kind that was submitted: a job to solve may embed first
    state: str = "running"
    done: int = 0
    total: int = 0
    message: str = ""
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.submitted_kind = self.kind

    def at(self, done: int, total: int, message: str | None = None) -> None:
        """Report progress; raise Cancelled if the job is to stop."""
        if self.stop.is_set():
            raise Cancelled
        self.done, self.total = done, total
        self.message = self.message if message is None else message
        self.tell()

    def summary(self) -> dict[str, Any]:
        """Return what the page shows of the job."""
        return {name: getattr(self, name) for name in ("kind", "state", "done", "total", "message")}


Work = Callable[[BackgroundJob], None]


class Worker:
    """Runs jobs in the order of `submit`. `job` is the one that runs, or the last one."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.job: BackgroundJob | None = None
        self._tell = tell
        self._waiting: deque[tuple[BackgroundJob, Work]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="handful-worker", daemon=True)
        self._thread.start()

    def submit(self, kind: str, work: Work, message: str = "") -> BackgroundJob:
        """Put a job at the end of the queue; return it."""
        job = BackgroundJob(kind, self._tell, message=message)
        with self._changed:
            if self._idle():
                self.job = job  # visible at once: a client must not take the state of the last job for this one's
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
        return any(kind in (None, job.submitted_kind) for job in jobs)

    def cancel(self) -> bool:
        """Stop the running job at its next step, without a result, and drop the waiting jobs; return whether any."""
        with self._changed:
            was_busy = bool(self._waiting)
            for job, _ in self._waiting:
                job.state = "cancelled"
            self._waiting.clear()
            if self.job is not None and self.job.state == "running":
                self.job.message = "stopping"
                self.job.stop.set()
                was_busy = True
            self._changed.notify_all()
        self._tell()
        return was_busy

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until no job runs or waits."""
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
            state, message = _run_job(job, work)
            with self._changed:
                job.message, job.state = message, state
                if self._waiting:
                    self.job = self._waiting[0][0]
                self._changed.notify_all()
            self._tell()


def _run_job(job: BackgroundJob, work: Work) -> tuple[str, str]:
    try:
        work(job)
    except Cancelled:
        return "cancelled", ""
    except (ValueError, OSError, ImportError, TypeError) as error:  # their messages say what to do
        log.warning("the job %s failed: %s", job.kind, error)
        return "failed", str(error)
    except sqlite3.Error as error:
        log.warning("the result of the job %s could not be stored: %s", job.kind, error)
        return "failed", f"the result could not be stored ({error}): free some space on the disk, then start this again"
    except MemoryError:
        return "failed", "there is not enough memory for this: close other programs, or take fewer items"
    except Exception as error:
        log.exception("the job %s failed", job.kind)
        return "failed", f"something went wrong that should not ({type(error).__name__}: {error}): please report it"
    return "done", job.message
