"""Processes that solve blocks of tasks, each a fresh interpreter at the other end of a pair of pipes.

They are not forks, for the BLAS has threads, and they do not run the caller's script, unless a method was registered
there: then up to the place where it starts workers. So a script needs no guard, and what it imports costs nothing
here. A worker whose conductor is gone, killed even, finds its pipe closed and ends.
"""

from __future__ import annotations

import os
import pickle
import queue
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

Work = Callable[..., Iterator[int]]  # a function of a piece of work and arguments that yields as it gets on
MENDABLE = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError, RuntimeError, LookupError)
DONE = "done"  # with a piece of work
_in_worker = False


class _Started(BaseException):
    """A script that a worker runs has come to where it would start workers of its own."""


def spread(
    pieces: Sequence[Any], function: Work, arguments: tuple[Any, ...], jobs: int, modules: Collection[str]
) -> Iterator[int]:
    """Let `jobs` processes do all pieces of work; yields what they yield. `modules` are those it needs."""
    if _in_worker:
        raise _Started
    script = getattr(sys.modules["__main__"], "__file__", None) if "__main__" in modules else None
    if "__main__" in modules and script is None:
        raise ValueError("a method that was registered in an interactive session can only be run with jobs=1")
    todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
    news: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for piece in pieces:
        todo.put(piece)
    crew = []
    try:
        for _ in range(jobs):
            crew.append(_start())
            threading.Thread(
                target=_conduct, args=(crew[-1], (script, function, arguments), todo, news), daemon=True
            ).start()
        at_work = jobs
        while at_work:
            message = news.get()
            if message is DONE:
                at_work -= 1
            elif isinstance(message, BaseException):
                raise message
            else:
                yield message
    finally:
        for process in crew:
            process.kill()
            process.wait()


def _start() -> subprocess.Popen:
    code = f"import sys; sys.path[:] = {sys.path!r}; from handful.bench.workers import main; main()"
    one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=one_thread)


def _conduct(process: Any, setup: tuple, todo: queue.SimpleQueue, news: queue.SimpleQueue) -> None:
    """Give one worker work until there is no more, and pass on what it says."""
    try:
        with process.stdin, process.stdout:
            _say(process.stdin, setup)
            while True:
                try:
                    piece = todo.get_nowait()
                except queue.Empty:
                    news.put(DONE)
                    return
                _say(process.stdin, piece)
                while (message := pickle.load(process.stdout)) != DONE:
                    news.put(message)
    except (EOFError, OSError, pickle.UnpicklingError):
        news.put(
            RuntimeError(
                f"a worker process ended with exit code {process.wait()} (out of memory?): what was finished is kept; "
                "run the same command again, with fewer jobs if memory is short"
            )
        )


def main() -> None:
    """What a worker does all its life."""
    global _in_worker
    _in_worker = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the conductor hears Ctrl-C, and ends us
    ask, answer = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed from here on goes where people look, not into the pipe
    try:
        script, function, arguments = pickle.load(ask)
        if script:
            with suppress(_Started):
                runpy.run_path(script, run_name="__main__")
        while True:
            piece = pickle.load(ask)
            try:
                for progress in function(piece, *arguments):
                    _say(answer, progress)
            except MENDABLE as error:
                if isinstance(error, BrokenPipeError):
                    raise
                _say(answer, error)
            _say(answer, DONE)
    except (EOFError, BrokenPipeError):  # no more work, or nobody to do it for
        os._exit(0)  # no farewell to a pipe that is closed


def _say(pipe: Any, message: Any) -> None:
    pickle.dump(message, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()
