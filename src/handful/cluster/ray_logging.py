"""Keep Ray Data from writing to the terminal, which belongs to the command."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet(data: Any) -> Iterator[None]:
    """Stop the terminal output of Ray Data. Its log files are still written."""
    context = data.DataContext.get_current()
    options = {"enable_progress_bars": False, "print_on_execution_start": False}
    before = {name: getattr(context, name) for name in options if hasattr(context, name)}
    logger = logging.getLogger("ray.data")
    levels = {handler: handler.level for handler in logger.handlers if _is_terminal(handler)}
    try:
        for name in before:
            setattr(context, name, options[name])
        for handler in levels:
            handler.setLevel(logging.CRITICAL + 1)
        with _only_python_on_stderr():
            yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
        for handler, level in levels.items():
            handler.setLevel(level)


@contextmanager
def _only_python_on_stderr() -> Iterator[None]:
    """Let only Python write to stderr. The core of Ray writes there directly, without Python's logging."""
    sys.stderr.flush()
    terminal = os.dup(2)
    before = sys.stderr
    try:
        if _number(before) == 2:  # otherwise the program has redirected it already
            sys.stderr = open(terminal, "w", 1, before.encoding, before.errors, closefd=False)  # noqa: SIM115
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = before
        os.dup2(terminal, 2)
        os.close(terminal)


def _number(stream: Any) -> int | None:
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None


def _is_terminal(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler)
