"""The benchmark over a Ray cluster: one contender on one block of tasks is a Ray task.

Its figures come back to this process, and it alone writes, through the store of a local run: the machines need no
folder in common, a file is written once and whole, and runs of either kind go on where the other stopped. Drawing the
tasks is cheap beside solving them, so contenders of a block need not share a machine: slow ones are spread, and a
machine that dies takes one contender's block with it, which Ray gives to another.
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
from handful.bench.processes import sayable
from handful.bench.runner import Figures, Work, solve_cell
from handful.bench.settings import Contender
from handful.bench.store import Block, Store, code_of, modules_of
from handful.cluster.connection import connected
from handful.core.base import Base
from handful.features import Episodes, FeatureTable, Protocol, draw

PER_CPU = 4  # tasks under way: a machine finds the next one waiting, and 100,000 blocks are not all handed out at once
RETRIES = 5  # of a task whose worker or machine died; an error of the method itself is not tried again
GLANCE = 1.0  # seconds between looks at how large the cluster is
GRACE = 0.5  # seconds in which what is nearly done may end


class Piece(NamedTuple):
    """One contender on one block, with what must be the same where it is solved."""

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

    jobs: at most so many tasks at once; else as many as there are CPUs, also of machines that join later. Connected
    when there is something to solve, until the `with` block ends.

        with Ray("auto") as engine:
            run(benchmark, features, None, Store("results"), engine=engine)
    """

    def __init__(self, address: str | None = None, jobs: int | None = None) -> None:
        self.address, self.jobs = address, jobs
        self._connection = ExitStack()
        self._ray: Any = None
        self._closes = False  # the connection, and with it what is under way

    def __enter__(self) -> Ray:
        self._closes = True
        return self

    def __exit__(self, *error: object) -> None:
        self._ray = None
        self._connection.close()

    def __call__(
        self, work: list[Work], features: FeatureTable, base: Base | None, store: Store
    ) -> Generator[int, None, None]:
        """Solve all of it, write the figures as they come; yields the number of tasks each time."""
        if not work:
            return
        _refuse_scripts(work)
        if self._ray is None:
            self._ray = self._connection.enter_context(connected(self.address))
        ray = self._ray
        solve = ray.remote(num_cpus=1, max_retries=RETRIES)(_solve)
        given = [ray.put(x) for x in (features.features, features.labels, base)]
        todo = _pieces(work, store)
        under_way: dict[Any, tuple[Piece, str, dict[str, Any]]] = {}
        room, looked = self._room(), monotonic()
        try:
            while True:
                if monotonic() - looked > GLANCE:
                    room, looked = self._room(), monotonic()
                while len(under_way) < room and (one := next(todo, None)):
                    if isinstance(one, int):  # another run has solved it since
                        yield one
                    else:
                        under_way[solve.remote(one[0], *given)] = one
                if not under_way:
                    return
                if ray.wait(list(under_way), timeout=GLANCE)[0]:
                    ready, _ = ray.wait(list(under_way), num_returns=len(under_way), timeout=0)
                    for ref in ready:
                        piece, key, about = under_way.pop(ref)
                        store.write(key, about, piece.block, self._figures(ref))
                        yield piece.block.size
        finally:
            if under_way and not self._closes:
                self._cancel(list(under_way))

    def _cancel(self, refs: list[Any]) -> None:
        """Cancel tasks, after a pause in which those that are about to end may do so.

        A task that ends while it is cancelled ends this process too (a check in Ray 2.60 fails).
        """
        for ref in self._ray.wait(refs, num_returns=len(refs), timeout=GRACE)[1]:
            with suppress(self._ray.exceptions.RayError):  # it is gone already
                self._ray.cancel(ref, force=True)

    def _room(self) -> int:
        cpus = int(self._ray.cluster_resources().get("CPU", 0))
        if not cpus:
            warnings.warn("the Ray cluster has no CPU: all waits until a machine joins it", stacklevel=2)
        most = PER_CPU * cpus or 1
        return min(self.jobs or most, most)

    def _figures(self, ref: Any) -> Figures:
        """What a task found; what it ran into is raised as in a local run."""
        errors = self._ray.exceptions
        try:
            found: Figures | Exception = self._ray.get(ref)
        except errors.RayTaskError as error:  # the task catches its own: it never began
            why = str(error.cause or error).strip().splitlines()[-1]
            raise ImportError(
                f"a machine of the Ray cluster cannot run handful's tasks ({why}): "
                f"install handful {handful.__version__} there, as it is here"
            ) from None
        except errors.RayError as error:
            why = (str(error).strip().splitlines() or [""])[0].rstrip(".")
            raise ChildProcessError(
                f"a task was lost on the Ray cluster, and not for the first time ({type(error).__name__}: {why}): "
                "what was finished is kept; run the same command again, on larger machines if memory is short"
            ) from None
        if isinstance(found, Exception):
            raise found
        return found


def _refuse_scripts(work: list[Work]) -> None:
    """A method that only this process knows cannot be run elsewhere."""
    for method in sorted({contender.method for each in work for contender, *_ in each.contenders}):
        if "__main__" in modules_of(method):
            raise ValueError(
                f"method {method!r} was registered in the script itself or in an interactive session, which other "
                "machines do not have: put it into a module that is installed on all of them, or use the local engine"
            )


def _pieces(work: list[Work], store: Store) -> Iterator[tuple[Piece, str, dict[str, Any]] | int]:
    """What is to be solved, and where its figures go; the number of tasks where another run was quicker."""
    for each in work:
        for contender, key, about in each.contenders:
            if store.read(key, each.block, each.figures) is not None:
                yield each.block.size
                continue
            yield (
                Piece(
                    each.protocol, each.block, contender, each.figures, about["features"], about["code"],
                    tuple(modules_of(contender.method)), handful.__version__,
                ),
                key,
                about,
            )  # fmt: skip


# On the machines of the cluster

_drawn: tuple[Any, Episodes] | None = None  # the last block: the next contender is often on the same


def _solve(piece: Piece, features: np.ndarray, labels: np.ndarray, base: Base | None) -> Figures | Exception:
    """The figures of a piece. Errors are handed back as what they are, Ray would wrap them."""
    try:
        _check_code(piece)
        episodes = _draw(piece, features, labels)
        return solve_cell(piece.contender, episodes, piece.figures, base)
    except Exception as error:
        return sayable(error)


def _check_code(piece: Piece) -> None:
    """Figures of other code must not be kept as those of this one."""
    method, there = piece.contender.method, f"{socket.gethostname()}, a machine of the Ray cluster"
    for module in piece.modules:
        try:
            import_module(module)  # registers what it has
        except ImportError as error:
            raise ImportError(
                f"method {method!r} is in the module {module!r}, which cannot be imported on {there} ({error}): "
                "install it on every machine"
            ) from None
    if _code(method) != piece.code:
        raise ValueError(
            f"{method!r} is other code on {there}, than here (handful {handful.__version__} there, {piece.version} "
            "here): install the same on every machine"
        )


@cache
def _code(method: str) -> str:
    return code_of(method)


def _draw(piece: Piece, features: np.ndarray, labels: np.ndarray) -> Episodes:
    global _drawn
    block, mark = piece.block, (piece.features, piece.protocol, piece.block)
    if _drawn is None or _drawn[0] != mark:
        _drawn = None  # not two at once in memory
        tasks = range(block.first, block.last)
        _drawn = mark, draw(features, labels, piece.protocol, seed=block.seed, tasks=tasks)
    return _drawn[1]
