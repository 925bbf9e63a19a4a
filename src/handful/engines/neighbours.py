"""The neighbours of each item in a task, and features that are smoothed over them.

With x the prepared items of a task (the support first), G = x x^T, and S the symmetric normalised graph of each item's
k nearest others with weights max(G, 0)::

    y = L2(x + S x / 2)
"""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, unit


@dataclass
class Neighbours:
    """The items of a task, smoothed over their nearest, and what is needed to smooth new items."""

    items: Array  # prepared items, the examples first, [B, n, D]
    smooth: Array  # y, of unit length, [B, n, D]
    degrees: Array  # row sums of the graph, [B, n]
    k: int  # number of neighbours

    def of_new(self, x: Array) -> Array:
        """Smooth new items [B, M, D] over their k nearest items of the task."""
        xp = array_namespace(x)
        weights = _nearest(x @ xp.matrix_transpose(self.items), self.k)  # [B, M, n]
        own = at_least(xp.sum(weights, axis=-1, keepdims=True), FLOOR)
        weights = weights / xp.sqrt(own * at_least(self.degrees, FLOOR)[:, None, :])
        return unit(x + (weights @ self.items) / 2)


def smooth(support: Array, query: Array, k: int = 10) -> Neighbours:
    """Smooth the prepared items of each task over their k nearest."""
    xp = array_namespace(support)
    x = xp.concat([support, query], axis=1)
    n = x.shape[1]
    g = x @ xp.matrix_transpose(x)
    item = xp.arange(n)
    g[:, item, item] = -xp.inf  # no item is its own neighbour
    w = _nearest(g, min(k, n - 1))
    w = w + xp.matrix_transpose(w)
    degrees = xp.sum(w, axis=-1)
    root = 1 / xp.sqrt(at_least(degrees, FLOOR))
    y = unit(x + root[..., None] * (w @ (root[..., None] * x)) / 2)
    return Neighbours(x, y, degrees, min(k, n - 1))


def _nearest(g: Array, k: int) -> Array:
    """The value max(g, 0) where g is among the k largest of its row, and 0 elsewhere."""
    xp = array_namespace(g)
    if k < 1:
        return xp.zeros_like(g)
    kth = xp.sort(g, axis=-1, stable=False)[..., -k][..., None]
    return xp.where(g >= kth, at_least(g, 0.0), xp.zeros_like(g))
