"""Ctrl-C while native code runs.

Python raises KeyboardInterrupt only between two of its own instructions, and a matrix product or the end of a thread
pool can delay the next one for minutes. So `bounded` ends a process that has not ended by itself soon after Ctrl-C.
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

GRACE_S = 1.5  # after Ctrl-C, how long a process may take to end by itself
CLEANUP_S = 0.3  # how long the cleanup may take before the process is ended
SHOW_CURSOR = b"\x1b[?25h"
STOPPED = 130  # exit code of an interrupted program, as in shells: 128 + SIGINT

_cleanups: dict[object, Callable[[], object]] = {}
_grace_s = GRACE_S
_repeated = False
_sentence = "Stopped."


@contextmanager
def cleanup(function: Callable[[], object]) -> Iterator[None]:
    """Within this block, call `function` if the process is ended without running its `finally` clauses."""
    key = object()
    _cleanups[key] = function
    try:
        yield
    finally:
        del _cleanups[key]


@contextmanager
def patience(seconds: float = GRACE_S, *, repeated: bool = False) -> Iterator[None]:
    """A process gets this many seconds to end by itself; `repeated`: code in this block sends the signal again."""
    global _grace_s, _repeated
    before = _grace_s, _repeated
    _grace_s, _repeated = max(seconds, _grace_s), repeated or _repeated
    try:
        yield
    finally:
        _grace_s, _repeated = before


def say_last(sentence: str) -> None:
    """Set the message to print when the process is ended; "" prints nothing."""
    global _sentence
    _sentence = sentence


@contextmanager
def quick() -> Iterator[None]:
    """Within this block, Ctrl-C ends the process at once and silently. For imports, which have nothing to lose."""
    if not _hears_ctrl_c():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: os._exit(STOPPED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _hears_ctrl_c() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt here: only in the main thread, with Python's own handler."""
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@contextmanager
def bounded() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt; a process that does not end soon after, or on a second one, is ended."""
    if not _hears_ctrl_c() or os.name != "posix":
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    interrupted = threading.Event()
    threading.Thread(target=_watch, args=(reading, interrupted), name="handful-ctrl-c", daemon=True).start()
    try:
        yield
    finally:
        if not interrupted.is_set():
            signal.set_wakeup_fd(before)
            os.close(writing)  # which ends the thread


def _watch(reading: int, interrupted: threading.Event) -> None:
    """Wait for Ctrl-C, then for the end of the grace period or for a second Ctrl-C, and end the process."""
    while signal.SIGINT not in (signals := os.read(reading, 64)):
        if not signals:
            os.close(reading)
            return
    interrupted.set()
    sys.unraisablehook = lambda unraisable: None  # a KeyboardInterrupt in a destructor: the process ends anyway
    begun = time.monotonic()
    while (left_s := begun + _grace_s - time.monotonic()) > 0:
        if select.select([reading], [], [], left_s)[0] and os.read(reading, 64).count(signal.SIGINT) and not _repeated:
            break
    with suppress(Exception):
        if _sentence:
            os.write(2, f"{_sentence}\n".encode())
        if sys.stdout.isatty():
            os.write(1, SHOW_CURSOR)  # a progress bar may have hidden it
        sys.stdout.flush()
        sys.stderr.flush()
    tidying = threading.Thread(target=_tidy, daemon=True)
    tidying.start()
    tidying.join(CLEANUP_S)
    os._exit(STOPPED)


def _tidy() -> None:
    for function in list(_cleanups.values()):
        with suppress(Exception):
            function()
