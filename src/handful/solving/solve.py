"""From a task to a result: prepare, solve, decide.

A batch is cut into chunks of tasks that stay near a core while they are prepared, solved and finished, and the
chunks are spread over threads. Every step is independent between tasks, so the cut changes nothing but the speed.
A pile that is too large to be copied is scored block by block (`handful.solving.blocks`).
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from os import PathLike
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from handful.core import decide
from handful.core.arrays import Array, as_like, to_numpy
from handful.core.base import Base
from handful.core.parameters import AUTO, Number, OneOf, OrAuto, Rule, check, is_auto
from handful.core.prepare import parse
from handful.core.task import Task, is_large_pile
from handful.engines.share import of_task as share_of_unknowns
from handful.methods.registry import Solution
from handful.solving.result import Result
from handful.solving.solver import Call, Solver, get_solver, needed_base
from handful.utils.threads import available_threads, one_blas_thread
from handful.utils.version import __version__

CHUNK_BYTES = 2 << 20, 8 << 20  # features in a chunk of tasks: enough for a thread of its own, and still near its core
CHUNK_TASKS = 256  # tasks in a chunk at most: a kernel is not interrupted, and Ctrl-C should not wait long
FEW_SHOTS = 5**0.5  # below this mean number of examples per class the defaults for 1 shot are used, else those for 5
OPTIONS: dict[str, Rule] = {
    "dtype": OneOf(("float32", "float64")),
    "threshold": Number(optional=True),
    "threads": Number(1, closed=True, whole=True, optional=True),
    "outlier_share": OrAuto(0, 1, each_task=True),
}


def solve(
    support: Any,
    labels: Any = None,
    query: Any = None,
    *,
    unknown: Any = None,
    method: str = AUTO,
    outlier_share: Any = AUTO,
    base_mean: Any = None,
    preparation: Sequence[str] | str | None = None,
    dtype: str = "float32",
    threshold: float | None = None,
    threads: int | None = None,
    **parameters: Any,
) -> Result:
    """Label the query items of one task, or of a batch of tasks, and find those of no known class.

    Parameters
    ----------
    support : array [S, D] or [B, S, D], or Task
        Features of the examples: NumPy arrays, lists, pandas or polars frames, torch tensors. Columns of frames are
        matched by their names, if all of these are strings. Or a `handful.Task`, which holds everything: then it is
        the only positional argument.
    labels : array [S] or [B, S]
        The class of each example: integers or strings.
    query : array [Q, D] or [B, Q, D]
        Features of the pile. From a memory-mapped array, or one of 256 MB or more, the method learns by a sample of
        10,000 rows, and all rows are scored block by block.
    unknown : array [U, D] or [B, U, D], optional
        Features of examples that belong to none of the classes. A handful of them help more than knowing the share.
    method : str
        A name of `list_methods()`, or a pair as in "simpleshot+knn". "auto" is the method that was best where nothing
        is known of the pile.
    outlier_share : float, array [B] or "auto"
        How much of the pile is unknown, between 0 and 1. "auto" estimates it from the task: see
        `Result.outlier_share`.
    base_mean : array [D], optional
        Mean feature of the backbone's training set, for methods that centre on it. Without it they centre on the mean
        of the task.
    preparation : str or sequence of str, optional
        Steps of preparation in place of the method's own, as in "task, l2".
    dtype : {"float32", "float64"}
        What to compute in.
    threshold : float, optional
        The doubt (`Answers.doubts`) above which an item is unknown, in place of the default.
    threads : int, optional
        How many threads to use at most; by default one for each core.
    **parameters
        Parameters of the method: `help(handful.EOL)` explains those of EOL. Methods that learn from base classes take
        `base`, a `handful.methods.Base` or the path of its file, and centre on its mean.

    Returns
    -------
    Result
        The answers for all items: labels, P(unknown), confidence, groups of unknowns.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cats, dogs, hens = (rng.normal(scale=0.3, size=(20, 8)) + 2 * np.eye(8)[k] for k in range(3))
    >>> support, labels = np.concatenate([cats[:5], dogs[:5]]), ["cat"] * 5 + ["dog"] * 5
    >>> result = solve(support, labels, np.concatenate([cats[5:], dogs[5:], hens]))
    >>> [str(result.labels[i]) for i in (0, 15, 30)]
    ['cat', 'dog', 'unknown']
    >>> solve(Task(support, labels, hens), method="simpleshot").closest.shape
    (20,)
    """
    task = _task(support, labels, query, unknown, parameters)
    solver = get_solver(method)
    check({"dtype": dtype, "threshold": threshold, "threads": threads}, OPTIONS, "solve")
    if "outlier_share" in solver.defaults:
        parameters = {"outlier_share": outlier_share, **parameters}
    else:
        check({"outlier_share": outlier_share}, OPTIONS, "solve")
        _check_each(solver, {"outlier_share": outlier_share}, task.batch)
    parameters = complete(solver, parameters, task)
    if solver.info.needs == "base":
        base = parameters["base"] = needed_base(solver, parameters["base"], task.support.shape[-1])
        base_mean = base.mean if base_mean is None else base_mean
    steps = None if preparation is None else parse(preparation)
    ranks = threshold is None and solver.info.score == "rank" and is_auto(outlier_share)  # the share decides
    call = Call(parameters, steps, base_mean, dtype, threads, estimates_share=ranks)
    in_blocks = task.is_large and _can_be_sampled(task.query[0], parameters)
    solution = (_solve_large if in_blocks else _solve_chunks)(solver, task, call)
    if threshold is not None:
        limits = as_like(np.full(task.batch, threshold), solution.outlier_scores)
    elif solution.threshold is not None and is_auto(outlier_share):
        limits = solution.threshold
    else:
        share = solution.outlier_share if ranks else outlier_share
        limits = decide.threshold(solution.outlier_scores, solver.info.score, share)
    shares = solution.outlier_share
    if shares is None:
        is_unknown = to_numpy(solution.outlier_scores > limits[:, None])
        shares = is_unknown.sum(axis=1) / max(1, is_unknown.shape[1])
    made_by = {
        "method": solver.name,
        "score": solver.info.score,
        "parameters": {name: repr(v) if isinstance(v, Base) else v for name, v in parameters.items()},
        "preparation": [name.split(".")[-1] for name in solution.state if "prepare." in name],
        "dtype": dtype,
        "steps": solution.n_iter,
        "versions": versions(),
    }
    solution = replace(solution, threshold=limits, outlier_share=np.broadcast_to(shares, (task.batch,)))
    return Result(solution.of_task(0) if task.single else solution, task, made_by)


def _task(support: Any, labels: Any, query: Any, unknown: Any, parameters: Mapping[str, Any]) -> Task:
    if isinstance(support, Task):
        if labels is not None or query is not None or unknown is not None:
            raise TypeError("support is a Task, which holds labels and queries already: call handful.solve(task)")
        return support
    if isinstance(query, str | PathLike):
        raise TypeError(
            f"query is the path {str(query)!r}: give an array, as np.load(path, mmap_mode='r') reads it, or label a "
            "folder of Parquet parts by `handful label`"
        )
    if is_large_pile(query) and _can_be_sampled(query, parameters):
        return Task.with_large_pile(support, labels, query, unknown)
    query = np.asarray(query) if isinstance(query, np.memmap) else query  # of a small pile all is read
    return Task(support, labels, query, unknown=unknown)


def _can_be_sampled(query: np.ndarray, parameters: Mapping[str, Any]) -> bool:
    """Whether a large pile [Q, D] is scored by what was learned from a sample: not what only the whole pile has."""
    from handful.solving.blocks import SAMPLE_ROWS  # most calls do not need it, and it reads files

    whole = parameters.get("history") or parameters.get("arrivals") or parameters.get("backend", AUTO) != AUTO
    return len(query) > SAMPLE_ROWS and not whole


def solve_each(tasks: Iterable[Task], *, method: str = AUTO, **options: Any) -> list[Result]:
    """Solve single tasks of any shapes. Tasks of one shape are solved together, none is padded.

    Parameters
    ----------
    tasks : iterable of Task
        Single tasks, not batches.
    method : str
        As in `solve`.
    **options
        As in `solve`; a parameter that may differ from task to task takes one value for each task.

    Returns
    -------
    list of Result
        In the order of the tasks.
    """
    tasks = list(tasks)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, task in enumerate(tasks):
        if not isinstance(task, Task):
            raise TypeError(f"task {i} is a {type(task).__name__}: make a handful.Task(support, labels, query) of it")
        if not task.single:
            raise ValueError(f"task {i} is a batch of {task.batch} tasks: call handful.solve on it")
        shape = (tuple(task.support.shape), tuple(task.query.shape), tuple(task.unknown.shape), task.ways)
        kind = (str(task.support.dtype), task.classes.dtype.kind)  # ints and strings would become strings together
        groups.setdefault(shape + kind, []).append(i)
    solver = get_solver(method)
    each = {name: value for name, value in options.items() if _is_each_task(solver, name, value)}
    _check_each(solver, each, len(tasks))
    results: dict[int, Result] = {}
    for members in groups.values():
        own = {name: [value[i] for i in members] for name, value in each.items()}
        solved = solve(Task.stack([tasks[i] for i in members]), method=method, **(options | own))
        results |= {i: solved[k] for k, i in enumerate(members)}
    return [results[i] for i in range(len(tasks))]


def complete(solver: Solver, parameters: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """`parameters` checked, with the method's defaults for those not given and for None where shots decide."""
    unknown = sorted(set(parameters) - set(solver.defaults))
    if unknown:
        raise TypeError(
            f"{solver.name} has no parameter {unknown[0]!r}; it has: {', '.join(solver.defaults) or 'none'}"
        )
    _check_each(solver, parameters, task.batch)
    whole, shots = {**solver.defaults, **parameters}, "1" if task.shots.mean() < FEW_SHOTS else "5"
    return whole | {name: values[shots] for name, values in solver.info.by_shots.items() if whole[name] is None}


def _check_each(solver: Solver, parameters: Mapping[str, Any], batch: int) -> None:
    check(parameters, solver.rules, solver.name)
    for name, value in parameters.items():
        if _is_each_task(solver, name, value) and len(value) != batch:
            raise ValueError(f"{name} has {len(value)} values for {batch} tasks: give one, or one for each task")


def _solve_large(solver: Solver, task: Task, call: Call) -> Solution:
    """Solve a sample of a pile, and score all of it in blocks: a memory-mapped one is never in memory as a whole."""
    from handful.solving import blocks

    pile = task.query[0]
    rows = blocks.sample_rows(len(pile))
    sampled = Task(task.support[0], task.all_classes[0][task.labels[0]], pile[rows], unknown=task.unknown[0])
    solution = _solve_chunks(solver, sampled, call)

    def score(start: int) -> tuple[Array, Array]:
        items = blocks.checked(np.asarray(pile[start : start + blocks.BLOCK_ROWS]), start)
        return solver.score(solution.state, items[None], call.dtype, call.parameters)

    with ThreadPoolExecutor(call.threads or available_threads()) as pool, one_blas_thread():
        scored = list(pool.map(score, range(0, len(pile), blocks.BLOCK_ROWS)))
    probabilities, scores = (np.concatenate(arrays, axis=1) for arrays in zip(*scored, strict=True))
    return replace(solution, probabilities=probabilities, outlier_scores=scores)


def _solve_chunks(solver: Solver, task: Task, call: Call) -> Solution:
    """Solve a batch, chunk by chunk."""
    workers, factor = call.threads or available_threads(), solver.classifier.chunk_factor
    slices = _chunks(task, factor, workers) if is_numpy_array(task.query) else [slice(0, task.batch)]
    workers = min(workers, len(slices))

    def one(part: slice) -> Solution:
        own = {k: np.asarray(v)[part] if _is_each_task(solver, k, v) else v for k, v in call.parameters.items()}
        chunk = task[part]
        solution = solver.run(chunk, replace(call, parameters=own))
        if call.estimates_share and solution.threshold is None:
            shares = share_of_unknowns(chunk.support, chunk.labels, chunk.query, chunk.unknown)
            solution.outlier_share, solution.share_interval = shares.estimate, shares.interval
            solution.share_posterior = shares.above
        return solution

    if workers == 1:
        with one_blas_thread() if call.threads == 1 else nullcontext():
            parts = [one(part) for part in slices]
    else:
        with ThreadPoolExecutor(workers) as pool, one_blas_thread():
            parts = list(pool.map(one, slices))
    return Solution.join(parts)


def _chunks(task: Task, factor: float, workers: int) -> list[slice]:
    """Equal chunks of a batch within their limits, as many as the workers share evenly."""
    least, most = (max(1, int(size * part)) for size, part in zip(CHUNK_BYTES, (min(1, factor), factor), strict=True))
    total = task.support.nbytes + task.query.nbytes
    count = max(-(-total // most), -(-task.batch // CHUNK_TASKS), min(workers, total // least), 1)
    if count > 1:
        count = -(-count // workers) * workers
    size = -(-task.batch // min(count, task.batch))
    return [slice(i, i + size) for i in range(0, task.batch, size)]


def _is_each_task(solver: Solver, name: str, value: Any) -> bool:
    return getattr(solver.rules.get(name, OPTIONS.get(name)), "each_task", False) and np.ndim(value) == 1


@cache
def versions() -> dict[str, str]:
    """What a result was made with."""
    return {"handful": __version__, "numpy": np.__version__, "python": platform.python_version()}
