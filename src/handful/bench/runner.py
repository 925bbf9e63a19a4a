"""The runner: every contender on the same tasks, block by block; the number of processes changes no result."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.bench.settings import Benchmark, Cell, Contender
from handful.bench.store import Block, Store, blocks, describe, fingerprint, key_of
from handful.core.base import Base
from handful.core.checks import UNKNOWN
from handful.core.metrics import decision_figures, figures
from handful.features import Episodes, FeatureTable, draw
from handful.features.episodes import check
from handful.methods.registry import METHODS, Method
from handful.solving import get_solver, solve
from handful.solving.solver import needed_base

Figures = dict[str, np.ndarray]
Progress = Callable[[int, int], None]  # called with the number of solved tasks and of all tasks


class BenchmarkBase(NamedTuple):
    """The base with which tasks are solved (at least its mean), and a digest of the data behind that mean."""

    base: Base
    mark: str
    name: str


class Work(NamedTuple):
    """One block of tasks for one contender, and the key and description under which its figures are stored."""

    cell: Cell
    block: Block
    key: str
    about: dict[str, Any]
    figures: tuple[str, ...]


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
    output: Path | str,
    *,
    seeds: int = 1,
    tasks: int = 1000,
    jobs: int = 1,
    progress: Progress = lambda done, total: None,
) -> Results:
    """Solve the tasks whose figures are not stored yet, then read all results.

    Parameters
    ----------
    benchmark : Benchmark
        The cells to fill.
    features : FeatureTable
        Features with labels, from which the tasks are drawn.
    base : FeatureTable or Base, optional
        Features of the base classes, on whose mean methods centre, or a `Base`, which some methods need.
    output : path
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
    features, store = features.labelled(), Store(output)
    base_used = check_data(benchmark, features, base)
    store.open()
    marks = None if base_used is None else base_used.mark, None if base_used is None else base_used.base.mark
    mark, names = fingerprint(features), benchmark.figures
    abouts = {cell: describe(cell, mark, marks[0], names, marks[1]) for cell in benchmark.cells}
    everything = [
        Work(cell, block, key_of(abouts[cell]), abouts[cell], names)
        for block in blocks(seeds, tasks)
        for cell in benchmark.cells
    ]
    stored = [store.read(work.key, work.block, names) for work in everything]
    missing = [work for work, part in zip(everything, stored, strict=True) if part is None]
    total = seeds * tasks * len(benchmark.cells)
    done = total - sum(work.block.size for work in missing)
    progress(done, total)
    solving_base = None if base_used is None else base_used.base
    with closing(
        _all(missing, features, solving_base, store, min(jobs, len(missing)))
    ) as solving:  # after an error too
        for solved in solving:
            done += solved
            progress(done, total)
    parts: dict[tuple[str, str], list[Figures]] = {(cell.column, cell.row): [] for cell in benchmark.cells}
    for work, known in zip(everything, stored, strict=True):
        part = known or store.read(work.key, work.block, names)
        if part is None:
            raise OSError(f"{store.path(work.key, work.block)} is gone or damaged: run the same command again")
        parts[work.cell.column, work.cell.row].append(part)
    gathered = {
        cell: {name: 100 * np.concatenate([part[name] for part in of_cell]) for name in names}
        for cell, of_cell in parts.items()
    }
    return Results(benchmark, gathered, seeds, tasks, features.name, base_used.name if base_used else None)


def check_data(benchmark: Benchmark, features: FeatureTable, base: FeatureTable | Base | None) -> BenchmarkBase | None:
    """Return the base to solve with; ValueError if the benchmark cannot be run on these features."""
    base_used = benchmark_base(base, features)
    for contender in base_dependents(benchmark.contenders.values()):
        if not isinstance(base, Base):
            raise ValueError(
                f"{contender.method} learns from base classes: give --base a base file, which `handful base FEATURES` "
                "makes of features of the backbone's training classes, and `handful train` of a backbone"
            )
        needed_base(get_solver(contender.method), base, base.dimension)
    for protocol in dict.fromkeys(cell.protocol for cell in benchmark.cells):
        check(protocol, features.counts)
    return base_used


def benchmark_base(base: FeatureTable | Base | None, features: FeatureTable) -> BenchmarkBase | None:
    """Return the base of a benchmark: from `base`, or from the base mean that is stored with the features."""
    if isinstance(base, FeatureTable):
        used = BenchmarkBase(Base(base.mean, about={"name": base.name}), fingerprint(base), base.name)
    else:
        if base is None:
            if features.base_mean is None:
                return None
            base = Base(features.base_mean, about={"name": f"{features.name}'s own base mean"})
        mark = f"mean {blake2b(base.mean.data, digest_size=16).hexdigest()}"
        used = BenchmarkBase(base, mark, str(base.about.get("name", "base")))
    if used.base.dimension != features.dimension:
        raise ValueError(
            f"{used.name} has {used.base.dimension} features and {features.name} {features.dimension}: "
            "the base set must come from the same backbone"
        )
    return used


def base_dependents(contenders: Iterable[Contender]) -> list[Contender]:
    """Return the contenders that need a base and have none among their parameters."""
    return [c for c in contenders if get_solver(c.method).info.needs == "base" and c.parameters.get("base") is None]


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
    truth = episodes.truth
    measured = figures(result.probabilities, result.outlier_scores, truth)
    if set(names) - set(measured):
        measured |= decision_figures(result.probabilities, result.unknown, truth)
        share = (truth == UNKNOWN).mean(axis=-1)
        measured["share_error"] = np.asarray(result.outlier_share, np.float64) - share
        interval = getattr(result, "outlier_share_interval", None)  # [B, 2]
        low, high = (np.full_like(share, np.nan),) * 2 if interval is None else np.asarray(interval).T
        measured["covered"] = np.where(np.isnan(low), np.nan, (low <= share) & (share <= high))
    return {name: measured[name] for name in names}
