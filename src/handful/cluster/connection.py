"""The connection to a Ray cluster: one that already runs, or a temporary one on the cores of this machine."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from handful.utils.interrupts import patience

CONNECT_TIMEOUT_S = 10  # how long a cluster may take to answer
SHUTDOWN_S = 20  # after Ctrl-C, how long a cluster may take to cancel its work and to end its processes


def need() -> Any:
    """Return the `ray` module, or raise ImportError with the install command."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray sends no usage statistics
    os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")  # Ray does not replace Python's `print`
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # the first error is raised; the others are not printed
    try:
        import ray
    except ImportError as error:
        raise ImportError("--engine ray needs Ray: pip install 'handful[scale]'") from error
    return ray


@contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """Connect to the cluster at `address` ("auto": the one that runs here), or start one on this machine.

    If there is already a connection, it is used and not closed.
    """
    with patience(SHUTDOWN_S), _connected(need(), address) as ray:
        yield ray


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[Any]:
    if ray.is_initialized():
        yield ray
        return
    try:
        if address is None:
            # Without "local", Ray would join any cluster that runs on this machine, even another user's.
            ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        else:
            _check_reachable(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError) as error:
        raise ConnectionError(
            f"there is no Ray cluster at {address!r} ({str(error).splitlines()[0]}): start one with "
            "`ray start --head`, or leave --address out to use this machine alone"
        ) from None
    with _silent(ray):
        try:
            yield ray
        finally:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise ConnectionError unless HOST:PORT answers. Ray itself would try for minutes and print a line each time."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(str(error)) from None


@contextmanager
def _silent(ray: Any) -> Iterator[None]:
    """Keep Ray from printing while a machine dies.

    Ray prints pages on standard output, whatever `log_to_driver` and the log level are. Its debugger turns the output
    off with this switch. The log files of the cluster still have everything.
    """
    worker = ray._private.worker
    before = getattr(worker, "_worker_logs_enabled", True)
    worker._worker_logs_enabled = False
    try:
        yield
    finally:
        worker._worker_logs_enabled = before
