"""From a task whose pile is in pieces to a solution: prepare in passes, learn in passes, score every row.

Which methods can: those with `passes`; inductive ones, that score a row by the examples alone; and those that learn
from a sample of a large pile (`most`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from shutil import disk_usage, rmtree
from typing import Any

import numpy as np

from handful.core.arrays import with_unknown
from handful.core.checks import as_features, column_names
from handful.core.parameters import is_auto
from handful.core.prepare import replay
from handful.core.task import Task
from handful.engines import share
from handful.methods.contract import Method, Solution
from handful.methods.registry import METHODS, find_method, method_names
from handful.streaming.learners import LEARNERS
from handful.streaming.options import Streaming
from handful.streaming.passes import Blocks, Crew, Journal, Learned, Pass, Passes, Threaded, follow
from handful.streaming.pile import Pile, file_of, taken_of
from handful.streaming.prepare import prepare_in_passes
from handful.utils.threads import available_threads
from handful.utils.version import __version__

SMALL_PILE_ROWS = 1000  # a pile of so many rows is loaded after all
DECODED = ".decoded"  # a folder, for as long as a solve takes


def can_stream(method: Method | None) -> bool:
    """Whether a method can read its pile block by block; None is a pair of methods, which cannot."""
    if method is None:
        return False
    by_sample = method.score_new is not None and isfinite(method.max_queries)
    return method.name in LEARNERS or method.info.paradigm == "inductive" or by_sample


def task_of_pile(
    support: Any, labels: Any, query: Any, streaming: Streaming | None, method: Method | None, unknown: Any = None
) -> Task:
    """The task of a query set that may be large: a path, a `Pile`, or an array, perhaps a memory-mapped one."""
    mapped = isinstance(query, np.ndarray) and query.ndim == 2 and file_of(query) is not None
    if not (isinstance(query, Pile | str | os.PathLike) or streaming is not None or (mapped and can_stream(method))):
        return Task(support, labels, query, unknown=unknown)
    as_it_is = isinstance(query, Pile | str | os.PathLike | np.ndarray)
    pile = Pile(query if as_it_is else as_features(query, "query", column_names(support)))
    if pile.rows > SMALL_PILE_ROWS or (streaming is not None and streaming.out is not None):
        return Task.with_large_pile(support, labels, pile, unknown)
    # A small pile is loaded: the result is the same to the last bit, whatever its parts
    return Task(support, labels, pile.take(np.arange(pile.rows)), unknown=unknown)


def pile_of(task: Task, streaming: Streaming | None, method: Method | None) -> Pile | None:
    """The pile of a task that is to be read block by block; None if it is to be solved in memory."""
    if isinstance(task.query, Pile):
        return task.query
    if not task.single and streaming is not None:
        raise ValueError("streaming is for one task, not for a batch of them")
    if streaming is not None:
        large = task.query.shape[1] > SMALL_PILE_ROWS or streaming.out is not None
        return Pile(task.query[0]) if large else None
    # An inductive method that trains would do so for every block
    learns = method is not None and (method.name in LEARNERS or method.info.paradigm != "inductive")
    return Pile(task.query[0]) if learns and can_stream(method) else None


def solve_pile(
    name: str,
    method: Method | None,
    task: Task,
    pile: Pile,
    steps: Sequence[str] | None,
    base_mean: Any,
    dtype: str,
    parameters: Mapping[str, Any],
    threads: int | None,
    streaming: Streaming | None,
    estimate_share: bool,
) -> Solution:
    """Solve a task block by block; estimate_share: the share is wanted though the method's scores only rank."""
    how = streaming or Streaming()
    if method is None or not can_stream(method):
        able = ", ".join(other for other in method_names() if can_stream(METHODS[other]))
        raise ValueError(f"{name} needs the whole pile in memory; those that read it in pieces: {able}")
    if task.unknown.shape[1] and not _takes_unknown(method):
        able = ", ".join(other for other in method_names() if _takes_unknown(METHODS[other]))
        raise ValueError(
            f"{name} cannot use examples of no class for a pile that is read in pieces: use one of {able}, or load the "
            "pile into memory"
        )
    if parameters.get("history"):
        raise ValueError("the history of losses is not kept for a pile in pieces: leave history out")
    if parameters.get("arrivals"):
        raise ValueError(
            "items that arrive one after another change the classes, but the pieces of a pile are scored on their own: "
            "load the pile into memory, or leave arrivals out"
        )
    steps = method.info.preparation if steps is None else steps
    support, _ = with_unknown(task.support, task.labels, task.unknown)
    support = support.astype(np.result_type(support.dtype, pile.dtype, np.float32), copy=False)
    about = _about(method, task, pile, steps, base_mean, dtype, parameters)
    journal = Journal(None if how.checkpoint is None else Path(how.checkpoint), about)
    finished = False
    try:
        with _readable(pile, method, threads, how) as pile, closing(_open(pile, threads, how)) as crew:
            passes = _passes(method, support, task.labels, pile, steps, base_mean, dtype, parameters, crew)
            learned, believed = follow(passes, crew, journal, how.progress or (lambda done, total: None))
            solution = _score(method, learned, pile, task.ways, dtype, parameters, crew, how.out)
            solution.share_interval, solution.share_posterior = believed
            if method.decide is not None:
                solution.threshold = method.decide(solution.state, solution.outlier_scores, **parameters)
            elif estimate_share:
                sample = _sample(crew, pile, share.MAX_QUERIES)[None]
                estimate = share.of_task(task.support, task.labels, sample, task.unknown)
                solution.outlier_share, solution.share_interval = estimate.estimate, estimate.interval
                solution.share_posterior = estimate.above
        finished = True
    finally:
        journal.close(finished)
    return solution


def _takes_unknown(method: Method) -> bool:
    """Whether a method can use examples of no class for a pile in pieces: if it solves a sample of the pile."""
    return method.takes_unknown and method.score_new is not None and isfinite(method.max_queries)


def _open(pile: Pile, threads: int | None, how: Streaming) -> Crew:
    return (how.engine or Threaded(threads)).open(pile, how.block_rows)


@contextmanager
def _readable(pile: Pile, method: Method, threads: int | None, how: Streaming) -> Iterator[Pile]:
    """Parquet that every pass would decode again: decoded once, beside the results, if the disk has room for it."""
    if how.engine is not None or how.out is None or method.name not in LEARNERS or not pile.coded:
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
    pile: Pile,
    steps: Sequence[str],
    base_mean: Any,
    dtype: str,
    parameters: Mapping[str, Any],
    crew: Crew,
) -> Passes[tuple[LearnedState, tuple[np.ndarray | None, np.ndarray | None]]]:
    """What the method learned, with the interval and the posterior of the share if it was estimated.

    support: examples of the classes, followed by those of no class.
    """
    prepared, view = yield from _checked(prepare_in_passes(support, pile.rows, steps, base_mean, dtype), crew)
    learned = {f"prepare.{i}.{kind}": value for i, (kind, value) in enumerate(view.steps)}
    believed: tuple[np.ndarray | None, np.ndarray | None] = None, None
    if is_auto(parameters.get("outlier_share")) and parameters.get("b") is None and not method.estimates_share:
        estimate = share.of_task(support, labels, _sample(crew, pile, share.MAX_QUERIES)[None])
        parameters, believed = {**parameters, "outlier_share": estimate.estimate}, (estimate.interval, estimate.above)
    parameters = method.with_base(parameters, learned, prepared)
    if method.name in LEARNERS:
        learned_state = LearnedState(
            **vars((yield from LEARNERS[method.name](prepared, labels, pile.rows, view, **parameters)))
        )
    elif method.score_new is None:
        learned_state = LearnedState({"support": prepared, "labels": labels})
    elif not isfinite(method.max_queries):  # inductive: what it learns, it learns from the examples
        part = method.solve(prepared, labels, prepared[:, :1], **parameters)
        learned_state = LearnedState(part.state, part.outlier_share, part.n_iter)
    else:
        sample = replay(learned, _sample(crew, pile, int(method.max_queries))[None])
        n_support = labels.shape[1]
        own = (prepared[:, n_support:],) if method.takes_unknown else ()
        part = method.solve(prepared[:, :n_support], labels, sample.astype(dtype, copy=False), *own, **parameters)
        learned_state = LearnedState(part.state, part.outlier_share, part.n_iter, part)
        believed = (part.share_interval, part.share_posterior) if believed[0] is None else believed
    learned_state.state |= learned
    return learned_state, believed


@dataclass
class LearnedState(Learned):
    """What a method learned of a pile, and the solution of a sample of it."""

    sample: Solution | None = None  # of `share.sample`, where a sample was solved


def _sample(crew: Crew, pile: Pile, most: int) -> np.ndarray:
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
    learned_state: LearnedState,
    pile: Pile,
    ways: int,
    dtype: str,
    parameters: Mapping[str, Any],
    crew: Crew,
    out: Path | str | None,
) -> Solution:
    probabilities = _place(out, "probabilities.npy", (pile.rows, ways), dtype)
    scores = _place(out, "outlier_scores.npy", (pile.rows,), dtype)
    knobs = {name: value for name, value in parameters.items() if name != "backend"}
    for span, parts in crew.each(
        partial(_scores, name=method.name, state=learned_state.state, dtype=dtype, parameters=knobs)
    ):
        rows = slice(span.at, span.at + span.stop - span.start)
        for place, part in zip((probabilities, scores), parts, strict=True):
            place[rows] = part
    if learned_state.sample is not None:
        sampled_rows = share.sample(pile.rows, int(method.max_queries))
        probabilities[sampled_rows], scores[sampled_rows] = (
            learned_state.sample.probabilities[0],
            learned_state.sample.outlier_scores[0],
        )
    of_sample = learned_state.sample
    return Solution(
        probabilities[...][None],
        scores[...][None],
        learned_state.state,
        learned_state.outlier_share,
        learned_state.n_iter,
        is_calibrated=of_sample is not None and of_sample.is_calibrated,
        examples=None if of_sample is None else of_sample.examples,
        precision_spread=None if of_sample is None else of_sample.precision_spread,
    )


def _scores(
    blocks: Blocks, name: str, state: Mapping[str, np.ndarray], dtype: str, parameters: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    method = find_method(name)
    parts = [method.score(state, block[None], dtype, parameters) for _, block in blocks]
    probabilities, scores = (np.concatenate([part[0] for part in each]) for each in zip(*parts, strict=True))
    return probabilities, scores


class _File:
    """An .npy file that is written row by row: a mapped one would be held in memory."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: str) -> None:
        self.path = path
        file = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
        self.offset, self.itemsize = file.offset, file.itemsize * int(np.prod(shape[1:], dtype=int))

    def __setitem__(self, rows: Any, values: np.ndarray) -> None:
        values = np.ascontiguousarray(values)
        places = [rows.start] if isinstance(rows, slice) else rows.tolist()
        parts = [values] if isinstance(rows, slice) else values
        with open(self.path, "r+b", buffering=0) as file:
            for place, part in zip(places, parts, strict=True):
                os.pwrite(file.fileno(), part.tobytes(), self.offset + place * self.itemsize)

    def __getitem__(self, _: Any) -> np.ndarray:
        values: np.ndarray = np.load(self.path, mmap_mode="r+")
        return values


def _place(out: Path | str | None, name: str, shape: tuple[int, ...], dtype: str) -> Any:
    if out is None:
        return np.empty(shape, dtype)
    Path(out).mkdir(parents=True, exist_ok=True)
    return _File(Path(out) / name, shape, dtype)


def _about(
    method: Method, task: Task, pile: Pile, steps: Any, base_mean: Any, dtype: str, parameters: Mapping[str, Any]
) -> bytes:
    """What is solved: all that decides what passes give, but for the numbers of the pile."""
    marks = [
        blake2b(np.ascontiguousarray(x).data, digest_size=16).hexdigest()
        for x in (task.support, task.labels, task.unknown)
    ]
    mean = None if base_mean is None else np.asarray(base_mean, np.float64).tolist()
    facts = {
        "handful": __version__, "method": method.name, "parameters": dict(parameters), "pile": pile.shape,
        "support": marks, "steps": list(steps), "base_mean": mean, "dtype": dtype,
        "pieces": [[piece.path, os.stat(piece.path).st_mtime_ns] for piece in pile.pieces if hasattr(piece, "path")],
    }  # fmt: skip
    return json.dumps(facts, sort_keys=True, default=repr).encode()
