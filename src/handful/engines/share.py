"""How much of a pile is unknown? An estimate of the outlier share of a task, with how sure it is.

KDO (`handful.engines.density`) can hold the outliers of a pile at any share g. What that takes is tried at a few g, and
three things are read off::

    c(g) = mean_i H(p_out,i) / H(g)                       how undecided the items are, against a coin with that bias
    r(g) = pressure(g) - law(g)                           above 0 where g is too much, below where it is too little
    m    = 0.3 - 4 cover, within [0, 1]                   from what the examples cover

r is the slope of what holding the outliers at g costs, so R(g), the sum of r up to g, is lowest at the true share even
where r crosses 0 more than once. `cover` needs no passes: with one example of each class, how similar is the best one
to a query, against the best of N queries drawn at random, in units of the spread of similarities? Classes that the
examples do not show push it below 0. Then ::

    cost(g) = log c(g) + 4 R(g) + 1/2 min(r(g)^2, 3) + 3 (g - m)^2,     weight(g) ~ exp(-100 cost(g))

and the estimate is the weighted mean of g; of a pile of fewer than 10 (N + 1) items it is drawn towards one half, by
the square of the part that lacks. The numbers were chosen on other pictures' features than any that results
are shown on; docs/outlier-share.md says how.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, as_like, at_least, class_count, to_numpy
from handful.core.prepare import prepare
from handful.engines.density import ENOUGH, LEAST_SPREAD, TINY, Kernels, densities, kernels, smooth

PREPARATION = ("signed(0.6)", "l2", "task", "l2")
TRIED = (0.01, 0.03, 0.06, 0.1, 1 / 6, 0.25, 1 / 3, 0.42, 0.5, 0.58, 2 / 3, 0.75, 5 / 6, 0.9, 0.95, 0.98)
FINE = np.concatenate([[0.01, 0.015], np.arange(0.02, 0.98, 0.01), [0.98]])  # between those tried, by lines
PASSES = 6
MOST = 2000  # queries; kernels are quadratic
SHARP, UNSURE = 100.0, 5.0  # what costs are weighed by, for the estimate and for its interval


@dataclass
class Share:
    """Estimates [B], each with an interval [B, 2] that holds the true share four times in five."""

    estimate: np.ndarray
    interval: np.ndarray


def of_task(support: Array, labels: Array, query: Array) -> Share:
    """The estimate for a batch of tasks as they come, [B, S, D], codes [B, S] and [B, Q, D]; of a large pile, a sample.

    >>> rng = np.random.default_rng(0)
    >>> cats, dogs, hens = (rng.normal(scale=0.3, size=(40, 8)) + 2 * np.eye(8)[k] for k in range(3))
    >>> pile = np.concatenate([cats[5:], dogs[5:], hens])
    >>> found = of_task(np.concatenate([cats[:5], dogs[:5]])[None], np.repeat([[0, 1]], 5, axis=1), pile[None])
    >>> bool(abs(found.estimate[0] - 40 / 110) < 0.05)
    True
    """
    query = query[:, sample(query.shape[1], MOST)]
    prepared = prepare(support, query, PREPARATION)
    return estimate(kernels(smooth(prepared.support, prepared.query), labels, class_count(labels)), labels)


def sample(n: int, most: int) -> np.ndarray:
    """Numbers below n, in order: all, or `most` of them, drawn at random but always the same."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).permutation(n)[:most])


def estimate(of: Kernels, labels: Array) -> Share:
    """The estimate from the kernels of a batch of tasks."""
    xp = array_namespace(of.h)
    if not of.queries:
        return Share(np.full(len(of.h), 0.5), np.broadcast_to([0.0, 1.0], (len(of.h), 2)))
    tried = as_like(TRIED, of.h)[None]
    end = densities(of, tried, PASSES, hold=True)
    unsure = xp.mean(_entropy(end.probabilities[..., -1, :]), axis=-1) / _entropy(tried)
    excess = end.pressure - of.law(tried)
    unsure, excess = (to_numpy(x).astype(np.float64) for x in (unsure, excess))

    unsure, excess = unsure @ _LINES, excess @ _LINES  # [B, F]
    middle = np.clip(0.3 - 4 * cover(of, labels), 0, 1)[:, None]
    cost = np.log(unsure + 0.02) + 4 * np.cumsum(excess * _STEPS, axis=1) + np.minimum(excess**2, 3) / 2
    cost += 3 * (FINE - middle) ** 2
    cost -= cost.min(axis=1, keepdims=True)
    enough = min(1.0, of.queries / (ENOUGH * (of.ways + 1)))
    found = _weights(cost, SHARP * enough) @ FINE
    found += (1 - enough) ** 2 * (0.5 - found)
    low, high = _interval(_weights(cost, UNSURE * enough)).T
    return Share(found, np.stack([np.minimum(low, found), np.maximum(high, found)], axis=-1))


def cover(of: Kernels, labels: Array) -> np.ndarray:
    """[B]: how much more similar queries are to the best of N examples, one a class, than to the best of N queries."""
    n_support, others = labels.shape[1], of.nearest.shape[-1]
    similar = to_numpy(of.h)[:, :n_support, n_support:]  # [B, S, Q]
    best = _best_of_each(similar.swapaxes(1, 2), to_numpy(labels), of.ways).mean(axis=-1)
    nearest = to_numpy(of.nearest)
    usual = (nearest @ _best_of(min(of.ways, others), others)).mean(axis=-1)
    difference: np.ndarray = (best - usual) / at_least(nearest.std(axis=(1, 2)), LEAST_SPREAD)
    return difference


def _best_of_each(similar: np.ndarray, labels: np.ndarray, ways: int) -> np.ndarray:
    """[B, Q]: the expected largest of the similarities [B, Q, S] to one example of each class, drawn at random."""
    order = np.argsort(similar, axis=-1)
    of_class = np.take_along_axis(labels[:, None, :], order, axis=-1)
    at_most = 1.0  # P(none drawn is more similar), along the sorted ones
    for k in range(ways):
        seen = np.cumsum(of_class == k, axis=-1)
        at_most = at_most * seen / seen[..., -1:]
    is_best = np.diff(at_most, axis=-1, prepend=0.0)
    expected: np.ndarray = (np.take_along_axis(similar, order, axis=-1) * is_best).sum(axis=-1)
    return expected


def _best_of(draws: int, n: int) -> np.ndarray:
    """P(the t-th smallest of n is the largest of so many drawn) [n]."""
    t = np.arange(1, n + 1)
    rest = np.array([lgamma(k) - lgamma(k - draws + 1) if k >= draws else -np.inf for k in t])
    weights: np.ndarray = np.exp(rest - rest.max(initial=0.0))
    weights /= max(weights.sum(), FLOOR)
    return weights


def _entropy(p: Array) -> Array:
    xp = array_namespace(p)
    return -(p * xp.log(at_least(p, TINY)) + (1 - p) * xp.log(at_least(1 - p, TINY)))


def _weights(cost: np.ndarray, sharp: float) -> np.ndarray:
    weights: np.ndarray = np.exp(-sharp * cost) * _STEPS
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _interval(weights: np.ndarray) -> np.ndarray:
    """The middle four fifths of each row's weight, [B, 2]; near an end of what was tried, up to that end."""
    below = np.cumsum(weights, axis=1) - weights / 2
    ends = np.stack([np.interp([0.1, 0.9], row, FINE) for row in below])
    return np.where(ends < 0.04, 0.0, np.where(ends > 0.97, 1.0, ends))


_LINES = np.stack([np.interp(FINE, TRIED, one) for one in np.eye(len(TRIED))])  # [G, F]
_STEPS = np.gradient(FINE)
