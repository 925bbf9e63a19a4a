"""An estimate of the outlier share of a task, with an interval.

KDO (`handful.engines.density`) can hold the outliers of a pile at any share g. It is run at a few shares, which gives
three quantities::

    c(g) = mean_i H(p_out,i) / H(g)                       how undecided the items are, compared with a coin of bias g
    r(g) = pressure(g) - law(g)                           above 0 where g is too large, below 0 where it is too small
    m    = 0.3 - 4 cover, within [0, 1]                   from how well the examples cover the pile

r is the slope of the cost of holding the outliers at g. So R(g), the sum of r up to g, is lowest at the true share even
where r crosses 0 more than once. `cover` needs no passes. It compares two similarities of a query: to the best of N
examples, one of each class, and to the best of N random queries. Their difference is divided by the spread of
similarities. Classes without examples push it below 0. Then ::

    cost(g) = log c(g) + 4 R(g) + 1/2 min(r(g)^2, 3) + 3 (g - m)^2,     weight(g) ~ exp(-100 cost(g))

and the estimate is the weighted mean of g. For a pile of fewer than 10 (N + 1) items it is drawn towards one half, by
the square of the missing part. The numbers were chosen on features of pictures that no published result uses;
docs/outlier-share.md says how.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, as_like, at_least, class_count, to_numpy
from handful.core.prepare import prepare
from handful.engines.density import DENSITY_FLOOR, MIN_QUERIES_PER_CLASS, MIN_SPREAD, Kernels, densities, kernels
from handful.engines.neighbours import smooth

PREPARATION = ("signed(0.6)", "l2", "task", "l2")
TRIED_SHARES = (0.01, 0.03, 0.06, 0.1, 1 / 6, 0.25, 1 / 3, 0.42, 0.5, 0.58, 2 / 3, 0.75, 5 / 6, 0.9, 0.95, 0.98)
FINE_SHARES = np.concatenate([[0.01, 0.015], np.arange(0.02, 0.98, 0.01), [0.98]])  # interpolated between those
PASSES = 6
MAX_QUERIES = 2000  # of a task: kernels are quadratic in it
ESTIMATE_SHARPNESS, INTERVAL_SHARPNESS = 100.0, 5.0  # the factor of the cost in the weights


@dataclass
class Share:
    """Estimates of the outlier shares of a batch of tasks.

    Parameters
    ----------
    estimate : array [B]
        The estimated shares.
    interval : array [B, 2]
        Each interval should hold the true share four times in five.
    """

    estimate: np.ndarray
    interval: np.ndarray


def of_task(support: Array, labels: Array, query: Array) -> Share:
    """Estimate the outlier share of each task of a batch.

    Parameters
    ----------
    support : array [B, S, D]
        Features of the examples, not prepared.
    labels : array of int [B, S]
        The class of each example, from 0 to N - 1.
    query : array [B, Q, D]
        Features of the pile, not prepared. Of a pile with more than `MAX_QUERIES` items a sample is used.

    Returns
    -------
    Share
        Estimates and intervals.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cats, dogs, hens = (rng.normal(scale=0.3, size=(40, 8)) + 2 * np.eye(8)[k] for k in range(3))
    >>> pile = np.concatenate([cats[5:], dogs[5:], hens])
    >>> share = of_task(np.concatenate([cats[:5], dogs[:5]])[None], np.repeat([[0, 1]], 5, axis=1), pile[None])
    >>> bool(abs(share.estimate[0] - 40 / 110) < 0.05)
    True
    """
    query = query[:, sample(query.shape[1], MAX_QUERIES)]
    prepared = prepare(support, query, PREPARATION)
    return estimate(kernels(smooth(prepared.support, prepared.query), labels, class_count(labels)), labels)


def sample(n: int, size: int) -> np.ndarray:
    """Numbers below n, ascending: all of them, or a random sample of this size, which is always the same."""
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).permutation(n)[:size])


def estimate(kernel: Kernels, labels: Array) -> Share:
    """Estimate the outlier shares from the kernels of a batch of tasks."""
    xp = array_namespace(kernel.h)
    batch = len(kernel.h)
    if not kernel.queries:
        return Share(np.full(batch, 0.5), np.broadcast_to([0.0, 1.0], (batch, 2)))
    tried = as_like(TRIED_SHARES, kernel.h)[None]
    end = densities(kernel, tried, PASSES, exact_share=True)
    doubt = xp.mean(_entropy(end.probabilities[..., -1, :]), axis=-1) / _entropy(tried)
    excess = end.pressure - kernel.law(tried)
    doubt, excess = (to_numpy(x).astype(np.float64) for x in (doubt, excess))

    doubt, excess = doubt @ _LINES, excess @ _LINES  # [B, F]
    middle = np.clip(0.3 - 4 * cover(kernel, labels), 0, 1)[:, None]
    cost = np.log(doubt + 0.02) + 4 * np.cumsum(excess * _STEPS, axis=1) + np.minimum(excess**2, 3) / 2
    cost += 3 * (FINE_SHARES - middle) ** 2
    cost -= cost.min(axis=1, keepdims=True)
    trust = min(1.0, kernel.queries / (MIN_QUERIES_PER_CLASS * (kernel.ways + 1)))
    shares = _weights(cost, ESTIMATE_SHARPNESS * trust) @ FINE_SHARES
    shares += (1 - trust) ** 2 * (0.5 - shares)
    low, high = _interval(_weights(cost, INTERVAL_SHARPNESS * trust)).T
    return Share(shares, np.stack([np.minimum(low, shares), np.maximum(high, shares)], axis=-1))


def cover(kernel: Kernels, labels: Array) -> np.ndarray:
    """How much more similar a query is to the best of N examples, one per class, than to the best of N queries: [B]."""
    n_support, n_others = labels.shape[1], kernel.nearest.shape[-1]
    similarities = to_numpy(kernel.h)[:, :n_support, n_support:]  # [B, S, Q]
    best = _best_of_each(similarities.swapaxes(1, 2), to_numpy(labels), kernel.ways).mean(axis=-1)
    nearest = to_numpy(kernel.nearest)
    usual = (nearest @ _best_of(min(kernel.ways, n_others), n_others)).mean(axis=-1)
    return np.asarray((best - usual) / at_least(nearest.std(axis=(1, 2)), MIN_SPREAD))


def _best_of_each(similarities: np.ndarray, labels: np.ndarray, ways: int) -> np.ndarray:
    """The expected largest of the similarities [B, Q, S] to one random example of each class, [B, Q]."""
    order = np.argsort(similarities, axis=-1)
    of_class = np.take_along_axis(labels[:, None, :], order, axis=-1)
    at_most: float | np.ndarray = 1.0  # P(no drawn example is more similar than this one), in ascending order
    for k in range(ways):
        count = np.cumsum(of_class == k, axis=-1)
        at_most = at_most * count / count[..., -1:]
    is_best = np.diff(at_most, axis=-1, prepend=0.0)
    return np.asarray((np.take_along_axis(similarities, order, axis=-1) * is_best).sum(axis=-1))


def _best_of(draws: int, n: int) -> np.ndarray:
    """P(the t-th smallest of n values is the largest of this many random draws), for each t, [n]."""
    t = np.arange(1, n + 1)
    logs = np.array([lgamma(k) - lgamma(k - draws + 1) if k >= draws else -np.inf for k in t])
    weights = np.exp(logs - logs.max(initial=0.0))
    return np.asarray(weights / max(weights.sum(), FLOOR))


def _entropy(p: Array) -> Array:
    xp = array_namespace(p)
    return -(p * xp.log(at_least(p, DENSITY_FLOOR)) + (1 - p) * xp.log(at_least(1 - p, DENSITY_FLOOR)))


def _weights(cost: np.ndarray, sharpness: float) -> np.ndarray:
    weights = np.exp(-sharpness * cost) * _STEPS
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _interval(weights: np.ndarray) -> np.ndarray:
    """The middle four fifths of the weight of each row, [B, 2]. Near 0 or 1 the interval reaches to that end."""
    below = np.cumsum(weights, axis=1) - weights / 2
    ends = np.stack([np.interp([0.1, 0.9], row, FINE_SHARES) for row in below])
    return np.where(ends < 0.04, 0.0, np.where(ends > 0.97, 1.0, ends))


_LINES = np.stack([np.interp(FINE_SHARES, TRIED_SHARES, unit) for unit in np.eye(len(TRIED_SHARES))])  # [G, F]
_STEPS = np.gradient(FINE_SHARES)
