"""Isolation forest. Inductive, a plain detector.

Cuts the feature space by random splits along single features until each example is alone; an item that few cuts isolate
is called an outlier. Made for large tables with a few meaningful columns, where it is fast and robust. A handful of
examples gives it shallow `trees`, and among the hundreds of features of a backbone any single one says little: the
score is then little better than chance. It takes random draws, so small differences between runs with another
`random_state` mean nothing. Use it when items are described by tens of measured features and examples are many.

Liu, Ting, Zhou: "Isolation Forest", 2008. The score says how few random cuts isolate an item from the support. It
comes from PyOD.
"""

from __future__ import annotations

from typing import Any

from handful.core.arrays import Array
from handful.core.parameters import Count, Part, Whole
from handful.methods._pyod import detect
from handful.methods.registry import BY_SHOTS, Info, Solution, register

INFO = Info(
    name="iforest",
    estimator="IForest",
    title="Isolation forest",
    authors="Liu, Ting, Zhou",
    year=2008,
    paper="Isolation Forest (ICDM 2008)",
    setting="detector",
    summary="Outlier score: how few random cuts isolate an item. Classes as SimpleShot.",
    new_items="by the forest of the examples",
    by_shots={"max_features": {"1": 0.5, "5": 0.75}},
    extra="ood",
)


@register(INFO)
def iforest(
    support: Array,
    labels: Array,
    query: Array,
    *,
    trees: Count = 100,
    max_features: Part = BY_SHOTS,
    random_state: Whole = 0,
) -> Solution:
    """Score queries by an isolation forest of the examples.

    Parameters
    ----------
    trees : int, default 100
        Number of trees.
    max_features : float, default 0.5 (1 shot) or 0.75 (5 shots)
        The share of the features that each tree sees.
    random_state : int, default 0
        Seed of the forest.
    """
    options: dict[str, Any] = {"n_estimators": trees, "max_features": max_features, "random_state": random_state}
    return detect("iforest", support, labels, query, **options)
