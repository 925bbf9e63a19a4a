"""A Ray cluster: one that runs already, or one of this machine's cores for as long as it is needed."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from handful.utils.interrupts import patience

PATIENCE = 10  # seconds for a cluster to answer
SHUTDOWN_S = 20  # seconds after Ctrl-C for a cluster to cancel what it does and to end its processes


def need() -> Any:
    """The `ray` module, or how to get it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")  # and Python's `print` stays what it is
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # one error is raised: the rest are noise
    try:
        import ray
    except ImportError as error:
        raise ImportError("--engine ray needs Ray: pip install 'handful[scale]'") from error
    return ray


@contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """Connect to the cluster at `address` ("auto": the one that runs here), or start one on this machine.

    A connection that is there already is used, and left as it was.
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
            # without an address Ray would join any cluster that it finds running here, another user's too
            ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        else:
            _knock(address)
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


def _knock(address: str) -> None:
    """Raise unless somebody answers at HOST:PORT: Ray itself would try for many minutes, and print a line for each."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(str(error)) from None


@contextmanager
def _silent(ray: Any) -> Iterator[None]:
    """Keep Ray from printing while a machine dies.

    It prints pages on standard output, whatever `log_to_driver` and the level of its log say. Its debugger turns that
    off with this switch. The logs of the cluster have it all.
    """
    worker = ray._private.worker
    before = getattr(worker, "_worker_logs_enabled", True)
    worker._worker_logs_enabled = False
    try:
        yield
    finally:
        worker._worker_logs_enabled = before
