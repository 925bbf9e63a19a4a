"""A stream of items in which new classes keep coming, for `handful bench open-world`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handful.bench.piles import NEVER_KNOWN
from handful.features import FeatureTable

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

    Raises
    ------
    ValueError
        If there are too few classes.

    Examples
    --------
    >>> stream = draw_stream(np.repeat(np.arange(12), 20), items=100)
    >>> len(stream.examples), len(stream.arrivals), len(stream.context), stream.classes
    (25, 100, 5, 12)
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
