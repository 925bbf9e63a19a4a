"""COPOD: copula-based outlier detection. Transductive in effect, a plain detector.

Li, Zhao, Botta, Ionescu, Hu: "COPOD: Copula-Based Outlier Detection", 2020. The score sums, over the features, how
far out in the tail of the empirical distribution an item lies; from PyOD, whose distribution is that of the support
and all items scored with it. A new item is therefore scored alone with the support and the pile.
"""

from __future__ import annotations

import numpy as np

from handful.arrays import Array, as_like, to_numpy
from handful.methods._pyod import detect, detector
from handful.methods.registry import Solution, register
from handful.methods.simpleshot import simpleshot


def score_new(state: dict[str, Array], items: Array, **_) -> tuple[Array, Array]:
    """Each new item joins the pile alone."""
    probabilities = simpleshot(state["support"], state["labels"], items).probabilities
    scores = np.empty(items.shape[:2])
    for b, (support, pile) in enumerate(zip(to_numpy(state["support"]), to_numpy(state["pile"]), strict=True)):
        fitted = detector("copod").fit(support)
        for i, item in enumerate(to_numpy(items)[b]):
            scores[b, i] = fitted.decision_function(np.concatenate([pile, item[None]]))[-1]
    return probabilities, as_like(scores, items)


@register("copod", score_new=score_new)
def copod(support: Array, labels: Array, query: Array) -> Solution:
    """No parameters."""
    solution = detect("copod", support, labels, query)
    solution.state = {"support": support, "labels": labels, "pile": query}
    return solution
