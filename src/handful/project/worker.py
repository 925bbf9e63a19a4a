"""One thread for long work: embedding and solving, one job at a time, with progress and cancelling."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

log = logging.getLogger("handful.workbench")


class Cancelled(Exception):
    """The job was cancelled."""


@dataclass
class BackgroundJob:
    """A job and its progress. The work calls `at` at each step, which raises `Cancelled` if it must stop."""

    kind: str  # embed or solve; a job to solve may embed first
    work: Callable[[BackgroundJob], None]
    tell: Callable[[], None]
    state: str = "running"
    done: int = 0
    total: int = 0
    message: str = ""
    stop: threading.Event = field(default_factory=threading.Event)

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

    def run(self) -> tuple[str, str]:
        """Do the work; return the state and the message in which it ends."""
        try:
            self.at(self.done, self.total)
            self.work(self)
        except Cancelled:
            return "cancelled", ""
        except (ValueError, OSError, ImportError, TypeError) as error:  # their messages say what to do
            message = str(error)
        except sqlite3.Error as error:
            message = f"the result could not be stored ({error}): free some space on the disk, then start this again"
        except MemoryError:
            message = "there is not enough memory for this: close other programs, or take fewer items"
        except Exception as error:
            log.exception("the job %s failed", self.kind)
            message = f"something went wrong that should not ({type(error).__name__}: {error}): please report it"
        else:
            return "done", self.message
        log.warning("the job %s failed: %s", self.kind, message)
        return "failed", message


class Worker:
    """Runs jobs in the order of `submit`. `job` is the one that runs, or the last one."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.job: BackgroundJob | None = None
        self._tell = tell
        self._jobs: list[BackgroundJob] = []  # that are not done; the first one runs
        self._changed = threading.Condition()
        self._queue: SimpleQueue[BackgroundJob | None] = SimpleQueue()
        # A daemon: a program that ends does not wait for a job
        self._thread = threading.Thread(target=self._run, name="handful-worker", daemon=True)
        self._thread.start()

    def submit(self, kind: str, work: Callable[[BackgroundJob], None]) -> BackgroundJob:
        """Put a job at the end of the queue; return it."""
        job = BackgroundJob(kind, work, self._tell)
        with self._changed:
            self._jobs.append(job)
            self.job = self._jobs[0]  # visible at once: a client must not take the state of the last job for this one's
        self._queue.put(job)
        self._tell()
        return job

    def cancel(self) -> None:
        """Stop the running job at its next step, without a result, and all that wait."""
        with self._changed:
            for job in self._jobs:
                job.message = "stopping"
                job.stop.set()
        self._tell()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until no job runs or waits."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs, seconds)

    def close(self) -> None:
        """Cancel the running job and end the thread."""
        self.cancel()
        self._queue.put(None)
        self._thread.join(10)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            self._tell()
            state, message = job.run()
            with self._changed:
                job.message, job.state = message, state
                self._jobs.remove(job)
                self.job = self._jobs[0] if self._jobs else job
                self._changed.notify_all()
            self._tell()
