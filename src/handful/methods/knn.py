"""kNN distance as outlier score. Inductive, a plain detector.

Ramaswamy, Rastogi, Shim: "Efficient Algorithms for Mining Outliers from Large Data Sets", 2000, in the mean
form. The score is the mean Euclidean distance to the k nearest support items; classes come from SimpleShot.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from handful.arrays import Array, norms
from handful.methods.registry import Solution, register
from handful.methods.simpleshot import simpleshot
from handful.parameters import Number


@register("knn", rules={"k": Number(1, closed=True, whole=True, optional=True)})
def knn(support: Array, labels: Array, query: Array, *, k: int | None = None) -> Solution:
    """k: how many neighbours; None means 3, or 1 where some class has a single example."""
    xp = array_namespace(support)
    if k is None:
        k = 3 if support.shape[1] > int(labels.max()) + 1 else 1
    k = min(k, support.shape[1])
    squared = (
        xp.vecdot(query, query)[..., :, None]
        + xp.vecdot(support, support)[..., None, :]
        - 2 * (query @ xp.matrix_transpose(support))
    )  # [B, Q, S]
    nearest = xp.argsort(squared, axis=-1)[..., :k]
    # that difference of large numbers tells who is near, but not how near: a twin's distance must be 0
    apart = query[:, :, None, :] - support[xp.arange(support.shape[0])[:, None, None], nearest]  # [B, Q, k, D]
    return Solution(simpleshot(support, labels, query).probabilities, xp.mean(norms(apart)[..., 0], axis=-1))
