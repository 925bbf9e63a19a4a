"""The continuing process: items arrive, new classes appear, and a person names some groups. `handful bench open-world`.

The protocol is our own:

1. The model gets a context of labelled examples: small, 5 classes with 5 examples; large, half of all classes and at
   most 100, with 5 examples. A class with fewer items gives as many examples as leave one item.
2. Items arrive in blocks. Every class that is not in the context appears at a random moment, so that new classes keep
   coming (`handful.bench.stream`). The model takes in a block by `partial_fit`, and what it then says of its items is
   the answer that is judged: nobody has told it anything about them.
3. After each block a person names some groups of unknown items: of the model's `groups_` those of at least 3 items, the
   largest first, at most 10. The person looks at the most typical item of a group and gives its true class, and all
   these answers are taught together, `teach({row: class})`. If the item is of a known class, the person says that as
   well: the model was wrong. A group holds no item that was named before, as such items are examples.

A model is made by `partial_fit` and `teach` only and never sees what comes later. Every method has the same stream and
the same person; another seed is another stream. The figures are in `handful.bench.open_world_results`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from handful.bench.base_files import base_dependents, benchmark_base, check_dimension
from handful.bench.open_world_results import OpenWorldResults
from handful.bench.settings import Contender, parse_methods, with_engine
from handful.bench.stream import MAX_NAMED, MIN_GROUP, Stream, class_codes, draw_stream
from handful.core.base import Base
from handful.estimators.factory import make_estimator
from handful.features import FeatureTable
from handful.solving import get_solver
from handful.solving.groups import Group
from handful.solving.solver import needed_base

METHODS = "auto, eol, simpleshot"
ENGINE = "array"  # as classes are added, kernels would be compiled for one number of classes after the other


@dataclass
class Run:
    """One method on one stream: what it answered, and what a person told it.

    Parameters
    ----------
    method : str
        The row of the table.
    context : str
        "small" or "large".
    seed : int
        The seed of the stream.
    stream : Stream
        The stream.
    every : int
        Items of a block.
    answers : array [T] of int
        What the model said of each item at its arrival: a class, or -1.
    scores : array [T]
        The outlier score at arrival.
    told : list of (int, int)
        For each answer of the person: the item, by its place in the stream, and the block after which it was given.
    seconds : list of float
        What each block took: taking in the items, finding groups, being taught.
    """

    method: str
    context: str
    seed: int
    stream: Stream
    every: int
    answers: np.ndarray
    scores: np.ndarray
    told: list[tuple[int, int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def blocks(self) -> np.ndarray:
        """The block in which each item arrives, [T]."""
        return np.arange(len(self.answers)) // self.every


def run(
    table: FeatureTable,
    methods: str | Sequence[str] = METHODS,
    *,
    base: FeatureTable | Base | None = None,
    contexts: Sequence[str] = ("small",),
    items: int = 2000,
    every: int = 100,
    seeds: int = 3,
    classes: int | None = None,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> OpenWorldResults:
    """Run the process with every method.

    Parameters
    ----------
    table : FeatureTable
        Features with labels.
    methods : str or sequence of str
        As in `handful.bench.parse_methods`.
    base : FeatureTable or Base, optional
        On whose mean methods centre; methods that learn from base classes need a `Base`.
    contexts : sequence of {"small", "large"}
        Which contexts.
    items : int
        Items that arrive, at most.
    every : int
        Items of a block.
    seeds : int
        How many streams of each context; their seeds are 0, 1, 2, ...
    classes : int, optional
        How many classes the world has, drawn at random for each seed. By default all.
    progress : callable
        Called with what is done, the number of finished blocks and of all blocks.

    Returns
    -------
    OpenWorldResults

    Examples
    --------
    >>> from handful.features import digits
    >>> results = run(FeatureTable(*digits()), "simpleshot", items=60, every=30, seeds=1)
    >>> len(results.records()), results.methods
    (2, ['SimpleShot'])
    """
    rows = _with_base([with_engine(c, ENGINE) for c in parse_methods(methods)], table, base)
    codes = class_codes(table)
    streams = {
        (context, seed): draw_stream(codes, context, items=items, classes=classes, seed=seed)
        for context in contexts for seed in range(seeds)
    }  # fmt: skip
    done, total = 0, len(rows) * sum(-(-len(stream.arrivals) // every) for stream in streams.values())
    runs: list[Run] = []
    for (context, seed), stream in streams.items():
        for row in rows:
            one = _empty_run(row.row, context, seed, stream, every)
            for _ in follow(one, make_estimator(row.method, **row.parameters), table.features):
                done += 1
                progress("solving", done, total)
            runs.append(one)
    return OpenWorldResults(runs, table.name)


def follow(run: Run, model: Any, features: np.ndarray) -> Iterator[int]:
    """Let the model live through the stream of `run`; yields after each block, and writes into `run`."""
    stream, n_context = run.stream, len(run.stream.examples)
    model.partial_fit(features[stream.examples], stream.codes[stream.examples])
    for block, low in enumerate(range(0, len(stream.arrivals), run.every)):
        start, high = perf_counter(), low + run.every
        model.partial_fit(features[stream.arrivals[low:high]])
        run.answers[low:high] = model.transduction_[n_context + low :]
        run.scores[low:high] = model.outlier_scores_[n_context + low :]
        places = [row - n_context for row in looked_at(model.groups_)]
        if places:
            model.teach({n_context + place: int(stream.truth[place]) for place in places})
        run.told += [(place, block) for place in places]
        run.seconds.append(perf_counter() - start)
        yield block


def looked_at(groups: Sequence[Group]) -> list[int]:
    """The items that a person looks at: the most typical one of each group that is large enough.

    >>> looked_at([Group(1, np.array([8, 3, 5]), 0.5), Group(2, np.array([1, 2]), 0.5)])
    [8]
    """
    large = sorted((group for group in groups if group.size >= MIN_GROUP), key=lambda group: -group.size)
    return [group.representative for group in large[:MAX_NAMED]]


def _empty_run(method: str, context: str, seed: int, stream: Stream, every: int) -> Run:
    count = len(stream.arrivals)
    return Run(method, context, seed, stream, every, np.full(count, -1), np.zeros(count))


def _with_base(
    contenders: Sequence[Contender], table: FeatureTable, base: FeatureTable | Base | None
) -> list[Contender]:
    """The methods with the base that they need, or with its mean to centre on."""
    used = benchmark_base(base, table)
    check_dimension(used, table)
    dependent = base_dependents(contenders)
    if dependent and not isinstance(base, Base):
        raise ValueError(
            f"{dependent[0].method} learns from base classes: give --base, a base file that `handful base` or `handful "
            "train` wrote"
        )
    rows = []
    for contender in contenders:
        own = dict(contender.parameters)
        if base_dependents([contender]):
            own["base"] = needed_base(get_solver(contender.method), base, table.dimension)
        elif used is not None and own.get("base") is None:  # a base of its own brings its own mean
            own["base_mean"] = used.base.mean
        rows.append(replace(contender, parameters=own))
    return rows
