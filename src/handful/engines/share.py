"""How much of a pile is unknown: a posterior over shares, its median, and an interval.

KDO (`handful.engines.density`) is run with the outliers held at each of sixteen shares. What it shows of the true share
(`handful.engines.share_statistics`) gives P(share > g) at each of them (`handful.engines.share_posterior`). So every
share has a weight. The estimate is the median. The interval holds the middle four fifths of the posterior.

A pile of fewer than 20 items cannot show its share, nor can one class alone: the posterior is drawn towards one in
which all shares are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from handful.core.arrays import FLOOR, Array, as_like, class_count, with_unknown
from handful.engines import density
from handful.engines.density import Densities, densities, kernels
from handful.engines.kernels import call, can_use, joined
from handful.engines.neighbours import Neighbours, smooth
from handful.engines.preparation import prepare
from handful.engines.share_posterior import current
from handful.engines.share_statistics import TRIED_SHARES, Measured, best_of_weights, columns, interpolate, measure

PREPARATION = ("signed(0.6)", "l2", "task", "l2")
NEIGHBOURS, PASSES = 10, 6
MAX_QUERIES = 2000  # of a task: kernels are quadratic in it
MIN_ITEMS = 20  # of a pile that can show its share
ONE_CLASS_TRUST = 0.1  # a class that cannot be compared with another one does not show where it ends
LOW, HIGH = 0.012, 0.975  # an end of the interval beyond these is 0 or 1


@dataclass
class Share:
    """The posterior of the outlier share of each task of a batch."""

    above: np.ndarray  # P(share > g) for each of `TRIED_SHARES`, [B, G]
    end: Densities | None = None  # KDO with the outliers held at each of these shares

    @property
    def weights(self) -> np.ndarray:
        """How probable each of the tried shares is, [B, G]; rows sum to 1."""
        between = (self.above[:, :-1] + self.above[:, 1:]) / 2
        one = np.ones((len(between), 1))
        return -np.diff(np.concatenate([one, between, 0 * one], axis=1), axis=1)

    def quantiles(self, levels: Any) -> np.ndarray:
        """The shares below which the true share lies with these probabilities, [B, L]."""
        shares = np.array([0.0, *TRIED_SHARES, 1.0])
        tiny = 1e-9 * np.arange(len(shares))  # so that it rises
        below = np.pad(1 - self.above, [(0, 0), (1, 1)], constant_values=(0, 1))
        return interpolate(np.asarray(levels, float), below + tiny, shares)

    @property
    def estimate(self) -> np.ndarray:
        """The median of the posterior, [B]: the true share is as likely above as below it."""
        median: np.ndarray = np.clip(self.quantiles([0.5])[:, 0], TRIED_SHARES[0], TRIED_SHARES[-1])
        return median

    @property
    def interval(self) -> np.ndarray:
        """The interval that should hold the true share four times in five, [B, 2]."""
        ends = self.quantiles([0.1, 0.9])
        return np.asarray(np.where(ends < LOW, 0.0, np.where(ends > HIGH, 1.0, ends)))


def of_task(
    support: Array, labels: Array, query: Array, unknown: Array | None = None, *, backend: str = "auto"
) -> Share:
    """Estimate the outlier share of each task of a batch from features that are not prepared; labels are 0 to N - 1."""
    ways = class_count(labels)
    query = query[:, sample(query.shape[1], MAX_QUERIES)]
    support, labels = with_unknown(support, labels, unknown)
    prepared = prepare(support, query, PREPARATION, backend=backend)
    return smooth_and_estimate(prepared.support, labels, prepared.query, ways, NEIGHBOURS, backend)[1]


def sample(n: int, size: int) -> np.ndarray:
    """Numbers below n, ascending: all of them, or a random sample of this size, which is always the same."""
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).permutation(n)[:size])


def smooth_and_estimate(
    support: Array, codes: Array, query: Array, ways: int, neighbours: int, backend: str
) -> tuple[Neighbours, Share]:
    """Smooth prepared items over their neighbours, and estimate the outlier share of each task."""
    tried = as_like(np.array(TRIED_SHARES), query)[None]
    items, end, measured = solve(support, codes, query, ways, neighbours, tried, PASSES, MIN_ITEMS, backend)
    return items, from_measured(measured, end) if measured else Share(_alike(len(support)), end)


def from_measured(measured: Measured, end: Densities) -> Share:
    """Estimate the outlier shares from what was measured on a batch of tasks that have queries."""
    trust = min(1.0, measured.best.shape[1] / MIN_ITEMS) * (1.0 if measured.ways > 1 else ONE_CLASS_TRUST)
    above = trust * current().above(columns(measured)) + (1 - trust) * _alike(len(measured.best))
    return Share(above, end)


def solve(
    support: Array, codes: Array, query: Array, ways: int, neighbours: int, shares: Array, passes: int,
    min_queries: int | None = None, backend: str = "auto",
) -> tuple[Neighbours, Densities, Measured | None]:  # fmt: skip
    """Smooth prepared items, run KDO with the outliers held at shares [B, G] or [1, G], and measure what it shows.

    Nothing is measured without queries, and where the shares are not `TRIED_SHARES`.
    """
    measures = shares.shape[1] == len(TRIED_SHARES) and query.shape[1] > 0
    if query.shape[1] > 1 and can_use(backend, support, query):  # without a pair of queries there is nothing to smooth
        return _solve_in_c(support, codes, query, ways, neighbours, shares, passes, min_queries, measures)
    items = smooth(support, query, neighbours)
    kernel = kernels(items, codes, ways)
    end = densities(kernel, shares, passes, min_queries)
    return items, end, measure(kernel, codes, end) if measures else None


def _solve_in_c(
    support: np.ndarray, codes: np.ndarray, query: np.ndarray, ways: int, neighbours: int, shares: np.ndarray,
    passes: int, min_queries: int | None, measures: bool,
) -> tuple[Neighbours, Densities, Measured | None]:  # fmt: skip
    x, codes = joined(support, query), np.ascontiguousarray(codes, dtype=np.int64)
    (batch, n_items, dimension), (n_support, n_query), dtype = x.shape, (codes.shape[1], query.shape[1]), x.dtype
    n_shares, k = shares.shape[1], min(neighbours, n_items - 1)
    shares = np.array(np.broadcast_to(shares, (batch, n_shares)), np.float64, order="C")
    trust = min(1.0, n_query / (min_queries or density.MIN_QUERIES_PER_CLASS * (ways + 1)))

    def empty(*shape: int, dtype: Any = dtype) -> np.ndarray:
        return np.empty((batch, *shape), dtype)

    smoothed, degrees, h = empty(n_items, dimension), empty(n_items), empty(n_items, n_items)
    assignments, bias = empty(n_shares, ways + 1, n_items), empty(n_shares, ways + 1)
    probabilities, best = empty(n_shares, ways + 1, n_query), empty(n_query)
    entropy, excess, numbers = (empty(count, dtype=np.float64) for count in (n_shares, n_shares, 5))
    draws = best_of_weights(min(ways, n_query - 1), n_query - 1).astype(dtype)
    sizes = np.array([batch, n_support, n_query, dimension, ways, k, n_shares, passes, measures], np.int64)
    constants = np.array([
        trust, density.USUAL_BETA, density.USUAL_SPREAD, density.MIN_SPREAD, density.OUTLIER_FLOOR,
        density.NEAREST_QUERIES, density.MAX_CLASS_WEIGHT, density.MAX_OUTLIER_WEIGHT, density.DENSITY_FLOOR, FLOOR,
    ])  # fmt: skip
    call(
        "density", dtype, sizes, constants, x, codes, shares, draws,
        smoothed, degrees, h, assignments, probabilities, bias, best, entropy, excess, numbers,
    )  # fmt: skip
    beta, e0, spread, squares, cover = numbers.T
    floor = (density.OUTLIER_FLOOR * e0).astype(dtype)
    end = Densities(bias, assignments, floor, beta.astype(dtype), probabilities, h)
    shots, examples = int((codes[0] < ways).sum()) / ways, h[:, :n_support, :n_support]
    measured = Measured(codes, ways, shots, examples, best, spread, squares, cover, entropy, excess)
    return Neighbours(x, smoothed, degrees, k), end, measured if measures else None


def _alike(batch: int) -> np.ndarray:
    """P(share > g) [B, G] where all shares are alike."""
    return np.broadcast_to(1 - np.array(TRIED_SHARES), (batch, len(TRIED_SHARES)))
