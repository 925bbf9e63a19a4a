"""The head of conformal novelty detection: a sample of items with their classes. Nothing is learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from handful.core.arrays import class_count, class_means, cosine_to, one_hot
from handful.methods import conformal
from handful.training.heads.head import Arrays, BaseItems, Head, Scores

MAX_ITEMS = 1500
MIN_ITEMS_PER_CLASS = 20  # classes are left out, if there are many, so that each has as many


def start(items: BaseItems, rng: np.random.Generator) -> Arrays:
    """Return an equal number of items of each class, as they come: the method prepares them as the task is."""
    codes, counts = np.unique(items.unseen[items.unseen >= 0], return_counts=True)
    codes, counts = (x[counts >= min(MIN_ITEMS_PER_CLASS, np.median(counts))] for x in (codes, counts))
    picked = rng.permutation(len(codes))[: MAX_ITEMS // MIN_ITEMS_PER_CLASS]
    each = min(int(counts[picked].min()), MAX_ITEMS // len(picked))
    rows = [rng.permutation(np.flatnonzero(items.unseen == code))[:each] for code in codes[picked]]
    return {"items": items.raw[np.concatenate(rows)], "codes": np.repeat(np.arange(len(picked)), each)}


def score(arrays: Mapping[str, Any], support: Any, labels: np.ndarray, query: Any) -> Scores:
    """Return cosines and distances, which rank items of a task as p-values do."""
    onehot = one_hot(labels, class_count(labels), like=support)
    means = class_means(support, onehot)
    return 10 * cosine_to(query, means), conformal.nearest(query, means, 1 + 1 / onehot.sum(axis=1))


HEAD = Head(start, score, None)
