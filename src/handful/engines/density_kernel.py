"""Smoothed items, kernel densities at each share, and what the share is estimated from: all by one kernel in C."""

from __future__ import annotations

import numpy as np

from handful.core.arrays import FLOOR, Array
from handful.engines import density
from handful.engines.density import Densities
from handful.engines.kernels import call, can_use
from handful.engines.neighbours import Neighbours
from handful.engines.share_statistics import Measured, best_of_weights


def can_solve(backend: str, support: Array, query: Array) -> bool:
    """Whether the kernel computes tasks of these arrays: without a pair of queries there is nothing to measure."""
    return query.shape[1] > 1 and can_use(backend, support, query)


def solve(
    support: np.ndarray,
    codes: np.ndarray,
    query: np.ndarray,
    ways: int,
    neighbours: int,
    shares: np.ndarray,
    passes: int,
    min_queries: int | None = None,
) -> tuple[Neighbours, Densities, Measured]:
    """Do what `neighbours.smooth`, `density.kernels`, `density.densities` and `share_statistics.measure` do.

    Parameters
    ----------
    support, query : array [B, S, D], array [B, Q, D]
        Prepared features, with at least two queries.
    codes : array of int [B, S]
        The class of each example, from 0 to N - 1; N for an example of no class.
    ways : int
        N, the number of known classes.
    neighbours : int
        Number of neighbours that each item is smoothed over.
    shares : array [B, G] or [1, G]
        The shares of outliers.
    passes : int
        Number of passes.
    min_queries : int, optional
        The size of a pile in which the share is held exactly; by default 10 (N + 1).

    Returns
    -------
    tuple of Neighbours, Densities and Measured
        As the array code computes them.
    """
    x, codes = np.concatenate([support, query], axis=1), np.ascontiguousarray(codes, dtype=np.int64)
    (batch, n_items, dimension), (n_support, n_query), dtype = x.shape, (codes.shape[1], query.shape[1]), x.dtype
    n_shares, k = np.shape(shares)[1], min(neighbours, n_items - 1)
    shares = np.array(np.broadcast_to(np.asarray(shares, np.float64), (batch, n_shares)), order="C")
    trust = min(1.0, n_query / (min_queries or density.MIN_QUERIES_PER_CLASS * (ways + 1)))
    smooth, degrees = np.empty_like(x), np.empty((batch, n_items), dtype)
    assignments = np.empty((batch, n_shares, ways + 1, n_items), dtype)
    probabilities = np.empty((batch, n_shares, ways + 1, n_query), dtype)
    bias = np.empty((batch, n_shares, ways + 1), dtype)
    examples, best = np.empty((batch, n_support, n_support), dtype), np.empty((batch, n_query), dtype)
    entropy, excess, numbers = np.empty((batch, n_shares)), np.empty((batch, n_shares)), np.empty((batch, 5))
    draws = best_of_weights(min(ways, n_query - 1), n_query - 1).astype(dtype)
    sizes = np.array([batch, n_support, n_query, dimension, ways, k, n_shares, passes], np.int64)
    constants = np.array([
        trust, density.USUAL_BETA, density.USUAL_SPREAD, density.MIN_SPREAD, density.OUTLIER_FLOOR,
        density.NEAREST_QUERIES, density.MAX_CLASS_WEIGHT, density.MAX_OUTLIER_WEIGHT, density.DENSITY_FLOOR, FLOOR,
    ])  # fmt: skip
    call(
        "density", dtype, sizes, constants, x, codes, shares, draws,
        smooth, degrees, assignments, probabilities, bias, examples, best, entropy, excess, numbers,
    )  # fmt: skip
    beta, e0, spread, squares, cover = numbers.T
    floor = (density.OUTLIER_FLOOR * e0).astype(dtype)
    end = Densities(bias, assignments, floor, beta.astype(dtype), probabilities)
    shots = int((codes[0] < ways).sum()) / ways
    measured = Measured(codes, ways, shots, examples, best, spread, squares, cover, entropy, excess)
    return Neighbours(x, smooth, degrees, k), end, measured
