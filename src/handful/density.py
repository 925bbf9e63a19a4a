"""Kernel densities on smoothed similarities: the engine of KDO, and of the estimate of the outlier share.

With x the prepared items of a task (support first), G = x x^T, and S the symmetric normalised graph of each item's
k nearest others with weights max(G, 0)::

    y = L2(x + S x / 2),   H = y y^T                                     smoothed similarities
    E_ij = exp(beta (H_ij - 1)), i a query, j any item, E_ii = 0;  e0 = mean E over pairs of queries
    P_support = one-hot (2 + 4 / shots of that class), fixed;  P_query = 0 at first

and then, in each pass, for the known classes k and the outliers::

    l_ik  = 1/2 [beta cos(i, sum_j P_jk y_j) + log sum_j E_ij P_jk]
    l_out = log(sum_j E_ij P_j,out + 5 e0)
    bias += log target - log mean_i softmax(l + bias),   target = ((1 - share)/N, ..., (1 - share)/N, share)
    P_query = softmax(l + bias)

A small pile cannot show its shares: with Q below 10 (N + 1) queries the bias is drawn towards what it is found to be in
large piles, bias_k = -log N and bias_out = 1.9 + 1.9 share, by the part of the queries that lack.

The density keeps prototypes from drifting onto clusters of outliers; the floor 5 e0 is a constant outlier logit where
outliers are few. Arrays of logits are [B, N + 1, Q], items innermost.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

from array_api_compat import array_namespace

from handful.arrays import FLOOR, Array, as_like, at_least, logsumexp, one_hot, unit

BETA = 12.0  # sharpness of the kernel
OUTLIER_FLOOR = 5.0  # times e0
ENOUGH = 10  # queries for each class and the outliers, to hold shares by
PRESSURE = 1.903, 1.886  # the outliers' bias in large piles, as a line in their share
TINY = 1e-30  # inside logarithms of densities


@dataclass
class Neighbours:
    """The items of a task smoothed over their nearest: y [B, n, D] of unit length, and what new items need for it."""

    items: Array  # [B, n, D] as prepared
    smooth: Array  # y [B, n, D]
    degrees: Array  # [B, n] row sums of the graph
    k: int

    def of_new(self, x: Array) -> Array:
        """New items [B, M, D] smoothed over their k nearest among the task's."""
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
    g[:, item, item] = -xp.inf  # nobody is their own neighbour
    w = _nearest(g, min(k, n - 1))
    w = w + xp.matrix_transpose(w)
    degrees = xp.sum(w, axis=-1)
    root = 1 / xp.sqrt(at_least(degrees, FLOOR))
    y = unit(x + root[..., None] * (w @ (root[..., None] * x)) / 2)
    return Neighbours(x, y, degrees, min(k, n - 1))


def _nearest(g: Array, k: int) -> Array:
    """max(g, 0) where it is among the k largest of its row, else 0."""
    xp = array_namespace(g)
    if k < 1:
        return xp.zeros_like(g)
    kth = xp.sort(g, axis=-1, stable=False)[..., -k][..., None]
    return xp.where(g >= kth, at_least(g, 0.0), xp.zeros_like(g))


@dataclass
class Densities:
    """Where the passes ended: logits with their bias [B, N + 1, Q], and what scores new items."""

    logits: Array  # l + bias
    bias: Array  # [B, N + 1, 1]
    assignments: Array  # P [B, n, N + 1] that the logits were computed from
    floor: Array  # 5 e0, [B, 1, 1]

    @property
    def probabilities(self) -> Array:
        """[B, N + 1, Q], the outliers last."""
        return _softmax(self.logits)

    @property
    def score(self) -> Array:
        """[B, Q]: the log-odds of being an outlier."""
        return self.logits[:, -1] - logsumexp(self.logits[:, :-1], axis=1)[:, 0]


def densities(near: Neighbours, labels: Array, ways: int, share: Any, passes: int = 11) -> Densities:
    """Run the passes with the outlier share [B] (or a number) as the target."""
    xp = array_namespace(near.smooth)
    y, n_support = near.smooth, labels.shape[1]
    batch, n = y.shape[:2]
    n_query = n - n_support
    h = y @ xp.matrix_transpose(y)
    e = xp.exp(BETA * (h[:, n_support:] - 1))  # [B, Q, n]
    query = xp.arange(n_query)
    e[:, query, n_support + query] = 0
    floor = OUTLIER_FLOOR * _usual_kernel(h, e, n_support)

    known = one_hot(labels, ways + 1, like=y)  # [B, S, N + 1], never an outlier
    shots = at_least(xp.sum(known, axis=1, keepdims=True), 1.0)
    p = xp.concat([known * (2 + 4 / shots), xp.zeros((batch, n_query, ways + 1), dtype=y.dtype)], axis=1)
    share = as_like(share, y)
    share = xp.broadcast_to(share, (batch,))[:, None, None]
    target = xp.concat([xp.broadcast_to((1 - share) / ways, (batch, ways, 1)), share], axis=1)
    target = xp.log(at_least(target, FLOOR))
    trust = min(1.0, n_query / (ENOUGH * (ways + 1)))
    usual = xp.concat([xp.zeros_like(target[:, 1:]) - log(ways), PRESSURE[0] + PRESSURE[1] * share], axis=1)

    if not n_query:  # new items will come: the examples are all there is
        usual[:, -1] = PRESSURE[0]  # and of a pile that is not there no share is unknown
        return Densities(h[:, : ways + 1, :0], usual, p, floor)
    bias, logits, last = usual, usual, p
    for i in range(passes):
        used = xp.matrix_transpose(p)  # [B, N + 1, n]
        logits = _logits(used @ xp.matrix_transpose(h), used, used @ xp.matrix_transpose(e), n_support, floor)
        if i < 2:
            bias = xp.zeros_like(target)
        for _ in range(10 if i < 2 or i == passes - 1 else 1):
            bias = bias + target - xp.log(at_least(xp.mean(_softmax(logits + bias), axis=-1, keepdims=True), FLOOR))
        if trust < 1:
            bias = bias - logsumexp(bias[:, :-1], axis=1)  # its own zero is anywhere
            bias = usual + trust * (bias - usual)
        last = p
        p = xp.concat([p[:, :n_support], xp.matrix_transpose(_softmax(logits + bias))], axis=1)
    return Densities(logits + bias, bias, last, floor)


def _usual_kernel(h: Array, e: Array, n_support: int) -> Array:
    """e0 [B, 1, 1]: the mean over pairs of queries; over pairs with examples, or of them, if that is all there is."""
    xp = array_namespace(h)
    n_query = h.shape[1] - n_support
    if n_query > 1:
        total, pairs = xp.sum(e[:, :, n_support:], axis=(1, 2)), n_query * (n_query - 1)
    elif n_query == 1:
        total, pairs = xp.sum(e, axis=(1, 2)), n_support
    else:
        total, pairs = xp.sum(xp.exp(BETA * (h - 1)), axis=(1, 2)) - n_support, n_support * (n_support - 1)
    return at_least(total[:, None, None] / max(1, pairs), TINY)


def score_items(near: Neighbours, end: Densities, items: Array) -> Array:
    """l + bias [B, N + 1, M] of new prepared items, by the densities where they ended."""
    xp = array_namespace(items)
    fresh, used = near.of_new(items), xp.matrix_transpose(end.assignments)
    h = near.smooth @ xp.matrix_transpose(fresh)  # [B, n, M]
    prototypes = used @ near.smooth
    length = xp.sqrt(xp.vecdot(prototypes, prototypes))[..., None]
    cosine = (prototypes @ xp.matrix_transpose(fresh)) / at_least(length, FLOOR)
    density = used @ xp.exp(BETA * (h - 1))
    return _joined(cosine, density, end.floor) + end.bias


def _logits(toward: Array, used: Array, density: Array, n_support: int, floor: Array) -> Array:
    """From H P [B, N + 1, n], P and E P [B, N + 1, Q]: a prototype's length is sqrt(P^T H P)."""
    xp = array_namespace(toward)
    length = xp.sqrt(at_least(xp.sum(used * toward, axis=-1, keepdims=True), FLOOR))
    return _joined(toward[..., n_support:] / length, density, floor)


def _joined(cosine: Array, density: Array, floor: Array) -> Array:
    xp = array_namespace(cosine)
    known = (BETA * cosine[:, :-1] + xp.log(density[:, :-1] + TINY)) / 2
    return xp.concat([known, xp.log(density[:, -1:] + floor)], axis=1)


def _softmax(x: Array) -> Array:
    """Over the classes, axis 1."""
    xp = array_namespace(x)
    e = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)
