"""COPOD: copula-based outlier detection. Transductive in effect, a plain detector.

Looks at each feature by itself: how far out in the tail of the values of all items, examples and pile together, does
this item lie? The surprises of all features are summed. It has no parameters and suits tables with meaningful columns
and rare outliers. It does not know which items are examples, so where unknowns are many they are the usual ones, and
features of a backbone are high exactly where an item is typical of its class. On embeddings the ranking is near chance,
and below it in piles with many unknowns.

Li, Zhao, Botta, Ionescu, Hu: "COPOD: Copula-Based Outlier Detection", 2020. The score is a sum over the features: how
far out an item lies in the tail of the empirical distribution. It comes from PyOD, which takes the distribution of the
support and of all items that are scored with it::

    U_l, U_r = -log share of items <= it, -log share of items >= it             for each feature
    score    = sum over features of max(U_l or U_r by the skewness, (U_l + U_r) / 2)

A new item is compared with the distribution of the support and the pile, and does not become part of it. An item beyond
all others counts as the outermost one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.core.arrays import Array, as_like, to_numpy
from handful.methods._pyod import detect
from handful.methods.registry import Info, Solution, register
from handful.methods.simpleshot import simpleshot

INFO = Info(
    name="copod",
    estimator="COPOD",
    title="COPOD",
    authors="Li, Zhao, Botta, Ionescu, Hu",
    year=2020,
    paper="COPOD: Copula-Based Outlier Detection (ICDM 2020)",
    paradigm="transductive",
    setting="detector",
    summary="Outlier score: how far out in the tails of the features' distributions, summed. Classes as SimpleShot.",
    new_items="by the distribution of the examples and the pile",
    extra="ood",
    state={"support": "1 S D", "labels": "1 S", "pile": "1 Q D"},
)


def score_new(state: dict[str, Array], items: Array, **_: Any) -> tuple[Array, Array]:
    """Score new items by the distribution of the examples and the pile."""
    from scipy.stats import skew

    probabilities = simpleshot(state["support"], state["labels"], items).probabilities
    scores = np.empty(items.shape[:2])
    both = np.concatenate([to_numpy(state["support"]), to_numpy(state["pile"])], axis=1)
    for b, (new, x) in enumerate(zip(to_numpy(items), np.sort(both, axis=1), strict=True)):
        columns = list(zip(x.T, new.T, strict=True))
        below = np.stack([np.searchsorted(old, v, side="right") for old, v in columns], axis=1)  # [n, D]
        above = len(x) - np.stack([np.searchsorted(old, v, side="left") for old, v in columns], axis=1)
        left, right = (-np.log(np.maximum(count, 1) / len(x)) for count in (below, above))
        sign = np.sign(np.nan_to_num(skew(both[b], axis=0)))  # a constant feature has no skewness
        tail = np.where(sign < 1, left, 0) + np.where(sign > -1, right, 0)
        scores[b] = np.maximum(tail, (left + right) / 2).sum(axis=1)
    return probabilities, as_like(scores, items)


@register(INFO, score_new=score_new)
def copod(support: Array, labels: Array, query: Array) -> Solution:
    """Score queries by the tails of the features' empirical distributions."""
    solution = detect("copod", support, labels, query)
    solution.state = {"support": support, "labels": labels, "pile": query}
    return solution
