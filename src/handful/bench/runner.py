"""The runner: every contender on the same tasks, block by block, in one or more processes.

The results do not depend on the number of processes: a block is always the same one hundred tasks, and one thread
solves a task. joblib starts the processes. They do not run the caller's script, so it needs no `__main__` guard. The
methods that it registered are sent to them.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from handful.bench.base_files import base_dependents, benchmark_base, check_base, check_dimension
from handful.bench.settings import FIGURES, Benchmark, Cell
from handful.bench.store import Block, Store, blocks, describe, fingerprint, key_of
from handful.core.base import Base
from handful.core.checks import UNKNOWN
from handful.core.metrics import decision_figures, figures
from handful.features import Episodes, FeatureTable, draw
from handful.features.episodes import check
from handful.methods.registry import METHODS, Method
from handful.solving import Result, get_solver, solve

Figures = dict[str, np.ndarray]
Progress = Callable[[int, int], None]  # called with the number of solved tasks and of all tasks


class Work(NamedTuple):
    """One block of tasks for one contender, and the key and description under which its figures are stored."""

    cell: Cell
    block: Block
    key: str
    about: dict[str, Any]
    figures: tuple[str, ...] = FIGURES


@dataclass(frozen=True)
class Results:
    """The figures of every cell, in percent.

    Parameters
    ----------
    benchmark : Benchmark
        What was solved.
    figures : dict
        By (column, row): arrays [seeds * tasks] by the name of the figure, tasks in order. `results[column, row]`
        is the same.
    seeds : int
        How many seeds there are.
    tasks : int
        How many tasks each seed has.
    features : str
        The name of the feature table.
    base : str or None
        The name of the base classes.
    """

    benchmark: Benchmark
    figures: dict[tuple[str, str], Figures]  # by column and row
    seeds: int
    tasks: int
    features: str
    base: str | None

    def __getitem__(self, cell: tuple[str, str]) -> Figures:
        return self.figures[cell]


def run(
    benchmark: Benchmark,
    features: FeatureTable,
    base: FeatureTable | Base | None,
    store: Store,
    *,
    seeds: int = 1,
    tasks: int = 1000,
    jobs: int = 1,
    progress: Progress = lambda done, total: None,
) -> Results:
    """Solve the tasks that the store does not hold yet, then read all results.

    Parameters
    ----------
    benchmark : Benchmark
        The cells to fill.
    features : FeatureTable
        Features with labels, from which the tasks are drawn.
    base : FeatureTable or Base, optional
        Features of the base classes, on whose mean methods centre, or a `Base`, which some methods need.
    store : Store
        The folder of the results.
    seeds, tasks : int
        The number of seeds, and of tasks of each seed.
    jobs : int
        The number of processes.
    progress : callable
        Called with the number of solved tasks and the number of all tasks.

    Returns
    -------
    Results
    """
    features = features.labelled()
    base_used = benchmark_base(base, features)
    check_dimension(base_used, features)
    check_base(base, benchmark.contenders.values())
    for protocol in dict.fromkeys(cell.protocol for cell in benchmark.cells):
        check(protocol, features.counts)
    store.open()
    mark, base_mark, whole = (
        fingerprint(features),
        base_used.mark if base_used else None,
        base_used.base.mark if base_used else None,
    )
    abouts = {cell: describe(cell, mark, base_mark, benchmark.figures, whole) for cell in benchmark.cells}
    keys = {cell: key_of(about) for cell, about in abouts.items()}
    plan = blocks(seeds, tasks)
    stored = {(cell, b): store.read(keys[cell], b, benchmark.figures) for cell in benchmark.cells for b in plan}
    missing = [
        Work(cell, block, keys[cell], abouts[cell], benchmark.figures)
        for block in plan
        for cell in benchmark.cells
        if stored[cell, block] is None
    ]
    total = seeds * tasks * len(benchmark.cells)
    done = total - sum(work.block.size for work in missing)
    progress(done, total)
    solving_base = base_used.base if base_used else None
    solving = _all(missing, features, solving_base, store, min(jobs, len(missing)))
    with closing(solving):  # also after an error
        for solved in solving:
            done += solved
            progress(done, total)
    return Results(
        benchmark, _gather(stored, benchmark, plan, keys, store), seeds, tasks,
        features.name, base_used.name if base_used else None,
    )  # fmt: skip


def _all(
    work: list[Work], features: FeatureTable, base: Base | None, store: Store, jobs: int
) -> Generator[int, None, None]:
    """Solve all of it; yield the number of tasks after each block."""
    solvers = [get_solver(name) for name in {one.cell.contender.method for one in work}]
    methods = {method.info.name: method for solver in solvers for method in solver.parts.values()}
    arrays = features.features, features.need_labels()
    has_kernel = all("backend" in solver.defaults for solver in solvers)
    if jobs <= 1 or has_kernel:  # a compiled kernel releases the GIL: threads are enough, and they start at once
        for one in work:
            yield solve_block(one, *arrays, base, store, threads=max(1, jobs))
        return
    from joblib import Parallel, delayed, parallel_config

    try:
        with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
            parallel = Parallel(return_as="generator_unordered", batch_size=1)
            yield from parallel(
                delayed(_solve_in_worker)(one, *arrays, base, store, methods, os.getpid()) for one in work
            )
    except RuntimeError as error:
        if type(error).__name__ != "TerminatedWorkerError":  # of joblib
            raise
        raise ChildProcessError(
            "a worker process ended (killed: out of memory?): finished results are kept; run the same command again, "
            "with fewer jobs if memory is short"
        ) from None
    finally:
        store.tidy()


def _solve_in_worker(
    work: Work,
    features: np.ndarray,
    labels: np.ndarray,
    base: Base | None,
    store: Store,
    methods: Mapping[str, Method],
    parent: int,
) -> int:
    """As `solve_block`, with the methods of the main process."""
    for name, method in methods.items():
        METHODS.setdefault(name, method)
    if not any(thread.name == "handful-parent" for thread in threading.enumerate()):
        threading.Thread(target=_end_after, args=(parent,), name="handful-parent", daemon=True).start()
    try:
        return solve_block(work, features, labels, base, store)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # it cannot come through a pipe
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
        raise


def _end_after(parent: int) -> None:
    """End this process when its parent has ended, even by a kill."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def solve_block(
    work: Work, features: np.ndarray, labels: np.ndarray, base: Base | None, store: Store, threads: int = 1
) -> int:
    """Draw the tasks, solve them and write the figures; return the number of tasks."""
    cell, block = work.cell, work.block
    if store.read(work.key, block, work.figures) is None:  # another run may have written it
        episodes = draw(features, labels, cell.protocol, seed=block.seed, tasks=range(block.first, block.last))
        store.write(work.key, work.about, block, solve_cell(cell, episodes, work.figures, base, threads))
    return block.size


def solve_cell(cell: Cell, episodes: Episodes, names: tuple[str, ...], base: Base | None, threads: int = 1) -> Figures:
    """Return the figures of one contender on a block of tasks, [tasks] by name."""
    contender = cell.contender
    parameters = dict(contender.parameters)
    if base_dependents([contender]):
        parameters["base"] = base
    has_own_base = parameters.get("base") is not None  # then its own mean is used
    if "outlier_share" not in get_solver(contender.method).defaults:
        parameters.setdefault("outlier_share", 0.5)  # its ranking does not depend on the share: no need to estimate it
    base_mean = None if has_own_base or base is None else base.mean
    result = solve(episodes.task, method=contender.method, base_mean=base_mean, threads=threads, **parameters)
    return measure(result, episodes.truth, names)


def measure(result: Result, truth: np.ndarray, names: tuple[str, ...]) -> Figures:
    """Return the figures with these names, [B] each: of the paper, of the decisions, and of the share of unknowns.

    share_error: the share that the method used minus the true share. covered: whether its interval, if it gives one,
    contains the true share.
    """
    measured = figures(result.probabilities, result.outlier_scores, truth)
    if set(names) - set(measured):
        measured |= decision_figures(result.probabilities, result.unknown, truth)
        share = (truth == UNKNOWN).mean(axis=-1)
        measured["share_error"] = np.asarray(result.outlier_share, np.float64) - share
        interval = getattr(result, "outlier_share_interval", None)  # [B, 2]
        low, high = (np.full_like(share, np.nan),) * 2 if interval is None else np.asarray(interval).T
        measured["covered"] = np.where(np.isnan(low), np.nan, (low <= share) & (share <= high))
    return {name: measured[name] for name in names}


def _gather(
    stored: Mapping[Any, Figures | None],
    benchmark: Benchmark,
    plan: list[Block],
    keys: Mapping[Cell, str],
    store: Store,
) -> dict[tuple[str, str], Figures]:
    gathered = {}
    for cell in benchmark.cells:
        parts = []
        for block in plan:
            part = stored[cell, block] or store.read(keys[cell], block, benchmark.figures)
            if part is None:
                raise OSError(f"{store.path(keys[cell], block)} is gone or damaged: run the same command again")
            parts.append(part)
        gathered[cell.column, cell.row] = {
            name: 100 * np.concatenate([part[name] for part in parts]) for name in benchmark.figures
        }
    return gathered
