"""kNN distance as outlier score. Inductive, a plain detector.

Ramaswamy, Rastogi, Shim: "Efficient Algorithms for Mining Outliers from Large Data Sets", 2000, in the mean
form. The score is the mean Euclidean distance to the k nearest support items; classes come from SimpleShot.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from handful.core.arrays import Array, squared_distances
from handful.core.parameters import Number
from handful.methods.contract import BY_SHOTS, Info, Solution
from handful.methods.registry import register
from handful.methods.simpleshot import simpleshot

INFO = Info(
    name="knn",
    estimator="KNN",
    title="kNN distance",
    authors="Ramaswamy, Rastogi, Shim",
    year=2000,
    paper="Efficient Algorithms for Mining Outliers from Large Data Sets (SIGMOD 2000)",
    paradigm="inductive",
    setting="detector",
    preparation=("base", "l2"),
    score="rank",
    summary="Outlier score: mean distance to the nearest support items. Classes as SimpleShot.",
    new_items="by the stored examples",
    by_shots={"k": {"1": 1, "5": 3}},
    state={"support": "1 S D", "labels": "1 S"},
)

TINY = 0.1  # of the terms: what is left of their difference has lost a digit


@register(INFO, chunk_factor=1 / 2, rules={"k": Number(1, closed=True, whole=True, optional=True)})
def knn(support: Array, labels: Array, query: Array, *, k: int = BY_SHOTS) -> Solution:
    """k: how many neighbours."""
    xp = array_namespace(support)
    squares = squared_distances(query, support)
    nearest = xp.sort(squares, axis=-1, stable=False)[..., :k]  # [B, Q, k]; a stable sort takes five times as long
    # A difference of large numbers: where little is left of them it is taken again, exactly. A twin's distance is 0.
    large = xp.vecdot(query, query) + xp.max(xp.vecdot(support, support), axis=-1)[:, None]
    at = xp.nonzero(nearest[..., 0] < TINY * large)
    order = xp.argsort(squares[at], axis=-1)[:, :k]
    apart = query[at][:, None, :] - support[at[0][:, None], order]
    nearest[at] = xp.vecdot(apart, apart)
    return Solution(simpleshot(support, labels, query).probabilities, xp.mean(xp.sqrt(nearest), axis=-1))
