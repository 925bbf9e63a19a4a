"""Share work among several processes: this one, and new interpreters that are connected by pipes.

The workers are not forks, because the BLAS has threads. They do not run the caller's script. Only if a method was
registered in the script, they run it up to the place where it starts workers. So a script needs no `__main__` guard,
and its imports cost no time in the workers. When the main process ends, even by a kill, the pipes close and the workers
end.
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
from contextlib import contextmanager, suppress
from typing import Any

from handful.utils.interrupts import cleanup

Work = Callable[..., Iterator[int]]  # a function of one unit of work and arguments, which yields its progress
REPORTABLE = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError, RuntimeError, LookupError)
DONE = "done"  # message at the end of a unit of work
_in_worker = False


class _Started(BaseException):
    """Raised in a worker when the script reaches the place where it would start workers."""


def spread(
    pieces: Sequence[Any], function: Work, arguments: tuple[Any, ...], jobs: int, modules: Collection[str]
) -> Iterator[int]:
    """Do all units of work in `jobs` processes, including this one. Yields the progress of all of them.

    `modules` are the modules that the work needs. This process starts to work while the others are starting.
    """
    if _in_worker:
        raise _Started
    script = _script() if "__main__" in modules else None
    todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
    news: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for piece in pieces:
        todo.put(piece)
    with _crew() as crew:
        for _ in range(jobs - 1):
            with _no_interrupt():
                crew.append(_start())
            setup = script, sys.argv, function, arguments
            threading.Thread(target=_conduct, args=(crew[-1], setup, todo, news), daemon=True).start()
        finished = 0
        for progress_here in _work_here(todo, function, arguments):
            if progress_here is not None:
                yield progress_here
            while not news.empty() or (progress_here is None and finished < len(crew)):
                message = news.get()
                if message is DONE:
                    finished += 1
                elif isinstance(message, BaseException):
                    raise message
                else:
                    yield message


@contextmanager
def _crew() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Kill the processes at the end of this block, however it ends: a busy worker would not notice a closed pipe."""
    crew: list[subprocess.Popen[bytes]] = []

    def end() -> None:
        for process in crew:
            process.kill()
            process.wait()

    with cleanup(end):
        try:
            yield crew
        finally:
            end()


def _work_here(todo: queue.SimpleQueue[Any], function: Work, arguments: tuple[Any, ...]) -> Iterator[int | None]:
    """Work in this process and yield the progress; None at the end, when only the others still work."""
    with suppress(queue.Empty):
        while True:
            yield from function(todo.get_nowait(), *arguments)
    yield None


def _script() -> tuple[Callable[..., Any], str]:
    """Return how to run the main script again: as a file, or as a module with `python -m`."""
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:
        return runpy.run_module, main.__spec__.name  # type: ignore[union-attr]
    file = getattr(main, "__file__", None)
    if file is None or not os.path.isfile(file):  # an interactive session, or a script from a pipe
        raise ValueError("a method that was registered in an interactive session can only be run with jobs=1")
    return runpy.run_path, file


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Block Ctrl-C for processes that are started in this block: they inherit the signal mask."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start() -> subprocess.Popen[bytes]:
    code = f"import sys; sys.path[:] = {sys.path!r}; from handful.bench.processes import main; main()"
    one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=one_thread)


def _conduct(process: Any, setup: tuple[Any, ...], todo: queue.SimpleQueue[Any], news: queue.SimpleQueue[Any]) -> None:
    """Send work to one worker until none is left, and pass on its messages."""
    try:
        with process.stdin, process.stdout:
            _send(process.stdin, setup)
            while True:
                try:
                    piece = todo.get_nowait()
                except queue.Empty:
                    news.put(DONE)
                    return
                _send(process.stdin, piece)
                while (message := pickle.load(process.stdout)) != DONE:
                    news.put(message)
    except Exception as error:  # any error must be reported, or the main process would wait forever
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        code = process.returncode
        why = f"exit code {code}" + (", killed: out of memory?" if code == -9 else "") if code else repr(error)
        news.put(
            ChildProcessError(
                f"a worker process ended ({why}): finished results are kept; "
                "run the same command again, with fewer jobs if memory is short"
            )
        )


def main() -> None:
    """Run a worker: read work from stdin until it closes, and write progress to stdout."""
    global _in_worker
    _in_worker = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C and ends the workers
    ask, answer = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text goes to stderr, not into the pipe
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a worker is killed at the end: no flush
    try:
        script, sys.argv[:], function, arguments = pickle.load(ask)
        if script:
            run, where = script
            with suppress(_Started):
                run(where, run_name="__main__", **({"alter_sys": True} if run is runpy.run_module else {}))
        while True:
            piece = pickle.load(ask)
            try:
                for progress in function(piece, *arguments):
                    _send(answer, progress)
            except REPORTABLE as error:
                if isinstance(error, BrokenPipeError):
                    raise
                _send(answer, picklable_error(error))
            _send(answer, DONE)
    except (EOFError, BrokenPipeError):  # no more work, or the main process has ended
        os._exit(0)  # without flushing to a closed pipe


def picklable_error(error: Exception) -> Exception:
    """Return the error, or a RuntimeError with its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _send(pipe: Any, message: Any) -> None:
    """Send a pickled message. Both ends are this program; files of users are never unpickled in this way."""
    pickle.dump(message, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()
