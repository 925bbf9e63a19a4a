"""Kernel densities on smoothed similarities: the engine of KDO, and of the estimate of the outlier share.

With x the prepared items of a task (support first), G = x x^T, and S the symmetric normalised graph of each item's
k nearest others with weights max(G, 0)::

    y = L2(x + S x / 2),   H = y y^T                                     smoothed similarities
    beta = 12 sqrt(0.18 / standard deviation of H over pairs of queries)
    E_ij = exp(beta (H_ij - 1)), i a query, j any item, E_ii = 0;  e0 = mean E over pairs of queries
    P_support = one-hot (2 + 4 / shots of that class), fixed;  P_query = 0 at first

and then, in each pass, for the known classes k and the outliers::

    l_ik  = 1/2 [beta cos(i, sum_j P_jk y_j) + log sum_j E_ij P_jk]
    l_out = log(sum_j E_ij P_j,out + 5 e0)
    bias += log target - log mean_i softmax(l + bias),   target = ((1 - share)/N, ..., (1 - share)/N, share)
    P_query = softmax(l + bias)

where each bias_k stays within 0.7 of their mean: classes are nudged towards equal sizes, which few examples need, and
not forced to them, since in a pile they seldom are. The density keeps prototypes from drifting onto clusters of
outliers; the floor 5 e0 is a constant outlier logit where outliers are few.

**The pressure** that holds the outliers at a share g is bias_out - logsumexp_k bias_k. At the true share it is what
makes up for the sizes of the two densities, by Bayes. That of the outliers is about (g Q + 5) e0, of Q queries; that of
a known class enters by its root and is about m e10, of its members m = (1 - g) Q / N + 2 shots + 4 and the mean kernel
e10 of a query to its ten nearest. So ::

    law(g) = log(g / (1 - g)) + 1/2 log(m e10) - log((g Q + 5) e0) + 5.2 g (1 - g) - 1/2

of which only the last two terms were fitted.

A small pile cannot show its shares: with Q below 10 (N + 1) the bias is drawn towards bias_k = -log N,
bias_out = law(share), by the part of the queries that lack.

Many shares are tried at once: arrays of logits are [B, G, N + 1, Q] for G shares, items innermost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, logsumexp, one_hot, unit

BETA, SPREAD = 12.0, 0.18  # the sharpness of the kernel where similarities have this spread
LEAST_SPREAD = 0.02
OUTLIER_FLOOR = 5.0  # times e0
ENOUGH = 10  # queries for each class and the outliers, to hold shares by
NEAREST = 10  # of e10
ALONE = 0.2  # the share of unknowns among what will come, where there is no pile to see it in
NUDGE = exp(0.7)  # at most so much more or less weight for a class than is usual
TINY = 1e-30  # inside logarithms of densities
LARGE = 1e15  # the outliers' weight is no larger, nor smaller than 1 / LARGE


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


@dataclass
class Graph:
    """Each item's nearest others in one task whose items come and go: NumPy arrays without a batch.

    It leads to the same `Neighbours` as `smooth`, but a change costs only the similarities it touches.
    """

    items: np.ndarray  # [n, D] as prepared
    nearest: np.ndarray  # [n, k or n - 1]
    similar: np.ndarray  # [n, k or n - 1]
    k: int

    @classmethod
    def of(cls, items: np.ndarray, k: int) -> Graph:
        """Return the graph of each item's `k` nearest items."""
        nobody = cls(items[:0], np.empty((0, k), np.intp), np.empty((0, k), items.dtype), k)
        return nobody.changed(np.arange(0), items)

    def changed(self, keep: np.ndarray, new: np.ndarray) -> Graph:
        """Only the items numbered in `keep`, in that order, and then the new ones [m, D]."""
        old, n = len(keep), len(keep) + len(new)
        width = min(self.k, n - 1)
        items = np.concatenate([self.items[keep], new])
        place = np.full(len(self.items), -1)
        place[keep] = np.arange(old)
        nearest, similar = place[self.nearest[keep]], self.similar[keep]
        bereft = (nearest < 0).any(axis=1) | (nearest.shape[1] < width)  # a neighbour has left: they look at everyone
        stay, rows = np.flatnonzero(~bereft), np.concatenate([np.flatnonzero(bereft), np.arange(old, n)])
        g = items[rows] @ items.T
        g[np.arange(len(rows)), rows] = -np.inf
        to_new = g[len(rows) - len(new) :, stay].T
        similar = np.concatenate([similar[stay], to_new], axis=1)
        nearest = np.concatenate([nearest[stay], np.broadcast_to(np.arange(old, n), to_new.shape)], axis=1)

        whole = Graph(items, np.empty((n, width), np.intp), np.empty((n, width), items.dtype), self.k)
        best = _first(similar, width)
        whole.nearest[stay] = np.take_along_axis(nearest, best, axis=1)
        whole.similar[stay] = np.take_along_axis(similar, best, axis=1)
        whole.nearest[rows] = best = _first(g, width)
        whole.similar[rows] = np.take_along_axis(g, best, axis=1)
        return whole

    def ordered(self, order: np.ndarray) -> Graph:
        """Return the same graph with its items in another order."""
        return Graph(self.items[order], np.argsort(order)[self.nearest[order]], self.similar[order], self.k)

    def neighbours(self) -> Neighbours:
        """Return the graph's weights, symmetric, and the items smoothed along them."""
        from scipy.sparse import csr_array

        (n, k), x = self.nearest.shape, self.items
        w = csr_array((at_least(self.similar, 0.0).ravel(), self.nearest.ravel(), np.arange(n + 1) * k), shape=(n, n))
        w = w + w.T
        degrees = w.sum(axis=1)
        root = (1 / np.sqrt(at_least(degrees, FLOOR)))[:, None]
        y = unit(x + root * (w @ (root * x)) / 2)
        return Neighbours(x[None], y[None], degrees[None], k)


def _first(g: np.ndarray, k: int) -> np.ndarray:
    """Where the k largest of each row are, [n, k], in no order."""
    return np.argpartition(-g, max(k - 1, 0), axis=1)[:, :k] if g.size else np.empty((len(g), k), np.intp)


def _nearest(g: Array, k: int) -> Array:
    """max(g, 0) where it is among the k largest of its row, else 0."""
    xp = array_namespace(g)
    if k < 1:
        return xp.zeros_like(g)
    kth = xp.sort(g, axis=-1, stable=False)[..., -k][..., None]
    return xp.where(g >= kth, at_least(g, 0.0), xp.zeros_like(g))


@dataclass
class Kernels:
    """Everything that passes at any share need of a batch of tasks."""

    h: Array  # [B, n, n]
    e: Array  # [B, Q, n]
    beta: Array  # [B]
    e0: Array  # [B], the mean kernel of two queries
    nearest: Array  # [B, Q, Q - 1] similarities of queries to each other, sorted up; of all items if Q < 2
    given: Array  # P_support as [B, N + 1, S]
    shots: float  # a class, on average

    @property
    def ways(self) -> int:
        """The number of known classes."""
        return int(self.given.shape[1]) - 1

    @property
    def queries(self) -> int:
        """The number of queries."""
        return int(self.e.shape[1])

    def law(self, share: Array) -> Array:
        """The pressure at the true share, [B, G] or [1, G] to [B, G]."""
        xp = array_namespace(self.h)
        e10 = xp.mean(xp.exp(self.beta[:, None, None] * (self.nearest[..., -NEAREST:] - 1)), axis=(-2, -1))
        members = (1 - share) * self.queries / self.ways + 2 * self.shots + 4
        known = xp.log(members * at_least(e10, TINY)[:, None]) / 2
        outliers = xp.log((share * self.queries + OUTLIER_FLOOR) * self.e0[:, None])
        return xp.log(share / (1 - share)) + known - outliers + 5.2 * share * (1 - share) - 0.5


def kernels(near: Neighbours, labels: Array, ways: int) -> Kernels:
    """H, E and what is measured on them."""
    xp = array_namespace(near.smooth)
    y, n_support = near.smooth, labels.shape[1]
    h = y @ xp.matrix_transpose(y)
    n_query = h.shape[1] - n_support
    among = (h if n_query < 2 else h[:, n_support:, n_support:]) + 0  # a copy
    item = xp.arange(among.shape[1])
    among[:, item, item] = -xp.inf
    nearest = xp.sort(among, axis=-1, stable=False)[..., 1:]
    beta = BETA * xp.sqrt(SPREAD / at_least(xp.std(nearest, axis=(1, 2)), LEAST_SPREAD))
    e = xp.exp(beta[:, None, None] * (h[:, n_support:] - 1))  # [B, Q, n]
    query = xp.arange(n_query)
    e[:, query, n_support + query] = 0
    known = one_hot(labels, ways + 1, like=y)  # [B, S, N + 1], never an outlier
    shots = at_least(xp.sum(known, axis=1, keepdims=True), 1.0)
    given = xp.matrix_transpose(known * (2 + 4 / shots))
    return Kernels(h, e, beta, _usual_kernel(h, e, beta, n_support), nearest, given, n_support / ways)


def _usual_kernel(h: Array, e: Array, beta: Array, n_support: int) -> Array:
    """e0 [B]: the mean over pairs of queries; over pairs with examples, or of them, if that is all there is."""
    xp = array_namespace(h)
    n_query = h.shape[1] - n_support
    if n_query > 1:
        total, pairs = xp.sum(e[:, :, n_support:], axis=(1, 2)), n_query * (n_query - 1)
    elif n_query == 1:
        total, pairs = xp.sum(e, axis=(1, 2)), n_support
    else:
        every = xp.exp(beta[:, None, None] * (h - 1))
        total, pairs = xp.sum(every, axis=(1, 2)) - n_support, n_support * (n_support - 1)
    return at_least(total / max(1, pairs), TINY)


@dataclass
class Densities:
    """Where the passes ended, for every share tried: logits with their bias, and what scores new items."""

    logits: Array  # l + bias, [B, G, N + 1, Q]
    bias: Array  # [B, G, N + 1]
    assignments: Array  # P that the logits were computed from, [B, G, N + 1, n]
    floor: Array  # 5 e0, [B]
    beta: Array  # [B]
    probabilities: Array = field(repr=False)  # softmax of the logits

    @property
    def pressure(self) -> Array:
        """[B, G]: the log-odds it takes to hold the outliers at their share."""
        return self.bias[..., -1] - logsumexp(self.bias[..., :-1], axis=-1)[..., 0]


def densities(of: Kernels, share: Array, passes: int = 11, hold: bool = False) -> Densities:
    """Run the passes with the outlier shares [B, G] (or [1, G]) as the target; hold: however small the pile is."""
    xp = array_namespace(of.h)
    batch, ways, n_query = of.h.shape[0], of.ways, of.queries
    share = xp.broadcast_to(share, (batch, share.shape[1]))
    tried, n_support = share.shape[1], of.given.shape[-1]
    floor = OUTLIER_FLOOR * of.e0
    given = xp.broadcast_to(of.given[:, None], (batch, tried, ways + 1, n_support))
    known = xp.broadcast_to((1 - share)[..., None] / ways, (batch, tried, ways))
    target = xp.concat([known, share[..., None]], axis=-1)  # [B, G, N + 1]
    usual = xp.concat([xp.zeros_like(known) - log(ways), of.law(share)[..., None]], axis=-1)
    trust = 1.0 if hold else min(1.0, n_query / (ENOUGH * (ways + 1)))

    p = xp.concat([given, xp.zeros((batch, tried, ways + 1, n_query), dtype=of.h.dtype)], axis=-1)
    if not n_query:  # new items will come: the examples are all there is, and few of what comes is taken for unknown
        usual[..., -1] = of.law(xp.zeros_like(share) + ALONE)
        return Densities(p[..., :0], usual, p, floor, of.beta, p[..., :0])
    weight = xp.zeros_like(target) + 1  # exp(bias)
    bias = usual
    for i in range(passes):
        flat = xp.reshape(p, (batch, tried * (ways + 1), -1))
        toward = xp.reshape(flat @ of.h, p.shape)
        density = xp.reshape(flat @ xp.matrix_transpose(of.e), (*p.shape[:-1], n_query))
        length = xp.sqrt(at_least(xp.vecdot(p, toward), FLOOR))[..., None]
        logits = _joined(of.beta[:, None, None, None] * toward[..., n_support:] / length, density, floor)
        odds = xp.exp(logits - xp.max(logits, axis=2, keepdims=True))
        weight = xp.zeros_like(target) + 1 if i < 2 else weight
        for _ in range(10 if i < 2 or i == passes - 1 else 1):
            weight = _nudged(weight * target / at_least(xp.mean(_parts(odds, weight), axis=-1), FLOOR))
        if trust < 1:
            bias = xp.log(weight)
            bias = bias - logsumexp(bias[..., :-1], axis=-1)  # its own zero is anywhere
            bias = usual + trust * (bias - usual)
            weight = xp.exp(bias)
        used = p
        p = xp.concat([given, _parts(odds, weight)], axis=-1)
    bias = xp.log(weight)
    return Densities(logits + bias[..., None], bias, used, floor, of.beta, p[..., n_support:])


def _nudged(weight: Array) -> Array:
    """exp(bias) about a mean bias of 0 for the classes, theirs within a factor of it; only ratios mean something."""
    xp = array_namespace(weight)
    weight = weight / xp.exp(xp.mean(xp.log(weight[..., :-1]), axis=-1, keepdims=True))
    known = xp.minimum(at_least(weight[..., :-1], 1 / NUDGE), xp.full_like(weight[..., :-1], NUDGE))
    return xp.concat([known, at_least(-at_least(-weight[..., -1:], -LARGE), 1 / LARGE)], axis=-1)


def score_items(near: Neighbours, end: Densities, items: Array) -> Array:
    """l + bias [B, N + 1, M] of new prepared items, by the densities where they ended at the first share."""
    xp = array_namespace(items)
    fresh, used = near.of_new(items), end.assignments[:, 0]
    h = near.smooth @ xp.matrix_transpose(fresh)  # [B, n, M]
    prototypes = used @ near.smooth
    length = xp.sqrt(xp.vecdot(prototypes, prototypes))[..., None]
    cosine = (prototypes @ xp.matrix_transpose(fresh)) / at_least(length, FLOOR)
    beta = end.beta[:, None, None]
    return _joined(beta * cosine, used @ xp.exp(beta * (h - 1)), end.floor) + end.bias[:, 0, :, None]


def _joined(cosine: Array, density: Array, floor: Array) -> Array:
    """l [B, ..., N + 1, M] of beta times cosines to prototypes, and of densities; the outliers have no prototype."""
    xp = array_namespace(cosine)
    known = (cosine[..., :-1, :] + xp.log(density[..., :-1, :] + TINY)) / 2
    floor = xp.reshape(floor, (-1,) + (1,) * (density.ndim - 1))
    return xp.concat([known, xp.log(density[..., -1:, :] + floor)], axis=-2)


def _parts(odds: Array, weight: Array) -> Array:
    """softmax(l + bias) of exp(l) and exp(bias)."""
    xp = array_namespace(odds)
    weighted = odds * weight[..., None]
    return weighted / xp.sum(weighted, axis=-2, keepdims=True)
