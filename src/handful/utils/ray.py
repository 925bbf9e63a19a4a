"""Work on the machines of a Ray cluster (extra `scale`), by Ray Data.

A `Worker` is made once on each core and does one row of work after the other. Ray starts it again when it dies, alone
or with its machine, and gives its row to another one. So a worker writes its results whole or not at all, and the
driver only counts.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from handful.utils.interrupts import patience
from handful.utils.threads import one_blas_thread

CONNECT_TIMEOUT_S = 10  # how long a cluster may take to answer
SHUTDOWN_S = 20  # after Ctrl-C, how long a cluster may take to cancel its work and to end its processes
DATA = "data"  # the entry of a worker's answer that is bytes; the others are JSON
Row = dict[str, Any]


class Worker:
    """What is done with one row of work: subclasses define `work`. On this machine it is called as it is."""

    def work(self, row: Row) -> Row:
        """Do the work of one row; the answer is what JSON can hold, and bytes under `DATA`."""
        raise NotImplementedError

    def __call__(self, row: Row) -> Row:
        """On Ray: the answer as columns of a table, or the error that a user can repair."""
        try:
            with one_blas_thread():
                answer = self.work(row)
        except (ValueError, OSError, ImportError) as error:
            kind = next(kind for kind in _ERRORS if isinstance(error, _ERRORS[kind]))
            machine = need().util.get_node_ip_address()
            answer = {"error": f"{error} (on {machine})", "kind": kind}
        data = answer.pop(DATA, b"")
        return {"answer": json.dumps(answer), DATA: data}


_ERRORS: dict[str, type[Exception]] = {"system": OSError, "import": ImportError, "value": ValueError}


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


def map_on_ray(
    worker: type[Worker],
    arguments: tuple[Any, ...],
    rows: Sequence[Row],
    *,
    address: str | None = None,
    until: ExitStack | None = None,
) -> Generator[Row, None, None]:
    """Yield the answer of `worker(*arguments)` for each row as they finish; `until` keeps the connection."""
    need()
    data = _quiet_data()
    if not rows:
        return
    with ExitStack() as own_stack, _only_python_on_stderr():
        ray = (own_stack if until is None else until).enter_context(connected(address))
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        pool = data.ActorPoolStrategy(min_size=1, max_size=len(rows), initial_size=min(cores, len(rows)))
        maker: Any = worker  # Ray Data creates the object inside the actor
        answers = data.from_items(list(rows), override_num_blocks=len(rows)).map(
            maker, fn_constructor_args=arguments, compute=pool, num_cpus=1
        )
        try:
            for batch in answers.iter_batches(batch_size=None, prefetch_batches=0):
                for text, content in zip(batch["answer"], batch[DATA], strict=True):
                    answer = json.loads(text)
                    if "error" in answer:
                        raise _ERRORS[answer["kind"]](answer["error"])
                    yield {**answer, DATA: content}
        except ray.exceptions.RayActorError as error:
            if missing := re.search(r"No module named '[\w.]+'", str(error)):
                raise ImportError(
                    f"a machine of the cluster reports: {missing[0]}. Install handful on all of them, in the same "
                    "version and with the same extras"
                ) from None
            raise


@contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """Connect to the cluster at `address` ("auto": the one that runs here), or start one; one that is open is used."""
    ray = need()
    if ray.is_initialized():
        yield ray
        return
    with patience(SHUTDOWN_S):
        try:
            if address is not None:
                _check_reachable(address)
            # Without "local", Ray would join any cluster that runs on this machine, even another user's.
            own = {"address": "local", "include_dashboard": False} if address is None else {"address": address}
            ray.init(**own, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError) as error:
            raise ConnectionError(
                f"there is no Ray cluster at {address!r} ({str(error).splitlines()[0]}): start one with "
                "`ray start --head`, or give --engine ray to use this machine alone"
            ) from None
        worker = ray._private.worker  # its debugger's switch: else it prints pages on stdout while a machine dies
        before = getattr(worker, "_worker_logs_enabled", True)
        worker._worker_logs_enabled = False
        try:
            yield ray
        finally:
            ray.shutdown()
            worker._worker_logs_enabled = before


def _check_reachable(address: str) -> None:
    """Raise ConnectionError unless HOST:PORT answers. Ray itself would try for minutes and print a line each time."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(str(error)) from None


def _quiet_data() -> Any:
    """Return Ray Data, which does not write to the terminal: that belongs to the command."""
    try:
        from ray import data
    except ImportError as error:  # Ray can be installed without the dependencies of Ray Data
        raise ImportError(f"--engine ray needs Ray Data: pip install 'handful[scale]' ({error})") from error
    context = data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    for handler in logging.getLogger("ray.data").handlers:
        if isinstance(handler, logging.StreamHandler):  # its log files are still written
            handler.setLevel(logging.CRITICAL + 1)
    return data


@contextmanager
def _only_python_on_stderr() -> Iterator[None]:
    """Let only Python write to stderr. The core of Ray writes there directly, without Python's logging."""
    before, terminal = sys.stderr, os.dup(2)
    try:
        if before is sys.__stderr__:  # otherwise the program has redirected it already
            sys.stderr = open(terminal, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = before
        os.dup2(terminal, 2)
        os.close(terminal)
