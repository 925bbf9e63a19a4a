"""Work for several processes: this one, and fresh interpreters at the other ends of pipes.

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
from contextlib import contextmanager, suppress
from typing import Any

from handful.utils.interrupts import cleanup

Work = Callable[..., Iterator[int]]  # a function of a piece of work and arguments that yields as it gets on
REPORTABLE = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError, RuntimeError, LookupError)
DONE = "done"  # with a piece of work
_in_worker = False


class _Started(BaseException):
    """A script that a worker runs has come to where it would start workers of its own."""


def spread(
    pieces: Sequence[Any], function: Work, arguments: tuple[Any, ...], jobs: int, modules: Collection[str]
) -> Iterator[int]:
    """Let `jobs` processes, this one among them, do all pieces of work; yields what they yield as they get on.

    `modules` are those the work needs. While the others start, this one is at work already.
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
    """Processes that end with this, however it ends: some would not look into their pipe for a while."""
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
    """What this process does of the work; None at the end, when only others are left to wait for."""
    with suppress(queue.Empty):
        while True:
            yield from function(todo.get_nowait(), *arguments)
    yield None


def _script() -> tuple[Callable[..., Any], str]:
    """How to run again what this process runs: a file, or a module by `python -m`."""
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:
        return runpy.run_module, main.__spec__.name  # type: ignore[union-attr]
    file = getattr(main, "__file__", None)
    if file is None or not os.path.isfile(file):  # typed, or read from a pipe
        raise ValueError("a method that was registered in an interactive session can only be run with jobs=1")
    return runpy.run_path, file


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Ctrl-C reaches all processes of a terminal, but not those that were started in here: they inherit the mask."""
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
    except Exception as error:  # whatever it is: nobody is to wait for this worker in vain
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        code = process.returncode
        why = f"exit code {code}" + (", killed: out of memory?" if code == -9 else "") if code else repr(error)
        news.put(
            ChildProcessError(
                f"a worker process ended ({why}): what was finished is kept; "
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
                    _say(answer, progress)
            except REPORTABLE as error:
                if isinstance(error, BrokenPipeError):
                    raise
                _say(answer, sayable(error))
            _say(answer, DONE)
    except (EOFError, BrokenPipeError):  # no more work, or nobody to do it for
        os._exit(0)  # no farewell to a pipe that is closed


def sayable(error: Exception) -> Exception:
    """Itself, unless it would not come through a pipe, as exceptions with arguments of their own do not."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _say(pipe: Any, message: Any) -> None:
    """Pickled: both ends are this program, and nothing of a user's file is read as one."""
    pickle.dump(message, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()
