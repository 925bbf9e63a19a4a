"""The neighbours of each item in a task, and features that are smoothed over them.

With x the prepared items of a task (the support first), G = x x^T, and S the symmetric normalised graph of each item's
k nearest others with weights max(G, 0)::

    y = L2(x + S x / 2)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, unit


@dataclass
class Neighbours:
    """The items of a task, smoothed over their nearest, and what is needed to smooth new items.

    Parameters
    ----------
    items : array [B, n, D]
        Prepared items, the support first.
    smooth : array [B, n, D]
        The smoothed items y, of unit length.
    degrees : array [B, n]
        Row sums of the graph.
    k : int
        Number of neighbours.
    """

    items: Array
    smooth: Array
    degrees: Array
    k: int

    def of_new(self, x: Array) -> Array:
        """Smooth new items [B, M, D] over their k nearest items of the task."""
        xp = array_namespace(x)
        weights = _nearest(x @ xp.matrix_transpose(self.items), self.k)  # [B, M, n]
        own = at_least(xp.sum(weights, axis=-1, keepdims=True), FLOOR)
        weights = weights / xp.sqrt(own * at_least(self.degrees, FLOOR)[:, None, :])
        return unit(x + (weights @ self.items) / 2)


def smooth(support: Array, query: Array, k: int = 10) -> Neighbours:
    """Smooth the prepared items of each task over their k nearest.

    Parameters
    ----------
    support, query : array [B, S, D], array [B, Q, D]
        Prepared features.
    k : int
        Number of neighbours.

    Returns
    -------
    Neighbours
        The smoothed items.
    """
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


@dataclass
class Graph:
    """The nearest others of each item in one task whose items change: NumPy arrays without a batch axis.

    It gives the same `Neighbours` as `smooth`, but a change computes only the similarities that it affects.
    """

    items: np.ndarray  # [n, D] as prepared
    nearest: np.ndarray  # [n, k or n - 1]
    similarities: np.ndarray  # [n, k or n - 1]
    k: int

    @classmethod
    def of(cls, items: np.ndarray, k: int) -> Graph:
        """The graph of items [n, D]."""
        empty = cls(items[:0], np.empty((0, k), np.intp), np.empty((0, k), items.dtype), k)
        return empty.changed(np.arange(0), items)

    def changed(self, keep: np.ndarray, new: np.ndarray) -> Graph:
        """The graph of the items numbered in `keep`, in that order, followed by new items [m, D]."""
        n_kept, n = len(keep), len(keep) + len(new)
        width = min(self.k, n - 1)
        items = np.concatenate([self.items[keep], new])
        place = np.full(len(self.items), -1)
        place[keep] = np.arange(n_kept)
        nearest, similarities = place[self.nearest[keep]], self.similarities[keep]
        # An item that lost a neighbour is compared with all items; the others only with the new ones.
        is_incomplete = (nearest < 0).any(axis=1) | (nearest.shape[1] < width)
        complete = np.flatnonzero(~is_incomplete)
        rows = np.concatenate([np.flatnonzero(is_incomplete), np.arange(n_kept, n)])
        g = items[rows] @ items.T
        g[np.arange(len(rows)), rows] = -np.inf
        to_new = g[len(rows) - len(new) :, complete].T
        similarities = np.concatenate([similarities[complete], to_new], axis=1)
        nearest = np.concatenate([nearest[complete], np.broadcast_to(np.arange(n_kept, n), to_new.shape)], axis=1)

        graph = Graph(items, np.empty((n, width), np.intp), np.empty((n, width), items.dtype), self.k)
        columns = _largest(similarities, width)
        graph.nearest[complete] = np.take_along_axis(nearest, columns, axis=1)
        graph.similarities[complete] = np.take_along_axis(similarities, columns, axis=1)
        graph.nearest[rows] = columns = _largest(g, width)
        graph.similarities[rows] = np.take_along_axis(g, columns, axis=1)
        return graph

    def ordered(self, order: np.ndarray) -> Graph:
        """The same graph with its items in another order."""
        return Graph(self.items[order], np.argsort(order)[self.nearest[order]], self.similarities[order], self.k)

    def neighbours(self) -> Neighbours:
        """The smoothed items, as `smooth` gives them."""
        from scipy.sparse import csr_array

        (n, k), x = self.nearest.shape, self.items
        weights = at_least(self.similarities, 0.0).ravel()
        w = csr_array((weights, self.nearest.ravel(), np.arange(n + 1) * k), shape=(n, n))
        w = w + w.T
        degrees = w.sum(axis=1)
        root = (1 / np.sqrt(at_least(degrees, FLOOR)))[:, None]
        y = unit(x + root * (w @ (root * x)) / 2)
        return Neighbours(x[None], y[None], degrees[None], k)


def _largest(g: np.ndarray, k: int) -> np.ndarray:
    """The columns of the k largest values of each row, [n, k], in no order."""
    return np.argpartition(-g, max(k - 1, 0), axis=1)[:, :k] if g.size else np.empty((len(g), k), np.intp)


def _nearest(g: Array, k: int) -> Array:
    """The value max(g, 0) where g is among the k largest of its row, and 0 elsewhere."""
    xp = array_namespace(g)
    if k < 1:
        return xp.zeros_like(g)
    kth = xp.sort(g, axis=-1, stable=False)[..., -k][..., None]
    return xp.where(g >= kth, at_least(g, 0.0), xp.zeros_like(g))
