"""The benchmark on a Ray cluster: one contender on one block of tasks is one Ray task.

The figures come back to this process. Only this process writes, with the same store as a local run. So the machines
need no common folder, each file is written once and whole, and a local run can continue a cluster run, or the other
way round. Drawing tasks is cheap compared with solving them, so the contenders of a block may run on different
machines. When a machine dies, Ray repeats the Ray tasks that ran on it on another machine.
"""

from __future__ import annotations

import socket
import warnings
from collections.abc import Generator, Iterator
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

import handful
from handful.bench.processes import picklable_error
from handful.bench.runner import Figures, Work, solve_cell
from handful.bench.settings import Contender
from handful.bench.store import Block, Store, code_of, modules_of
from handful.cluster.connection import connected
from handful.core.base import Base
from handful.features import Episodes, FeatureTable, Protocol, draw

MAX_TASKS_PER_CPU = 4  # submitted at once: the next task is always ready, and not all of 100,000 blocks are submitted
MAX_RETRIES = 5  # of a task whose worker or machine died; an error of the method is not retried
POLL_S = 1.0  # how often the size of the cluster is checked
CANCEL_GRACE_S = 0.5  # how long tasks that are nearly finished may run before they are cancelled


class CellWork(NamedTuple):
    """One contender on one block, with what must be the same on the machine that solves it."""

    protocol: Protocol
    block: Block
    contender: Contender
    figures: tuple[str, ...]
    features: str  # their fingerprint
    code: str
    modules: tuple[str, ...]
    version: str


class Ray:
    """An engine for `handful.bench.run`: the cluster at `address`, or this machine's cores if None.

    jobs: the largest number of tasks at once; by default the number of CPUs, including those of machines that join
    later. The connection opens when there is something to solve, and closes when the `with` block ends.

        with Ray("auto") as engine:
            run(benchmark, features, None, Store("results"), engine=engine)
    """

    def __init__(self, address: str | None = None, jobs: int | None = None) -> None:
        self.address, self.jobs = address, jobs
        self._connection = ExitStack()
        self._ray: Any = None
        self._closes = False  # whether the end of a `with` block closes the connection and cancels its tasks

    def __enter__(self) -> Ray:
        self._closes = True
        return self

    def __exit__(self, *error: object) -> None:
        self._ray = None
        self._connection.close()

    def __call__(
        self, work: list[Work], features: FeatureTable, base: Base | None, store: Store
    ) -> Generator[int, None, None]:
        """Solve all work and write the figures as they arrive. Yields the number of tasks of each block."""
        if not work:
            return
        _refuse_scripts(work)
        if self._ray is None:
            self._ray = self._connection.enter_context(connected(self.address))
        ray = self._ray
        solve = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_solve)
        references = [ray.put(x) for x in (features.features, features.labels, base)]
        remaining = _cell_work(work, store)
        under_way: dict[Any, tuple[CellWork, str, dict[str, Any]]] = {}
        room, checked_at = self._room(), monotonic()
        try:
            while True:
                if monotonic() - checked_at > POLL_S:
                    room, checked_at = self._room(), monotonic()
                while len(under_way) < room and (next_item := next(remaining, None)):
                    if isinstance(next_item, int):  # another run has solved it in the meantime
                        yield next_item
                    else:
                        under_way[solve.remote(next_item[0], *references)] = next_item
                if not under_way:
                    return
                if ray.wait(list(under_way), timeout=POLL_S)[0]:
                    ready, _ = ray.wait(list(under_way), num_returns=len(under_way), timeout=0)
                    for ref in ready:
                        cell_work, key, about = under_way.pop(ref)
                        store.write(key, about, cell_work.block, self._figures(ref))
                        yield cell_work.block.size
        finally:
            if under_way and not self._closes:
                self._cancel(list(under_way))

    def _cancel(self, refs: list[Any]) -> None:
        """Cancel tasks, after a pause in which those that are nearly finished can end.

        A task that ends while it is being cancelled would end this process too (a check in Ray 2.60 fails).
        """
        for ref in self._ray.wait(refs, num_returns=len(refs), timeout=CANCEL_GRACE_S)[1]:
            with suppress(self._ray.exceptions.RayError):  # it has already ended
                self._ray.cancel(ref, force=True)

    def _room(self) -> int:
        cpus = int(self._ray.cluster_resources().get("CPU", 0))
        if not cpus:
            warnings.warn("the Ray cluster has no CPU: the run waits until a machine joins it", stacklevel=2)
        limit = MAX_TASKS_PER_CPU * cpus or 1
        return min(self.jobs or limit, limit)

    def _figures(self, ref: Any) -> Figures:
        """Return the figures of a task, or raise its error as in a local run."""
        errors = self._ray.exceptions
        try:
            figures: Figures | Exception = self._ray.get(ref)
        except errors.RayTaskError as error:  # the task catches its own errors, so it never started
            why = str(error.cause or error).strip().splitlines()[-1]
            raise ImportError(
                f"a machine of the Ray cluster cannot run handful's tasks ({why}): "
                f"install handful {handful.__version__} there, as it is here"
            ) from None
        except errors.RayError as error:
            why = (str(error).strip().splitlines() or [""])[0].rstrip(".")
            raise ChildProcessError(
                f"a task was lost on the Ray cluster, and not for the first time ({type(error).__name__}: {why}): "
                "finished results are kept; run the same command again, on larger machines if memory is short"
            ) from None
        if isinstance(figures, Exception):
            raise figures
        return figures


def _refuse_scripts(work: list[Work]) -> None:
    """Raise ValueError for a method that other machines cannot import."""
    for method in sorted({contender.method for unit in work for contender, *_ in unit.contenders}):
        if "__main__" in modules_of(method):
            raise ValueError(
                f"method {method!r} was registered in the script itself or in an interactive session, which other "
                "machines do not have: put it into a module that is installed on all of them, or use the local engine"
            )


def _cell_work(work: list[Work], store: Store) -> Iterator[tuple[CellWork, str, dict[str, Any]] | int]:
    """Yield the work with the place of its figures; only the number of tasks if another run has solved them."""
    for unit in work:
        for contender, key, about in unit.contenders:
            if store.read(key, unit.block, unit.figures) is not None:
                yield unit.block.size
                continue
            yield (
                CellWork(
                    unit.protocol, unit.block, contender, unit.figures, about["features"], about["code"],
                    tuple(modules_of(contender.method)), handful.__version__,
                ),
                key,
                about,
            )  # fmt: skip


# Functions that run on the machines of the cluster

_drawn: tuple[Any, Episodes] | None = None  # the last block: the next contender often needs the same one


def _solve(cell_work: CellWork, features: np.ndarray, labels: np.ndarray, base: Base | None) -> Figures | Exception:
    """Return the figures of a contender on a block, or the error: Ray would wrap an error that is raised."""
    try:
        _check_code(cell_work)
        episodes = _draw(cell_work, features, labels)
        return solve_cell(cell_work.contender, episodes, cell_work.figures, base)
    except Exception as error:
        return picklable_error(error)


def _check_code(cell_work: CellWork) -> None:
    """Raise unless this machine has the same code: figures of other code must not be stored."""
    method, machine = cell_work.contender.method, f"{socket.gethostname()}, a machine of the Ray cluster"
    for module in cell_work.modules:
        try:
            import_module(module)  # this registers its methods
        except ImportError as error:
            raise ImportError(
                f"method {method!r} is in the module {module!r}, which cannot be imported on {machine} ({error}): "
                "install it on every machine"
            ) from None
    if _code(method) != cell_work.code:
        raise ValueError(
            f"{method!r} has other code on {machine}, than here (handful {handful.__version__} there, "
            f"{cell_work.version} here): install the same on every machine"
        )


@cache
def _code(method: str) -> str:
    return code_of(method)


def _draw(cell_work: CellWork, features: np.ndarray, labels: np.ndarray) -> Episodes:
    global _drawn
    block, mark = cell_work.block, (cell_work.features, cell_work.protocol, cell_work.block)
    if _drawn is None or _drawn[0] != mark:
        _drawn = None  # so that two blocks are never in memory at once
        tasks = range(block.first, block.last)
        _drawn = mark, draw(features, labels, cell_work.protocol, seed=block.seed, tasks=tasks)
    return _drawn[1]
