"""From a task whose pile is in pieces to a solution: prepare in passes, learn in passes, score every row.

Which methods can: those with `passes`; inductive ones, that score a row by the examples alone; and those that learn
from a sample of a large pile (`most`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from shutil import disk_usage, rmtree
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

import handful
from handful.core.parameters import is_auto
from handful.core.prepare import replay
from handful.core.task import Task
from handful.engines import share
from handful.methods.registry import METHODS, Method, Solution, get
from handful.streaming.passes import Blocks, Crew, Journal, Learned, Pass, Passes, Threaded, follow
from handful.streaming.pile import Shards, file_of, taken_of
from handful.streaming.prepare import prepare_in_passes
from handful.utils.threads import available_threads

SMALL = 1000  # rows of a pile that is loaded after all
DECODED = ".decoded"  # a folder, for as long as a solve takes
LARGE = 256 << 20  # bytes of a pile in memory that is better not copied
Progress = Callable[[int, int], object]  # passes made, of how many


@dataclass(frozen=True)
class Streaming:
    """How a pile in pieces is gone through.

    engine: who makes the passes, `Threaded()` or `handful.cluster.Actors(...)`. chunk: rows held at a time by each
    worker. checkpoint: a file that a killed solve goes on from; it is removed at the end. out: a folder for
    probabilities.npy and outlier_scores.npy, which are then mapped and not held in memory.
    """

    engine: Any = None
    chunk: int | None = None
    checkpoint: Path | str | None = None
    out: Path | str | None = None
    progress: Progress | None = None

    def asked(self) -> bool:
        """Whether something was said that only a pile in pieces has."""
        return any(value is not None for value in vars(self).values())


def can_stream(method: Any) -> bool:
    if not isinstance(method, Method):  # a pair
        return False
    by_sample = method.score_new is not None and isfinite(method.most)
    return method.passes is not None or method.info.paradigm == "inductive" or by_sample


def is_on_disk(query: Any, how: Streaming, method: Any) -> bool:
    """Whether a query set is not to be loaded as a whole."""
    if isinstance(query, Shards | str | os.PathLike) or how.asked():
        return True
    return isinstance(query, np.ndarray) and query.ndim == 2 and can_stream(method) and file_of(query) is not None


def is_large(task: Task, method: Any) -> bool:
    """Whether a pile in memory is better not copied; an inductive method that trains would do so for every block."""
    learns = can_stream(method) and (method.passes is not None or method.info.paradigm != "inductive")
    return task.single and learns and is_numpy_array(task.query) and task.query.nbytes >= LARGE


def solve_pile(
    method: Any,
    task: Task,
    pile: Shards,
    steps: Sequence[str] | None,
    base_mean: Any,
    dtype: str,
    parameters: Mapping[str, Any],
    threads: int | None,
    how: Streaming,
    look: bool,
) -> Solution:
    """The task's support against its pile, in pieces; `look`: the share of unknowns is wanted though it only ranks."""
    if not can_stream(method):
        able = ", ".join(name for name in sorted(METHODS) if can_stream(METHODS[name]))
        raise ValueError(f"{method.name} needs the whole pile in memory; those that read it in pieces: {able}")
    if parameters.get("history"):
        raise ValueError("the history of losses is not kept for a pile in pieces: leave history out")
    steps = method.info.preparation if steps is None else steps
    support = task.support.astype(np.result_type(task.support.dtype, pile.dtype, np.float32), copy=False)
    about = _about(method, task, pile, steps, base_mean, dtype, parameters)
    journal = Journal(None if how.checkpoint is None else Path(how.checkpoint), about)
    finished = False
    try:
        with _readable(pile, method, threads, how) as pile, closing(_open(pile, threads, how)) as crew:
            passes = _passes(method, support, task.labels, pile, steps, base_mean, dtype, parameters, crew)
            learned, interval = follow(passes, crew, journal, how.progress or (lambda done, total: None))
            solution = _score(method, learned, pile, task.ways, dtype, parameters, crew, how.out)
            solution.share_interval = interval
            if look:
                found = share.of_task(support, task.labels, _sample(crew, pile, share.MOST)[None])
                solution.outlier_share, solution.share_interval = found.estimate, found.interval
        finished = True
    finally:
        journal.close(finished)
    return solution


def _open(pile: Shards, threads: int | None, how: Streaming) -> Crew:
    return (how.engine or Threaded(threads)).open(pile, how.chunk)


@contextmanager
def _readable(pile: Shards, method: Method, threads: int | None, how: Streaming) -> Iterator[Shards]:
    """Parquet that every pass would decode again: decoded once, beside the results, if the disk has room for it."""
    if how.engine is not None or how.out is None or method.passes is None or not pile.coded:
        yield pile
        return
    folder = Path(how.out, DECODED)
    rmtree(folder, ignore_errors=True)  # of a solve that was killed
    folder.mkdir(parents=True)
    try:
        room = disk_usage(folder).free > 2 * pile.coded
        yield pile.decoded(folder, threads or available_threads()) if room else pile
    finally:
        rmtree(folder, ignore_errors=True)


def _passes(
    method: Method,
    support: np.ndarray,
    labels: np.ndarray,
    pile: Shards,
    steps: Sequence[str],
    base_mean: Any,
    dtype: str,
    parameters: Mapping[str, Any],
    crew: Crew,
) -> Passes[tuple[_Known, np.ndarray | None]]:
    """What the method learned, with the interval of the share if it was estimated."""
    prepared, view = yield from _checked(prepare_in_passes(support, pile.rows, steps, base_mean, dtype), crew)
    learned = {f"prepare.{i}.{kind}": value for i, (kind, value) in enumerate(view.steps)}
    interval = None
    if is_auto(parameters.get("outlier_share")) and parameters.get("b") is None and not method.finds_share:
        found = share.of_task(support, labels, _sample(crew, pile, share.MOST)[None])
        parameters, interval = {**parameters, "outlier_share": found.estimate}, found.interval
    parameters = method.with_base(parameters, learned, prepared)
    if method.passes is not None:
        known = _Known(**vars((yield from method.passes(prepared, labels, pile.rows, view, **parameters))))
    elif method.score_new is None:
        known = _Known({"support": prepared, "labels": labels})
    elif not isfinite(method.most):  # inductive: what it learns, it learns from the examples
        part = method.solve(prepared, labels, prepared[:, :1], **parameters)
        known = _Known(part.state, part.outlier_share, part.n_iter)
    else:
        sample = replay(learned, _sample(crew, pile, int(method.most))[None])
        part = method.solve(prepared, labels, sample.astype(dtype, copy=False), **parameters)
        known = _Known(part.state, part.outlier_share, part.n_iter, part)
        interval = part.share_interval if interval is None else interval
    known.state |= learned
    return known, interval


@dataclass
class _Known(Learned):
    sample: Solution | None = None  # of `share.sample`, where a sample was solved


def _sample(crew: Crew, pile: Shards, most: int) -> np.ndarray:
    """The rows that `share.sample` says, as they come."""
    rows = share.sample(pile.rows, most)
    parts = sorted(crew.each(partial(taken_of, rows=rows)), key=lambda part: part[0].at)
    return np.concatenate([part for _, part in parts])


def _checked(passes: Passes[Any], crew: Crew) -> Passes[Any]:
    """The first pass sees every number: a sum that is none shows a row that is none."""
    each: Pass = next(passes)
    while True:
        sums = yield each
        if not all(np.isfinite(values).all() for values in sums.values()):
            for _, (at, column, value) in crew.each(_strange):
                if at >= 0:
                    raise ValueError(f"query contains {value} at row {at}, column {column}: remove or repair that row")
            raise ValueError("query has values so large that their sum overflows: divide all features by a constant")
        try:
            each = passes.send(sums)
        except StopIteration as end:
            return end.value


def _strange(blocks: Blocks) -> tuple[int, int, str]:
    """The first number that is none: its row and column; -1 if all are."""
    for at, block in blocks:
        bad = np.argwhere(~np.isfinite(block))
        if len(bad):
            row, column = bad[0].tolist()
            return at + row, column, "NaN" if np.isnan(block[row, column]) else "infinity"
    return -1, -1, ""


def _score(
    method: Method,
    known: _Known,
    pile: Shards,
    ways: int,
    dtype: str,
    parameters: Mapping[str, Any],
    crew: Crew,
    out: Path | str | None,
) -> Solution:
    probabilities = _place(out, "probabilities.npy", (pile.rows, ways), dtype)
    scores = _place(out, "outlier_scores.npy", (pile.rows,), dtype)
    knobs = {name: value for name, value in parameters.items() if name != "backend"}
    for span, parts in crew.each(partial(_scores, name=method.name, state=known.state, dtype=dtype, parameters=knobs)):
        rows = slice(span.at, span.at + span.stop - span.start)
        for place, part in zip((probabilities, scores), parts, strict=True):
            place[rows] = part
    if known.sample is not None:
        shown = share.sample(pile.rows, int(method.most))
        probabilities[shown], scores[shown] = known.sample.probabilities[0], known.sample.outlier_scores[0]
    return Solution(probabilities[...][None], scores[...][None], known.state, known.outlier_share, known.n_iter)


def _scores(
    blocks: Blocks, name: str, state: Mapping[str, np.ndarray], dtype: str, parameters: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    method = get(name)
    parts = [method.score(state, block[None], dtype, parameters) for _, block in blocks]
    probabilities, scores = (np.concatenate([part[0] for part in each]) for each in zip(*parts, strict=True))
    return probabilities, scores


class _File:
    """An .npy file that is written row by row: a mapped one would be held in memory."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: str) -> None:
        self.path = path
        shown = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
        self.offset, self.itemsize = shown.offset, shown.itemsize * int(np.prod(shape[1:], dtype=int))

    def __setitem__(self, rows: Any, values: np.ndarray) -> None:
        values = np.ascontiguousarray(values)
        places = [rows.start] if isinstance(rows, slice) else rows.tolist()
        parts = [values] if isinstance(rows, slice) else values
        with open(self.path, "r+b", buffering=0) as file:
            for place, part in zip(places, parts, strict=True):
                os.pwrite(file.fileno(), part.tobytes(), self.offset + place * self.itemsize)

    def __getitem__(self, _: Any) -> np.ndarray:
        return np.load(self.path, mmap_mode="r+")


def _place(out: Path | str | None, name: str, shape: tuple[int, ...], dtype: str) -> Any:
    if out is None:
        return np.empty(shape, dtype)
    Path(out).mkdir(parents=True, exist_ok=True)
    return _File(Path(out) / name, shape, dtype)


def _about(
    method: Method, task: Task, pile: Shards, steps: Any, base_mean: Any, dtype: str, parameters: Mapping[str, Any]
) -> bytes:
    """What is solved: all that decides what passes give, but for the numbers of the pile."""
    marks = [blake2b(np.ascontiguousarray(x).data, digest_size=16).hexdigest() for x in (task.support, task.labels)]
    mean = None if base_mean is None else np.asarray(base_mean, np.float64).tolist()
    said = {
        "handful": handful.__version__, "method": method.name, "parameters": dict(parameters), "pile": pile.shape,
        "support": marks, "steps": list(steps), "base_mean": mean, "dtype": dtype,
        "pieces": [[piece.path, os.stat(piece.path).st_mtime_ns] for piece in pile.pieces if hasattr(piece, "path")],
    }  # fmt: skip
    return json.dumps(said, sort_keys=True, default=repr).encode()
