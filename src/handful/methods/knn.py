"""kNN distance as outlier score. Inductive, a plain detector.

Ramaswamy, Rastogi, Shim: "Efficient Algorithms for Mining Outliers from Large Data Sets", 2000, in the mean
form. The score is the mean Euclidean distance to the k nearest support items; classes come from SimpleShot.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from handful.arrays import Array, squared_distances
from handful.methods.registry import BY_SHOTS, Solution, register
from handful.methods.simpleshot import simpleshot
from handful.parameters import Number

TINY = 0.1  # of the terms: what is left of their difference has lost a digit


@register("knn", rules={"k": Number(1, closed=True, whole=True, optional=True)})
def knn(support: Array, labels: Array, query: Array, *, k: int = BY_SHOTS) -> Solution:
    """k: how many neighbours."""
    xp = array_namespace(support)
    squares = squared_distances(query, support)
    nearest = xp.argsort(squares, axis=-1)[..., :k]  # [B, Q, k]
    task, item = xp.arange(query.shape[0])[:, None, None], xp.arange(query.shape[1])[None, :, None]
    squares = squares[task, item, nearest]
    # A difference of large numbers: where little is left of them it is taken again, exactly. A twin's distance is 0.
    large = xp.vecdot(query, query)[..., None] + xp.max(xp.vecdot(support, support), axis=-1)[:, None, None]
    at = xp.nonzero(squares < TINY * large)
    apart = query[at[:2]] - support[at[0], nearest[at]]
    squares[at] = xp.vecdot(apart, apart)
    return Solution(simpleshot(support, labels, query).probabilities, xp.mean(xp.sqrt(squares), axis=-1))
