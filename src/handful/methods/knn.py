"""kNN distance as outlier score. Inductive, a plain detector.

The outlier score is the mean distance to the `k` nearest examples, of any class. It makes no assumption about the shape
of classes, needs neither a pile nor a share of outliers, and is the strongest of the plain detectors and the best
inductive method here: hard to beat when unknowns are few or items come one at a time. Every example counts equally, so
unknowns near a wrong or odd example are missed, and with one example per class only the distance to the nearest one is
left. It does not learn from the pile, which is why EOL, OSTIM and OSLO are better.

Ramaswamy, Rastogi, Shim: "Efficient Algorithms for Mining Outliers from Large Data Sets", 2000, in the mean
form. The score is the mean Euclidean distance to the k nearest support items; classes come from SimpleShot.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from handful.core.arrays import Array, squared_distances
from handful.core.parameters import Count
from handful.methods.registry import BY_SHOTS, Info, Solution, register
from handful.methods.simpleshot import simpleshot

INFO = Info(
    name="knn",
    estimator="KNN",
    title="kNN distance",
    authors="Ramaswamy, Rastogi, Shim",
    year=2000,
    paper="Efficient Algorithms for Mining Outliers from Large Data Sets (SIGMOD 2000)",
    setting="detector",
    summary="Outlier score: mean distance to the nearest support items. Classes as SimpleShot.",
    by_shots={"k": {"1": 1, "5": 3}},
)

MIN_RELATIVE_DISTANCE = 0.1  # a squared distance below this part of its terms has lost a digit to rounding


@register(INFO, chunk_factor=1 / 2)
def knn(support: Array, labels: Array, query: Array, *, k: Count = BY_SHOTS) -> Solution:
    """Score queries by the mean distance to their nearest examples.

    Parameters
    ----------
    k : int, default 1 (1 shot) or 3 (5 shots)
        Number of nearest examples.
    """
    xp = array_namespace(support)
    squares = squared_distances(query, support)
    nearest = xp.sort(squares, axis=-1, stable=False)[..., :k]  # [B, Q, k]; a stable sort takes five times as long
    # The squares are differences of large numbers. Where they are small they are computed again, exactly, so that
    # the distance to a copy is 0.
    terms = xp.vecdot(query, query) + xp.max(xp.vecdot(support, support), axis=-1)[:, None]
    close = xp.nonzero(nearest[..., 0] < MIN_RELATIVE_DISTANCE * terms)
    order = xp.argsort(squares[close], axis=-1)[:, :k]
    difference = query[close][:, None, :] - support[close[0][:, None], order]
    nearest[close] = xp.vecdot(difference, difference)
    return Solution(simpleshot(support, labels, query).probabilities, xp.mean(xp.sqrt(nearest), axis=-1))
