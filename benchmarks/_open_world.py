"""The continuing process: items arrive, new classes appear, and a person names some groups.

1. The model gets a context of labelled examples: small, 5 classes with 5 examples; large, half of all classes and at
   most 100, with 5 examples. A class with fewer items gives as many examples as leave one item.
2. Items arrive in blocks. Every class that is not in the context appears at a random moment, so that new classes keep
   coming. The model takes in a block by `partial_fit`, and what it then says of its items is the answer that is judged.
3. After each block a person names some groups of unknown items: of the model's `groups_` those of at least 3 items, the
   largest first, at most 10. The person looks at the most typical item of a group and gives its true class, also where
   that is a known one. All these answers are taught together, `teach({row: class})`.

The figures, in percent, for some blocks or all of them:

context       accuracy on items of the context's classes
named         accuracy on items of new classes that were named before the item arrived
unknown       the part of the items of classes that were not yet named that is called unknown
auroc         of the outlier score, items of classes not yet named against all others. Scores of two blocks cannot be
              compared, as the model was fitted again: it is the mean over the blocks that have both kinds

and `classes`, the number of new classes named so far; `told`, the number of answers that the person gave; `mistakes`,
those among them that told a class which had a name already; `seconds`, the median over the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from _random_piles import NEVER_KNOWN

from handful.bench.runner import base_dependents, benchmark_base
from handful.bench.settings import Contender
from handful.core.base import Base
from handful.core.metrics import auroc
from handful.features import FeatureTable
from handful.solving import get_solver
from handful.solving.groups import Group
from handful.solving.solver import needed_base

CONTEXTS = ("small", "large")
SMALL_CLASSES = 5  # of the small context
MAX_CLASSES = 100  # of the large context, which has half of all classes
SHOTS = 5  # examples of a class of the context
MIN_GROUP = 3  # items of a group that a person looks at
MAX_NAMED = 10  # groups that a person names after a block


@dataclass(frozen=True, eq=False)
class Stream:
    """A context of labelled examples, and the items that arrive after it.

    Parameters
    ----------
    examples : array [S] of int
        The rows of the context's examples.
    arrivals : array [T] of int
        The rows of the other items, in the order in which they arrive.
    codes : array [n] of int
        The class of every row; -1 for rows that are not part of the world.
    context : array [N] of int
        The classes of the context.
    classes : int
        How many classes the world has.
    """

    examples: np.ndarray
    arrivals: np.ndarray
    codes: np.ndarray
    context: np.ndarray
    classes: int

    @property
    def truth(self) -> np.ndarray:
        """The class of each item that arrives, [T]."""
        truth: np.ndarray = self.codes[self.arrivals]
        return truth


def class_codes(table: FeatureTable) -> np.ndarray:
    """The class of each row as a number from 0, [n]; -1 for rows without a label, or of no class."""
    labels = table.need_labels()
    texts = np.array([str(label) for label in labels.tolist()])
    is_out = np.array([label is None or label == -1 for label in labels.tolist()]) | np.isin(texts, NEVER_KNOWN)
    codes = np.full(len(labels), -1)
    codes[~is_out] = np.unique(texts[~is_out], return_inverse=True)[1]
    return codes


def draw_stream(
    codes: np.ndarray, context: str = "small", *, items: int = 2000, classes: int | None = None, seed: int = 0
) -> Stream:
    """Draw a context and a stream.

    The stream takes the time from 0 to 1. A class that is not in the context appears at a moment that is uniform in
    this time. The items of a class arrive at uniform moments from its first moment on; those of the context's classes
    over the whole time.

    Parameters
    ----------
    codes : array [n] of int
        The class of each row, -1 for rows to leave out.
    context : {"small", "large"}
        "small": 5 classes. "large": half of all classes, at most 100. A class has 5 examples, or one less than items.
    items : int
        How many items arrive, at most.
    classes : int, optional
        How many classes the world has, at most; drawn at random. By default all.
    seed : int
        Another seed draws another stream.
    """
    if context not in CONTEXTS:
        raise ValueError(f"the context is {context!r}: give one of {', '.join(CONTEXTS)}")
    rng = np.random.default_rng(seed)
    world = rng.permutation(np.unique(codes[codes >= 0]))[:classes]
    counts = np.bincount(codes[codes >= 0], minlength=1)
    possible = world[counts[world] > 1]  # an example, and an item that arrives
    ways = SMALL_CLASSES if context == "small" else min(MAX_CLASSES, len(world) // 2)
    if ways >= len(world) or not 1 <= ways <= len(possible):
        raise ValueError(
            f"there are {len(world)} classes, {len(possible)} of them with two items or more: a {context} context "
            f"takes {max(ways, 1)} of these, and some others must be left to arrive"
        )
    known = np.sort(possible[:ways])
    examples = np.concatenate([rng.permutation(np.flatnonzero(codes == k))[: min(SHOTS, counts[k] - 1)] for k in known])
    rest = np.setdiff1d(np.flatnonzero(np.isin(codes, world)), examples)
    rest = np.sort(rng.permutation(rest)[:items])
    start = np.zeros(len(counts))
    start[world] = np.where(np.isin(world, known), 0.0, rng.uniform(size=len(world)))
    begin = start[codes[rest]]
    moments = begin + (1 - begin) * rng.uniform(size=len(rest))
    own = np.where(np.isin(codes, world), codes, -1)
    return Stream(examples, rest[np.argsort(moments, kind="stable")], own, known, len(world))


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
    """The items that a person looks at: the most typical one of each group that is large enough, the largest first."""
    large = sorted((group for group in groups if group.size >= MIN_GROUP), key=lambda group: -group.size)
    return [group.representative for group in large[:MAX_NAMED]]


def with_base(
    contenders: Sequence[Contender], table: FeatureTable, base: FeatureTable | Base | None
) -> list[Contender]:
    """The methods with the base that they need, or with its mean to centre on."""
    used = benchmark_base(base, table)
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


def figures(run: Run, blocks: Sequence[int] | np.ndarray | range) -> dict[str, float]:
    """The figures of some blocks of a run, and how many items of each kind they have."""
    blocks = np.asarray(blocks)
    truth, named_in = run.stream.truth, _named_in(run)
    is_here = np.isin(run.blocks, blocks)
    of_context = np.isin(truth, run.stream.context)
    is_named = ~of_context & (named_in[truth] < run.blocks)
    is_new = ~of_context & ~is_named
    is_right = run.answers == truth
    ranks = [
        auroc(run.scores[run.blocks == block], is_new[run.blocks == block])
        for block in blocks.tolist() if len(np.unique(is_new[run.blocks == block])) == 2
    ]  # fmt: skip
    told = [(truth[place], block) for place, block in run.told if block in blocks]
    repeated = [kind for kind, block in told if kind in run.stream.context or named_in[kind] < block]
    return {
        "items": int(is_here.sum()),
        "context_items": int((of_context & is_here).sum()),
        "named_items": int((is_named & is_here).sum()),
        "new_items": int((is_new & is_here).sum()),
        "context": _percent(is_right[of_context & is_here]),
        "named": _percent(is_right[is_named & is_here]),
        "unknown": _percent(run.answers[is_new & is_here] < 0),
        "auroc": 100 * float(np.mean(ranks)) if ranks else float("nan"),
        "classes": int((named_in <= blocks.max()).sum()),
        "told": len(told),
        "mistakes": len(repeated),
        "seconds": float(np.median([run.seconds[block] for block in blocks])),
    }


def _named_in(run: Run) -> np.ndarray:
    """The block after which each class that is not in the context was first named, [classes]; infinity if never."""
    named_in = np.full(run.stream.codes.max() + 1, np.inf)
    for place, block in run.told:
        kind = run.stream.truth[place]
        if kind not in run.stream.context:
            named_in[kind] = min(named_in[kind], block)
    return named_in


def _percent(is_so: np.ndarray) -> float:
    return 100 * float(is_so.mean()) if len(is_so) else float("nan")
