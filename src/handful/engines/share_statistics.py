"""What a task shows of its outlier share: numbers that the posterior of the share is computed from.

KDO (`handful.engines.density`) holds the outliers of a pile at any share g. At each share g that is tried::

    c(g) = mean_i H(p_out,i) / H(g)          how undecided the items are, compared with a coin of bias g
    r(g) = pressure(g) - law(g)              above 0 where g is too large, below 0 where it is too small
    R(g) = sum of r up to g                  what holding the outliers at g costs

A first estimate is the mean of g with the weights exp(-100 cost(g)), ::

    cost(g) = log c(g) + 4 R(g) + 1/2 min(r(g)^2, 3) + 3 (g - m)^2,      m = 0.3 - 4 cover, within [0, 1]

and a first interval is the middle of the weights exp(-5 cost(g)). `cover` compares two similarities of a query: to the
best of N examples, one of each class, and to the best of N random queries. Classes without examples push it below 0.

Further numbers describe the features. They tell fine-grained classes from loose ones: how similar examples of different
classes are, how similar queries are to their best class, and how many of them are more similar to it than the examples
themselves are, each example left out of its own class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lgamma

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, as_like, at_least, to_numpy
from handful.engines.density import DENSITY_FLOOR, MIN_SPREAD, Densities, Kernels

TRIED_SHARES = (0.01, 0.03, 0.06, 0.1, 1 / 6, 0.25, 1 / 3, 0.42, 0.5, 0.58, 2 / 3, 0.75, 5 / 6, 0.9, 0.95, 0.98)
FINE_SHARES = np.concatenate([[0.01, 0.015], np.arange(0.02, 0.98, 0.01), [0.98]])  # interpolated between those
ESTIMATE_SHARPNESS, INTERVAL_SHARPNESS = 100.0, 5.0  # the factor of the cost in the weights
MAX_EXCESS = 6.0  # larger values of r say no more
WEIGHED_BY_SIZE = (  # they say more with many examples and items
    "log-odds of g", "g", "log c", "r", "first estimate - g", "low end - g", "high end - g",
)  # fmt: skip
USUAL_ITEMS = 90.0  # of a pile
QUERY_LEVELS = (25, 50, 75)  # percentiles of the queries' similarity to their best class
MAX_SIMILARITY = 0.98  # of an example to the others of its class; above it they are copies
LAST = 1e9  # sorts behind every similarity
EXAMPLE_LEVELS = (10, 30, 50, 70)  # percentiles of the examples' similarity to their own class


@dataclass
class Measured:
    """What is measured on the matrices of a batch of tasks; everything else follows from it.

    The array version (`measure`) and the kernel (`handful.engines.share`) both fill it.
    """

    labels: np.ndarray  # [B, S], N for an example of no class
    ways: int  # N
    shots: float  # mean number of examples per class
    examples: np.ndarray  # H between examples, [B, S, S]
    best: np.ndarray  # the cosine of each query to the best sum of a class's examples, [B, Q]
    spread: np.ndarray  # standard deviation of H over pairs of queries, [B]
    squares: np.ndarray  # sum of H^2 over all queries and queries, [B]
    cover: np.ndarray  # [B]
    entropy: np.ndarray  # mean_i H(p_out,i) at each share, [B, G]
    excess: np.ndarray  # r(g), [B, G]


def measure(kernel: Kernels, labels: Array, end: Densities) -> Measured:
    """Measure what the estimate of the share needs."""
    xp = array_namespace(kernel.h)
    codes, h, ways = to_numpy(labels), to_numpy(kernel.h), kernel.ways
    n_support = codes.shape[1]
    nearest = to_numpy(kernel.nearest)
    spread = np.maximum(nearest.std(axis=(1, 2)), MIN_SPREAD)
    member = _members(codes, ways)
    examples = h[:, :n_support, :n_support].astype(np.float64)
    to_classes = h[:, n_support:, :n_support] @ member
    to_classes /= np.sqrt(_own(_products(examples, member)))[:, None, :]
    shares = as_like(np.array(TRIED_SHARES), kernel.h)[None]
    entropy = to_numpy(xp.mean(_entropy(end.probabilities[..., -1, :]), axis=-1)).astype(np.float64)
    squares = np.square(h[:, n_support:, n_support:], dtype=np.float64).sum(axis=(1, 2))
    excess = to_numpy(end.pressure - kernel.law(shares)).astype(np.float64)
    return Measured(
        codes, ways, kernel.shots, examples, to_classes.max(axis=-1), spread, squares, cover(kernel, codes),
        entropy, excess,
    )  # fmt: skip


def columns(measured: Measured) -> dict[str, np.ndarray]:
    """Every number as an array [B, G], a column for each share that was tried."""
    g = np.array(TRIED_SHARES)
    doubt = measured.entropy / _entropy(g)
    low, first, high = _first_estimate(measured.cover, doubt, measured.excess)
    doubt, excess = np.log(doubt + 0.02), np.clip(measured.excess, -MAX_EXCESS, MAX_EXCESS)
    cost = np.cumsum(excess * np.gradient(g), axis=1)
    batch = len(doubt)
    at_share = {
        "log-odds of g": np.broadcast_to(np.log(g / (1 - g)), (batch, len(g))),
        "g": np.broadcast_to(g, (batch, len(g))),
        "log c": doubt,
        "slope of log c": np.gradient(doubt, axis=1),
        "r": excess,
        "R": cost - cost.min(axis=1, keepdims=True),
        "first estimate - g": first[:, None] - g,
        "low end - g": low[:, None] - g,
        "high end - g": high[:, None] - g,
    }
    few_shots, many_items = 1 / measured.shots, np.log(max(measured.best.shape[1], 1) / USUAL_ITEMS)
    at_share |= {f"{name} / shots": at_share[name] * few_shots for name in WEIGHED_BY_SIZE}
    at_share |= {f"{name} x log items": at_share[name] * many_items for name in WEIGHED_BY_SIZE}
    for name, values in _of_task(measured).items():
        at_share[name] = np.broadcast_to(values[:, None], (batch, len(g)))
        at_share[f"{name} x (g - 1/2)"] = values[:, None] * (g - 0.5)
    return at_share


def _of_task(measured: Measured) -> dict[str, np.ndarray]:
    """Numbers [B] of whole tasks."""
    ways, batch, n_query = measured.ways, len(measured.labels), measured.best.shape[1]
    examples, best = measured.examples.astype(np.float64), np.sort(measured.best, axis=-1).astype(np.float64)
    member = _members(measured.labels, ways)
    count = member.sum(axis=1)  # [B, N]
    products = _products(examples, member)
    own = _own(products)
    queries = percentiles(best, np.full(batch, n_query), QUERY_LEVELS)
    between_pairs = np.maximum(count.sum(axis=1) ** 2 - (count**2).sum(axis=1), 1)
    between = (products.sum(axis=(1, 2)) - np.diagonal(products, axis1=1, axis2=2).sum(axis=1)) / between_pairs
    cosines = products / np.sqrt(own[:, :, None] * own[:, None, :])
    cosines[:, np.arange(ways), np.arange(ways)] = -1.0
    nearest_class = cosines.max(axis=-1).mean(axis=1) if ways > 1 else np.zeros(batch)
    above, is_compared = _queries_above(examples, member, count, own, best)
    numbers = {
        "classes": np.full(batch, float(ways)),
        "log shots": np.full(batch, np.log(measured.shots)),
        "log items": np.full(batch, np.log(max(n_query, 1))),
        "one shot": (~is_compared.any(axis=1)).astype(np.float64),
        "spread": measured.spread,
        "between classes": between,
        "nearest class": nearest_class,
        "dimensions per class": n_query**2 / np.maximum(measured.squares, 1.0) / ways,
    }
    numbers |= {f"queries at {level} %": queries[k] for k, level in enumerate(QUERY_LEVELS)}
    return numbers | {f"queries above {level} % of examples": above[k] for k, level in enumerate(EXAMPLE_LEVELS)}


def _members(labels: np.ndarray, ways: int) -> np.ndarray:
    """Which class an example is of, [B, S, N]."""
    return np.asarray(labels[..., None] == np.arange(ways), np.float64)


def _products(examples: np.ndarray, member: np.ndarray) -> np.ndarray:
    """Sums of similarities between classes, [B, N, N]."""
    return np.asarray(member.swapaxes(1, 2) @ (examples @ member))


def _own(products: np.ndarray) -> np.ndarray:
    """Squared lengths of the classes' sums, [B, N]."""
    return np.asarray(np.maximum(np.diagonal(products, axis1=1, axis2=2), FLOOR))


def percentiles(ascending: np.ndarray, count: np.ndarray, levels: tuple[int, ...]) -> np.ndarray:
    """Percentiles [L, B] of the first `count` [B] values of each sorted row; 0 without any. NumPy's cost far more."""
    if not ascending.shape[1]:
        return np.zeros((len(levels), len(ascending)))
    place = np.array(levels)[:, None] / 100 * np.maximum(count - 1, 0)  # [L, B]
    below = np.floor(place).astype(np.intp)
    row = np.arange(len(ascending))
    low, high = ascending[row, below], ascending[row, np.minimum(below + 1, np.maximum(count - 1, 0))]
    return np.where(count > 0, low + (high - low) * (place - below), 0.0)


def interpolate(at: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Row by row what `np.interp` gives: at [L] or [B, L] on the lines through the points x, y, each [B, P] or [P]."""
    shape = np.broadcast_shapes(x.shape, y.shape, (len(at) if at.ndim > 1 else 1, 1))
    x, y, at = np.broadcast_to(x, shape), np.broadcast_to(y, shape), np.broadcast_to(at, (shape[0], at.shape[-1]))
    right = np.clip((x[:, None] <= at[..., None]).sum(axis=-1), 1, shape[1] - 1)
    (x_left, y_left), (x_right, y_right) = (
        [np.take_along_axis(values, place, axis=1) for values in (x, y)] for place in (right - 1, right)
    )
    part = np.clip((at - x_left) / (x_right - x_left), 0, 1)
    return np.asarray(y_left + part * (y_right - y_left))


def _queries_above(
    examples: np.ndarray, member: np.ndarray, count: np.ndarray, own: np.ndarray, best: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How many queries are more similar to their best class than a percentile of the examples to their own, [L, B].

    An example is left out of its class. A class of fewer examples has a shorter mean, which is corrected. Copies of one
    example say nothing, and are not compared. The second array says which examples are, [B, S]; without any, it is 0.
    """
    to_own = ((examples @ member) * member).sum(axis=-1)  # with itself, [B, S]
    of_class = np.maximum((member @ count[..., None])[..., 0], 1)  # examples in the own class, [B, S]; 1 without one
    others = to_own - np.diagonal(examples, axis1=1, axis2=2)
    length = np.maximum((member @ own[..., None])[..., 0] - 2 * to_own + 1, FLOOR)  # of the others' sum, squared
    fewer = np.maximum(of_class - 1, 1)
    usable = (of_class > 1.5) & (others / fewer < MAX_SIMILARITY)
    pairs = np.maximum(usable.sum(axis=1), 1)
    within = np.clip((np.where(usable, others / fewer, 0)).sum(axis=1) / pairs, 0.0, 1.0)[:, None]
    correction = np.sqrt((within + (1 - within) / fewer) / np.maximum(within + (1 - within) / of_class, FLOOR))
    similarity = np.sort(np.where(usable, others / np.sqrt(length) * correction, LAST), axis=1)
    limits = percentiles(similarity, usable.sum(axis=1), EXAMPLE_LEVELS)[..., None]  # [L, B, 1]
    above = (best > limits).mean(axis=-1) if best.shape[1] else np.zeros(limits.shape[:2])
    return np.where(usable.any(axis=1), above, 0.0), usable


def _first_estimate(
    cover: np.ndarray, doubt: np.ndarray, excess: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The low end of the first interval, the first estimate and the high end, [B] each."""
    doubt, excess = doubt @ _LINES, excess @ _LINES  # [B, F]
    middle = np.clip(0.3 - 4 * cover, 0, 1)[:, None]
    cost = np.log(doubt + 0.02) + 4 * np.cumsum(excess * _STEPS, axis=1) + np.minimum(excess**2, 3) / 2
    cost += 3 * (FINE_SHARES - middle) ** 2
    cost -= cost.min(axis=1, keepdims=True)
    estimate = _weights(cost, ESTIMATE_SHARPNESS) @ FINE_SHARES
    weights = _weights(cost, INTERVAL_SHARPNESS)
    below = np.cumsum(weights, axis=1) - weights / 2
    low, high = interpolate(np.array([0.1, 0.9]), below, FINE_SHARES).T
    return np.minimum(low, estimate), estimate, np.maximum(high, estimate)


def cover(kernel: Kernels, labels: np.ndarray) -> np.ndarray:
    """How much more similar a query is to the best of N examples, one per class, than to the best of N queries: [B]."""
    n_support, n_others = labels.shape[1], kernel.nearest.shape[-1]
    similarities = to_numpy(kernel.h)[:, :n_support, n_support:]  # [B, S, Q]
    best = _best_of_each(similarities.swapaxes(1, 2), labels, kernel.ways).mean(axis=-1)
    nearest = to_numpy(kernel.nearest)
    usual = (nearest @ best_of_weights(min(kernel.ways, n_others), n_others)).mean(axis=-1)
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


@lru_cache
def best_of_weights(draws: int, n: int) -> np.ndarray:
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


_LINES = np.stack([np.interp(FINE_SHARES, TRIED_SHARES, unit) for unit in np.eye(len(TRIED_SHARES))])  # [G, F]
_STEPS = np.gradient(FINE_SHARES)
