"""The runner: every contender on the same tasks, block by block, in one or more processes.

The results do not depend on the number of processes: a block is always the same one hundred tasks, and one thread
solves a task.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from handful.bench.base_files import base_dependents, benchmark_base, check_dimension
from handful.bench.processes import spread
from handful.bench.settings import FIGURES, Benchmark, Cell, Contender
from handful.bench.store import Block, Store, blocks, describe, disk_errors_in_words, fingerprint, key_of, modules_of
from handful.core.base import Base
from handful.core.checks import UNKNOWN
from handful.core.metrics import decision_figures, figures
from handful.features import Episodes, FeatureTable, Protocol, draw
from handful.features.episodes import check
from handful.solving import Result, get_solver, solve
from handful.utils.interrupts import cleanup

Figures = dict[str, np.ndarray]
Progress = Callable[[int, int], None]  # called with the number of solved tasks and of all tasks


class Work(NamedTuple):
    """Contenders that must solve one block of tasks, each with the key and description under which it is stored."""

    protocol: Protocol
    block: Block
    contenders: tuple[tuple[Contender, str, dict[str, Any]], ...]
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
    learned: Base | None = None,
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
    learned : Base, optional
        What was learned from `base`, if `base` is a table of features.

    Returns
    -------
    Results
    """
    features = features.labelled()
    base_used = benchmark_base(base, features, learned)
    check_dimension(base_used, features)
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
        Work(protocol, block, tuple((c.contender, keys[c], abouts[c]) for c in cells), benchmark.figures)
        for block in plan
        for protocol, cells in _by_protocol(c for c in benchmark.cells if stored[c, block] is None)
    ]
    total = seeds * tasks * len(benchmark.cells)
    done = total - sum(work.block.size * len(work.contenders) for work in missing)
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


def solve_block(
    work: Work, features: np.ndarray, labels: np.ndarray, base: Base | None, store: Store, threads: int = 1
) -> Iterator[int]:
    """Draw the tasks once, solve them with each contender, write its figures; yield the number of tasks each time."""
    block = work.block
    episodes = draw(features, labels, work.protocol, seed=block.seed, tasks=range(block.first, block.last))
    for contender, key, about in work.contenders:
        if store.read(key, block, work.figures) is None:  # another run may have written it
            store.write(key, about, block, solve_cell(contender, episodes, work.figures, base, threads))
        yield block.size


def solve_cell(
    contender: Contender, episodes: Episodes, names: tuple[str, ...], base: Base | None, threads: int = 1
) -> Figures:
    """Return the figures of one contender on a block of tasks, [tasks] by name."""
    parameters = dict(contender.parameters)
    if base_dependents([contender]):
        parameters["base"] = base
    has_own_base = parameters.get("base") is not None  # then its own mean is used
    if "outlier_share" not in get_solver(contender.method).defaults:
        parameters.setdefault("outlier_share", 0.5)  # its ranking does not depend on the share: no need to estimate it
    result = solve(
        episodes.task,
        method=contender.method,
        base_mean=None if has_own_base or base is None else base.mean,
        threads=threads,
        **parameters,
    )
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


def _by_protocol(cells: Iterable[Cell]) -> list[tuple[Protocol, list[Cell]]]:
    groups: dict[Protocol, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.protocol, []).append(cell)
    return list(groups.items())


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


def _all(
    work: list[Work], features: FeatureTable, base: Base | None, store: Store, jobs: int
) -> Generator[int, None, None]:
    methods = {contender.method for unit in work for contender, *_ in unit.contenders}
    has_kernel = all("backend" in get_solver(method).defaults for method in methods)
    if jobs <= 1 or has_kernel:  # a kernel releases Python's lock: threads are enough, and they start at once
        for unit in work:
            yield from solve_block(unit, features.features, features.need_labels(), base, store, max(1, jobs))
        return
    modules = {module for method in methods for module in modules_of(method)}
    path = store.scratch("features.npy")  # the processes share it through the page cache
    try:
        with disk_errors_in_words(store.folder), open(path, "wb") as file:
            np.save(file, features.features)
        with cleanup(store.tidy):
            yield from spread(work, _solve_block_of, (path, features.labels, base, store), jobs, modules)
    finally:
        store.tidy()


def _solve_block_of(work: Work, path: Path, *arguments: Any) -> Iterator[int]:
    return solve_block(work, _mapped(path), *arguments)


@cache
def _mapped(path: Path) -> np.ndarray:
    mapped: np.ndarray = np.load(path, mmap_mode="r")
    return mapped
