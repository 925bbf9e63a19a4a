"""kNN distance as outlier score. Inductive, a plain detector.

Ramaswamy, Rastogi, Shim: "Efficient Algorithms for Mining Outliers from Large Data Sets", 2000, in the mean
form. The score is the mean Euclidean distance to the k nearest support items; classes come from SimpleShot.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from handful.arrays import Array, norms, squared_distances
from handful.methods.registry import BY_SHOTS, Solution, register
from handful.methods.simpleshot import simpleshot
from handful.parameters import Number


@register("knn", rules={"k": Number(1, closed=True, whole=True, optional=True)})
def knn(support: Array, labels: Array, query: Array, *, k: int = BY_SHOTS) -> Solution:
    """k: how many neighbours."""
    xp = array_namespace(support)
    nearest = xp.argsort(squared_distances(query, support), axis=-1)[..., :k]  # [B, Q, k]
    # that difference of large numbers tells who is near, but not how near: a twin's distance must be 0
    apart = query[:, :, None, :] - support[xp.arange(support.shape[0])[:, None, None], nearest]  # [B, Q, k, D]
    return Solution(simpleshot(support, labels, query).probabilities, xp.mean(norms(apart)[..., 0], axis=-1))
