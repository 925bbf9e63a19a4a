"""From a task to a result: prepare, solve, decide.

A batch is cut into chunks of tasks that stay near a core while they are prepared, solved and finished, and the
chunks are spread over threads. Every step is independent between tasks, so the cut changes nothing but the speed.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from os import PathLike
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array

import handful
from handful.core import decide
from handful.core.arrays import Array, as_like, to_numpy
from handful.core.base import Base
from handful.core.checks import as_features
from handful.core.parameters import AUTO, Number, OneOf, OrAuto, Rule, check, is_auto
from handful.core.prepare import parse
from handful.core.task import Result, Task
from handful.engines.descent import choose_backend
from handful.engines.share import of_task as share_of_unknowns
from handful.methods.registry import Method, Solution, get, needed_base
from handful.streaming import Shards
from handful.streaming.solve import SMALL, Streaming, is_large, is_on_disk, solve_pile
from handful.utils.threads import available_threads, one_blas_thread

CHUNK = 2 << 20, 8 << 20  # bytes of features in a chunk of tasks: worth a thread of its own, and still near its core
COUNT = Number(1, closed=True, whole=True, optional=True)
OPTIONS: dict[str, Rule] = {
    "dtype": OneOf(("float32", "float64")), "threshold": Number(optional=True), "threads": COUNT, "chunk": COUNT,
}  # fmt: skip


def solve(
    method: Any = AUTO,
    support: Any = None,
    labels: Any = None,
    query: Any = None,
    *,
    base_mean: Any = None,
    preparation: Sequence[str] | str | None = None,
    dtype: str = "float32",
    threshold: float | None = None,
    threads: int | None = None,
    engine: Any = None,
    chunk: int | None = None,
    checkpoint: Any = None,
    out: Any = None,
    progress: Callable[[int, int], object] | None = None,
    **parameters: Any,
) -> Result:
    """Label the query items of one task, or of a batch of tasks, and find those of no known class.

    method: a name from `list_methods()`, "auto" if left out: what was found best where nothing is known of the pile.
    support, labels, query: see `Task`; or a `Task` alone.
    base_mean: mean feature of the backbone's training set, for methods that centre on it; without it they centre
    on the task's own mean. preparation: steps other than the method's own, as in "task, l2".
    dtype: what to compute in. threshold: the outlier score above which an item is unknown, other than the
    default. threads: at most so many (default: one a core). parameters: the method's own knobs, and `outlier_share`:
    how much of the pile is unknown. By default it is estimated, from the task alone: see `Result.outlier_share`.
    Methods that learn from base classes take `base`, a `handful.Base` or its file, and centre on its mean.

    A query set that need not fit into memory is read in pieces: a memory-mapped array, a path of .npy or .parquet files
    or a folder of them, or `handful.Shards`. For such: engine (threads of this machine by default, or
    `handful.cluster.Actors` on a cluster), chunk (rows that a worker holds at a time), checkpoint (a file that a killed
    solve goes on from), out (a folder that the probabilities and scores are written to, mapped instead of held),
    progress (called with the passes over the pile that are made, and of how many).

    >>> rng = np.random.default_rng(0)
    >>> cats, dogs, hens = (rng.normal(scale=0.3, size=(20, 8)) + 2 * np.eye(8)[k] for k in range(3))
    >>> support, labels = np.concatenate([cats[:5], dogs[:5]]), ["cat"] * 5 + ["dog"] * 5
    >>> result = solve(support, labels, np.concatenate([cats[5:], dogs[5:], hens]))
    >>> [str(result.labels[i]) for i in (0, 15, 30)]
    ['cat', 'dog', 'unknown']
    """
    how = Streaming(engine, chunk, checkpoint, out, progress)
    method, task, pile = _method_and_task(method, support, labels, query, how)
    chosen = get(method)
    options = {"dtype": dtype, "threshold": threshold, "threads": threads, "chunk": chunk}
    check(options, OPTIONS, "solve")
    share = parameters.get("outlier_share", AUTO)
    if "outlier_share" in parameters and "outlier_share" not in chosen.defaults:
        check({"outlier_share": share}, {"outlier_share": OrAuto(0, 1)}, "solve")
        del parameters["outlier_share"]  # such a method does not use it; the decision does
    parameters = complete(chosen, parameters, task)
    if chosen.info.needs == "base":
        base = parameters["base"] = needed_base(chosen, parameters["base"], task.support.shape[-1])
        base_mean = base.mean if base_mean is None else base_mean
    steps = None if preparation is None else parse(preparation)
    plain = not is_numpy_array(task.support) or not task.query.shape[1] or parameters.get("history")
    if pile is None and not plain and parameters.get("backend", "auto") == "auto" and is_large(task, chosen):
        pile = Shards(task.query[0])
    if parameters.get("backend") == "auto" and pile is None:
        items = task.support.shape[1] + task.query.shape[1]
        work = (task.batch, items, task.query.shape[2], task.ways, parameters["steps"])
        parameters["backend"] = "array" if plain else choose_backend(*work)

    if pile is not None:
        look = threshold is None and chosen.info.score == "rank" and is_auto(share)
        solution = solve_pile(chosen, task, pile, steps, base_mean, dtype, parameters, threads, how, look)
    else:
        solution = _solve_chunks(chosen, task, steps, base_mean, dtype, parameters, threads)

    if threshold is None:
        if chosen.info.score == "rank" and is_auto(share):
            if pile is None:
                solution.outlier_share, solution.share_interval = _estimate(task, threads)
            share = solution.outlier_share
        limits = decide.threshold(solution.outlier_scores, chosen.info.score, share)
    else:
        limits = as_like(np.full(task.batch, threshold), solution.outlier_scores)
    unknown = solution.outlier_scores > limits[:, None]
    shares = solution.outlier_share
    if shares is None:
        shares = to_numpy(unknown).sum(axis=1) / max(1, unknown.shape[1])
    made_by = {
        "method": chosen.name,
        "score": chosen.info.score,
        "parameters": {name: repr(v) if isinstance(v, Base) else v for name, v in parameters.items()},
        "preparation": [name.split(".")[-1] for name in solution.state if "prepare." in name],
        "dtype": dtype,
        "steps": solution.n_iter,
        "versions": versions(),
    }
    result = Result(
        solution.probabilities, solution.outlier_scores, unknown, task._classes, limits,
        np.broadcast_to(shares, (task.batch,)), made_by,
        state=solution.state, history=solution.history, task=task, outlier_share_interval=solution.share_interval,
    )  # fmt: skip
    return result[0] if task.single else result


def _method_and_task(
    method: Any, support: Any, labels: Any, query: Any, how: Streaming
) -> tuple[str, Task, Shards | None]:
    """What `solve` was given, whether or not a method's name came first; and its pile, if that is read in pieces."""
    if not isinstance(method, str):
        if query is not None:
            raise TypeError(f"the method is a {type(method).__name__}: give a name, or none: solve(support, ...)")
        method, support, labels, query = AUTO, method, support, labels
    if isinstance(support, Task):
        task, pile = support, support.query if isinstance(support.query, Shards) else None
        if pile is None and how.asked():
            if not task.single:
                raise ValueError(
                    "engine, chunk, checkpoint, out and progress are for one task, not for a batch of them"
                )
            pile = Shards(task.query[0])
    elif is_on_disk(query, how, get(method)):
        as_it_is = isinstance(query, Shards | str | PathLike | np.ndarray)
        pile = Shards(query if as_it_is else as_features(query, "query"))
        task = Task.in_pieces(support, labels, pile)
    else:
        return method, Task(support, labels, query), None
    if pile is None or pile.rows > SMALL or how.out is not None:
        return method, task, pile
    if isinstance(task.query, Shards):  # it is loaded, and the result the same to the last bit whatever its pieces
        task = Task(support, labels, pile.take(np.arange(pile.rows)))
    return method, task, None


def solve_each(method: Any = AUTO, tasks: Iterable[Task] = (), **options: Any) -> list[Result]:
    """Solve single tasks of any shapes: those of one shape together, none padded. Results keep the order."""
    if not isinstance(method, str):
        method, tasks = AUTO, method
    tasks = list(tasks)
    groups: dict[tuple, list[int]] = {}
    for i, task in enumerate(tasks):
        if not isinstance(task, Task):
            raise TypeError(f"task {i} is a {type(task).__name__}: make a handful.Task(support, labels, query) of it")
        if not task.single:
            raise ValueError(f"task {i} is a batch of {task.batch} tasks: call solve on it")
        shape = (tuple(task.support.shape), tuple(task.query.shape), task.ways)
        kind = (str(task.support.dtype), task.classes.dtype.kind)  # ints and strings would become strings together
        groups.setdefault(shape + kind, []).append(i)
    chosen = get(method)
    each = {name: value for name, value in options.items() if _is_each_task(chosen, name, value)}
    _check_each(chosen, each, len(tasks))
    results: list[Result | None] = [None] * len(tasks)
    for members in groups.values():
        own = {name: [value[i] for i in members] for name, value in each.items()}
        solved = solve(method, Task.stack([tasks[i] for i in members]), **(options | own))
        for k, i in enumerate(members):
            results[i] = solved[k]
    return results  # type: ignore[return-value]  # every place has been filled


def complete(method: Method, parameters: dict[str, Any], task: Task) -> dict[str, Any]:
    """`parameters` checked, with the method's defaults for those not given and for None where shots decide."""
    unknown = sorted(set(parameters) - set(method.defaults))
    if unknown:
        raise TypeError(
            f"{method.name} has no parameter {unknown[0]!r}; it has: {', '.join(method.defaults) or 'none'}"
        )
    _check_each(method, parameters, task.batch)
    whole = method.defaults | parameters
    return whole | {k: v for k, v in method.by_shots(task.shots.mean()).items() if whole[k] is None}


def _check_each(method: Method, parameters: dict[str, Any], batch: int) -> None:
    check(parameters, method.rules, method.name)
    for name, value in parameters.items():
        if _is_each_task(method, name, value) and len(value) != batch:
            raise ValueError(f"{name} has {len(value)} values for {batch} tasks: give one, or one for each task")


def _solve_chunks(method, task, steps, base_mean, dtype, parameters, threads) -> Solution:
    workers = threads or available_threads()
    slices = _chunks(task, method.together, workers) if is_numpy_array(task.query) else [slice(0, task.batch)]
    workers = min(workers, len(slices))

    def one(part: slice) -> Solution:
        own = {k: v[part] if _is_each_task(method, k, v) else v for k, v in parameters.items()}
        return method.run(task[part], steps, base_mean, dtype, own)

    if workers == 1:
        with one_blas_thread() if threads == 1 else nullcontext():
            parts = [one(part) for part in slices]
    else:
        with ThreadPoolExecutor(workers) as pool, one_blas_thread():
            parts = list(pool.map(one, slices))
    return parts[0] if len(parts) == 1 else _join(parts)


def _estimate(task: Task, threads: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The share of unknowns of each task [B], and its interval [B, 2], for methods that only rank."""
    slices = _chunks(task, 1 / 2, threads or available_threads()) if is_numpy_array(task.query) else [slice(None)]
    parts = [share_of_unknowns(t.support, t.labels, t.query) for t in (task[part] for part in slices)]
    return np.concatenate([p.estimate for p in parts]), np.concatenate([p.interval for p in parts])


def _chunks(task: Task, together: float, workers: int) -> list[slice]:
    """Equal parts of a batch, as many as the workers share evenly, each within `CHUNK` x `together` if it can be."""
    least, most = (max(1, int(size * together)) for size in CHUNK)
    total = task.support.nbytes + task.query.nbytes
    count = max(-(-total // most), min(workers, total // least), 1)
    if count > 1:
        count = -(-count // workers) * workers
    size = -(-task.batch // min(count, task.batch))
    return [slice(i, i + size) for i in range(0, task.batch, size)]


def _join(parts: list[Solution]) -> Solution:
    xp = array_namespace(parts[0].probabilities)

    def join(arrays: list[Array | None]) -> Any:
        return None if arrays[0] is None else xp.concat(arrays, axis=0)

    shares = [s.outlier_share for s in parts]
    return Solution(
        join([s.probabilities for s in parts]),
        join([s.outlier_scores for s in parts]),
        {name: join([s.state[name] for s in parts]) for name in parts[0].state},
        shares[0] if np.ndim(shares[0]) == 0 else np.concatenate(shares),
        parts[0].n_iter,
        join([s.history for s in parts]),
        None if parts[0].share_interval is None else np.concatenate([s.share_interval for s in parts]),
    )


def _is_each_task(method: Method, name: str, value: Any) -> bool:
    return getattr(method.rules.get(name), "each_task", False) and np.ndim(value) == 1


@cache
def versions() -> dict[str, str]:
    return {"handful": handful.__version__, "numpy": np.__version__, "python": platform.python_version()}
