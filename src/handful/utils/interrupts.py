"""Ctrl-C while native code works, which hears nothing of it, and calls that may take only so long.

Python raises KeyboardInterrupt between two steps of its own. A product of matrices, the start of a network or the
end of a pool of threads can keep it from its next step for minutes. So `watched` lets a thread do such work while the
caller waits where Ctrl-C is heard, and `bounded` ends a whole process that has not ended by itself soon after Ctrl-C.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

GRACE_S = 1.5  # seconds after Ctrl-C for a process to end by itself
CLEANUP_S = 0.3  # seconds for what is tidied up before it is ended
POLL_S = 0.2  # seconds: on some systems a wait hears Ctrl-C only when it is over
SHOW_CURSOR = b"\x1b[?25h"
STOPPED = 130  # exit code, as a shell has it: 128 + SIGINT

Value = TypeVar("Value")

_cleanups: dict[object, Callable[[], object]] = {}
_stuck: list[threading.Thread] = []
_grace_s = GRACE_S
_repeated = False
_sentence: Callable[[], str]


# ---- a call


def watched(function: Callable[[], Value], timeout_s: float, stop: Callable[[], object] = lambda: None) -> Value:
    """What `function` returns or raises; it runs in a thread, while the caller waits and hears Ctrl-C.

    Parameters
    ----------
    function : callable
        Native code that takes long; it must let other threads run.
    timeout_s : float
        Seconds it may take.
    stop : callable
        Asks it to end soon. Called when the time is over, and on Ctrl-C.

    Raises
    ------
    TimeoutError
        When the time is over. A function that does not end when it is asked to goes on in its thread: see `leave`.

    Examples
    --------
    >>> watched(lambda: 6 * 7, timeout_s=60)
    42
    """
    outcome: list[Any] = []
    done = threading.Event()

    def work() -> None:
        try:
            outcome.extend((function(), None))
        except BaseException as error:
            outcome.extend((None, error))
        finally:
            done.set()

    thread = threading.Thread(target=work, name="handful-watched", daemon=True)
    try:
        thread.start()
        end = time.monotonic() + timeout_s
        while not done.wait(min(POLL_S, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end:
                raise TimeoutError(f"it takes longer than {timeout_s:g} seconds")
    except BaseException:
        _stuck.append(thread)
        stop()
        done.wait(POLL_S)
        raise
    value: Value
    value, error = outcome
    if error is not None:
        raise error
    return value


def stuck() -> bool:
    """Whether a function that was given up still runs: an ordinary exit would take its ground away, and crash."""
    return any(thread.is_alive() for thread in _stuck)


def leave(code: int) -> None:
    """End the process without waiting for anybody, after what is to be tidied up."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    tidying = threading.Thread(target=_tidy, daemon=True)
    tidying.start()
    tidying.join(CLEANUP_S)
    os._exit(code)


# ---- a process


@contextmanager
def cleanup(function: Callable[[], object]) -> Iterator[None]:
    """Call `function` if the process is ended in here without its `finally` clauses: it kills or removes something."""
    key = object()
    _cleanups[key] = function
    try:
        yield
    finally:
        del _cleanups[key]


@contextmanager
def patience(seconds: float = GRACE_S, *, repeated: bool = False) -> Iterator[None]:
    """In here a process gets so many seconds to end by itself after Ctrl-C.

    repeated: something in here sends the signal again on its own, so that a second one means nothing.
    """
    global _grace_s, _repeated
    before = _grace_s, _repeated
    _grace_s, _repeated = max(seconds, _grace_s), repeated or _repeated
    try:
        yield
    finally:
        _grace_s, _repeated = before


def say_last(sentence: Callable[[], str] = lambda: "Stopped.") -> None:
    """What is said if the process is ended; "": nothing, as it was said already."""
    global _sentence
    _sentence = sentence


say_last()


@contextmanager
def quick() -> Iterator[None]:
    """Ctrl-C in here ends the process at once and without a word: for imports, which have nothing to lose."""
    if not _hears_ctrl_c():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: os._exit(STOPPED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _hears_ctrl_c() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt here, as usual: not in a thread, nor where somebody else handles it."""
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@contextmanager
def bounded() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt in here, as usual; a process that has not ended soon after is ended.

    A second Ctrl-C ends it at once. The thread that does it is woken by the C code of Python's signal handler, so that
    it does not matter what the main thread is doing. After Ctrl-C it stays: what follows can take long, too.
    """
    if not _hears_ctrl_c() or os.name != "posix":
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    hook, sys.unraisablehook = sys.unraisablehook, _without_ctrl_c
    interrupted = threading.Event()
    threading.Thread(target=_watch, args=(reading, interrupted), name="handful-ctrl-c", daemon=True).start()
    try:
        yield
    finally:
        if not interrupted.is_set():
            sys.unraisablehook = hook
            signal.set_wakeup_fd(before)
            os.close(writing)  # which ends the thread


def _without_ctrl_c(unraisable: sys.UnraisableHookArgs) -> None:
    """Where Python cannot raise KeyboardInterrupt, as in a destructor, it would print it; the process ends anyway."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def _watch(reading: int, interrupted: threading.Event) -> None:
    """Wait for Ctrl-C; then until the process has had its time, or for another."""
    while signal.SIGINT not in (signals := os.read(reading, 64)):
        if not signals:
            os.close(reading)
            return
    interrupted.set()
    begun = time.monotonic()
    while (left_s := begun + _grace_s - time.monotonic()) > 0:
        if select.select([reading], [], [], left_s)[0] and os.read(reading, 64).count(signal.SIGINT) and not _repeated:
            break
    with suppress(Exception):
        if sentence := _sentence():
            os.write(2, f"{sentence}\n".encode())
        if sys.stdout.isatty():
            os.write(1, SHOW_CURSOR)  # a bar that moves has hidden it
    leave(STOPPED)


def _tidy() -> None:
    for function in list(_cleanups.values()):
        with suppress(Exception):
            function()
