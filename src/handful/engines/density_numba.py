"""The fused kernel of `handful.engines.density`: one task at a time, with its matrices in the cache (extra `fast`).

It computes what `handful.engines.neighbours.smooth`, `handful.engines.density` and the part of
`handful.engines.share_statistics` that reads whole matrices compute, compiled by numba and cached on disk. It is fast
for these reasons:

- With A the sparse matrix of the smoothing, y = A x, so that H = A (x x^T) A^T: one dense product in place of two, of
  which only half is computed, because it is symmetric.
- Rows are sorted by a sorting network, as many at once as a vector has lanes.
- At first P_query = 0, so the first pass is the same at every share. What the examples add to the products is the same
  in every pass. Outliers have no prototype, so their row of the product with H is not computed.
- exp(l) of a class is the root of its density times exp(beta cos / 2), so no pass computes a logarithm of a density.
- Rows of logits are [class, share], with items innermost and padded to whole vectors. Nothing is allocated in a loop.

The caller distributes tasks over plain Python threads, as for `handful.engines.descent_numba`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from handful.core.arrays import FLOOR
from handful.engines._compiled import entry, helper
from handful.engines._density_tiles import HEIGHT, PANEL, exchange, exchange_pairs, gather_tile, product_tile
from handful.engines._tiles import COLS, ROWS, dot_tile
from handful.engines._vectors import VECTOR_BYTES, exp, fill, load, log, root, store, total
from handful.engines.density import (
    DENSITY_FLOOR,
    MAX_CLASS_WEIGHT,
    MAX_OUTLIER_WEIGHT,
    MIN_QUERIES_PER_CLASS,
    MIN_SPREAD,
    NEAREST_QUERIES,
    OUTLIER_FLOOR,
    USUAL_BETA,
    USUAL_SPREAD,
    Densities,
)
from handful.engines.descent_numba import _aligned
from handful.engines.neighbours import Neighbours
from handful.engines.share_statistics import Measured, best_of_weights

LOWEST = -1e30  # stands for minus infinity, which fast arithmetic does not know
BLOCK_ROWS = 48  # items that stay in the second-level cache while all others pass by
SQUARE = (0,) * ROWS  # as many columns as rows in a tile of x x^T


def solve(
    x: np.ndarray,
    codes: np.ndarray,
    ways: int,
    neighbours: int,
    shares: np.ndarray,
    passes: int,
    min_queries: int | None = None,
) -> tuple[Neighbours, Densities, Measured]:
    """Smooth items, compute their kernels, run the passes at each share, and measure what the share is estimated from.

    Parameters
    ----------
    x : array [B, n, D]
        Prepared items, the support first, with at least two queries.
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
        As the array version computes them.
    """
    x, codes = np.ascontiguousarray(x), np.ascontiguousarray(codes, dtype=np.int64)
    (batch, n_items, _), n_support, dtype = x.shape, codes.shape[1], x.dtype
    n_query, n_shares = n_items - n_support, np.shape(shares)[1]
    shares = np.array(np.broadcast_to(np.asarray(shares, np.float64), (batch, n_shares)), order="C")
    k = min(neighbours, n_items - 1)
    trust = min(1.0, n_query / (min_queries or MIN_QUERIES_PER_CLASS * (ways + 1)))
    smooth, degrees = np.empty_like(x), np.empty((batch, n_items), dtype)
    assignments = np.empty((batch, n_shares, ways + 1, n_items), dtype)
    probabilities = np.empty((batch, n_shares, ways + 1, n_query), dtype)
    bias = np.empty((batch, n_shares, ways + 1), dtype)
    examples, best = np.empty((batch, n_support, n_support), dtype), np.empty((batch, n_query), dtype)
    entropy, excess, numbers = np.empty((batch, n_shares)), np.empty((batch, n_shares)), np.empty((batch, 5))
    draws = best_of_weights(min(ways, n_query - 1), n_query - 1).astype(dtype)
    _solve(
        x, codes, ways, k, shares, passes, trust, draws,
        smooth, degrees, assignments, probabilities, bias, examples, best, entropy, excess, numbers,
    )  # fmt: skip
    beta, e0, spread, squares, cover = numbers.T
    end = Densities(bias, assignments, (OUTLIER_FLOOR * e0).astype(dtype), beta.astype(dtype), probabilities)
    shots = int((codes[0] < ways).sum()) / ways
    measured = Measured(codes, ways, shots, examples, best, spread, squares, cover, entropy, excess)
    return Neighbours(x, smooth, degrees, k), end, measured


@lru_cache
def warm(ways: int, dtype: str) -> None:
    """Run the kernel on a tiny task, so that numba compiles or loads it; it is the same for any number of classes."""
    x = np.eye(4, 8, dtype=dtype)[None]
    solve(x, np.zeros((1, 2), np.int64), 1, 1, np.array([[0.5]]), 2)


@entry
def _solve(
    x, codes, ways, k, shares, passes, trust, draws,
    out_smooth, out_degrees, out_p, out_probabilities, out_bias, out_examples, out_best, out_entropy, out_excess,
    out_numbers,
):  # fmt: skip
    dtype, real = x.dtype, x.dtype.type
    n_items, dimension, n_support, n_shares = x.shape[1], x.shape[2], codes.shape[1], shares.shape[1]
    n_query, outputs = n_items - n_support, ways + 1
    lanes = VECTOR_BYTES // x.itemsize
    width = _padded(n_query, PANEL * lanes)  # of rows over queries
    side = _padded(n_support + width, COLS * lanes)  # of square matrices

    items = _aligned(side, _padded(dimension, COLS * lanes), dtype)
    g, t = _aligned(side, side, dtype), _aligned(side, side, dtype)
    keys, values = _aligned(side, PANEL * lanes, dtype), _aligned(side, PANEL * lanes, dtype)
    line = _aligned(1, max(side, items.shape[1]), dtype)
    weights, rows = np.empty((1, n_items * n_items + 1), dtype), np.empty((1, n_items * n_items + 1), np.int64)
    first = np.zeros(n_items + 1, np.int64)
    factor, kth = np.zeros(side, dtype), np.zeros(side, dtype)
    h_panels = _aligned(width // (PANEL * lanes) * n_query, PANEL * lanes, dtype)
    e_panels = _aligned(width // (PANEL * lanes) * n_query, PANEL * lanes, dtype)
    p = _aligned(_padded(outputs * n_shares, HEIGHT), width, dtype)
    toward = _aligned(_padded(outputs * n_shares, HEIGHT), width, dtype)
    odds = _aligned(_padded(outputs * n_shares, HEIGHT), width, dtype)
    of_examples = _aligned(outputs, width, dtype)  # what the examples add to the products with H and with E
    density_of_examples = _aligned(outputs, width, dtype)
    inverse = _aligned(n_shares, width, dtype)
    is_query = _aligned(1, width, dtype)
    is_query[0, :n_query] = 1
    weight, target = np.zeros((outputs, n_shares), dtype), np.zeros((outputs, n_shares), dtype)
    scale, law = np.zeros(n_shares, dtype), np.zeros(n_shares)
    class_weight, class_square = np.zeros(outputs, dtype), np.zeros(outputs, dtype)
    lines = _aligned(ways + 3, PANEL * lanes, dtype)
    class_shares = np.zeros(ways, dtype)

    for b in range(len(x)):
        for i in range(n_items):
            for d in range(dimension):
                items[i, d] = x[b, i, d]
        _similarities(items, g, n_items)
        _kth_largest(g, kth, keys, n_items, k)
        _graph(g, kth, line[0], factor, weights, rows, first, out_degrees[b], n_items, k)
        _smooth_similarities(g, t, weights, rows, first, factor, n_items)
        for i in range(n_items):
            for d in range(0, items.shape[1], COLS * lanes):
                gather_tile(weights, rows, first[i], first[i + 1], items, d, line, 0)
            for d in range(dimension):
                out_smooth[b, i, d] = line[0, d] * factor[i]
        h = g

        spread, squares = _spread(h, n_support, n_items)
        beta = real(USUAL_BETA * math.sqrt(USUAL_SPREAD / max(spread, MIN_SPREAD)))
        e0 = _panels(h, h_panels, e_panels, n_support, n_query, width, beta)
        usual, e10 = _best_of_queries(h, keys, lines, draws, n_support, n_items, beta)
        n_examples = _example_sums(
            h, codes[b], beta, class_weight, class_square, of_examples, density_of_examples, out_best[b]
        )
        for c in range(ways):
            class_shares[c] = (class_weight[c] - 2) / 4  # of one example in its class
        cover = _best_of_examples(h, keys, values, lines, codes[b], class_shares, n_items, ways) - usual
        out_numbers[b, 0] = beta
        out_numbers[b, 1] = e0
        out_numbers[b, 2] = max(spread, MIN_SPREAD)
        out_numbers[b, 3] = squares
        out_numbers[b, 4] = cover / max(spread, MIN_SPREAD)
        for i in range(n_support):
            for j in range(n_support):
                out_examples[b, i, j] = h[i, j]
        for s in range(n_shares):
            share = shares[b, s]
            members = (1 - share) * n_query / ways + 2 * n_examples / ways + 4
            law[s] = (
                math.log(share / (1 - share)) + math.log(members * max(e10, DENSITY_FLOOR)) / 2
                - math.log((share * n_query + OUTLIER_FLOOR) * e0) + 5.2 * share * (1 - share) - 0.5
            )  # fmt: skip
            for c in range(ways):
                target[c, s] = (1 - share) / ways
            target[ways, s] = share

        floor = real(OUTLIER_FLOOR * e0)
        for i in range(len(p)):
            for j in range(width):
                p[i, j] = 0
        for step in range(passes):
            run = 1 if step == 0 else n_shares  # at first all shares are alike
            if step > 0:
                _product(p, h_panels, toward, ways * n_shares, n_query)
                _product(p, e_panels, odds, outputs * n_shares, n_query)
            for c in range(ways):
                for s in range(run):
                    r = c * n_shares + s
                    square = class_square[c]
                    _class_odds(p, toward, odds, r, of_examples, density_of_examples, c, square, beta, step == 0)
            for s in range(run):
                _outlier_odds(odds, ways * n_shares + s, density_of_examples, ways, floor, step == 0)
            if step < 2:
                for c in range(outputs):
                    for s in range(n_shares):
                        weight[c, s] = 1
            for _ in range(10 if step < 2 or step == passes - 1 else 1):
                for s in range(n_shares):
                    at = 0 if step == 0 else s
                    _totals(odds, weight, s, at, n_shares, is_query, inverse)
                    for c in range(outputs):
                        mean = _dot(odds, c * n_shares + at, inverse, s) * weight[c, s] / real(n_query)
                        weight[c, s] *= target[c, s] / max(mean, real(FLOOR))
                _limit(weight, scale)
            if trust < 1:
                for s in range(n_shares):
                    _trust(weight, s, ways, trust, law[s])
            if step == passes - 1:
                _write_rows(p, codes[b], class_weight, out_p[b], n_query)
            for s in range(n_shares):
                at = 0 if step == 0 else s
                _totals(odds, weight, s, at, n_shares, is_query, inverse)
                for c in range(outputs):
                    _weigh(odds, c * n_shares + at, inverse, s, weight[c, s], p, c * n_shares + s)
        for s in range(n_shares):
            of_classes = 0.0
            for c in range(ways):
                of_classes += weight[c, s]
            out_excess[b, s] = math.log(weight[ways, s] / of_classes) - law[s]
            for c in range(outputs):
                out_bias[b, s, c] = math.log(weight[c, s])
                for j in range(n_query):
                    out_probabilities[b, s, c, j] = p[c * n_shares + s, j]
            out_entropy[b, s] = _entropy(p[ways * n_shares + s], n_query) / n_query


@helper
def _padded(n, unit):
    return (n + unit - 1) // unit * unit


@helper
def _similarities(items, g, n):
    """x x^T: tiles on and above the diagonal, mirrored."""
    for low in range(0, n, BLOCK_ROWS):
        high = min(low + BLOCK_ROWS, n)
        for i in range(0, high, ROWS):
            for j in range(max(i, low), high, ROWS):
                dot_tile(items, j, items, i, g, SQUARE)
    for i in range(n):
        for j in range(i):
            g[i, j] = g[j, i]


@helper
def _sort(keys, n):
    """Sort the first n rows in each lane: Batcher's merge exchange (Knuth, volume 3, algorithm 5.2.2 M)."""
    half = 1
    while 2 * half < n:
        half *= 2
    p = half
    while p > 0:
        q, r, d = half, 0, p
        while True:
            for start in range(r, n - d, 2 * p):
                for i in range(start, min(start + p, n - d)):
                    exchange(keys, i, i + d)
            if q == p:
                break
            d = q - p
            q //= 2
            r = p
        p //= 2


@helper
def _sort_pairs(keys, values, n):
    """`_sort`, where values follow their keys."""
    half = 1
    while 2 * half < n:
        half *= 2
    p = half
    while p > 0:
        q, r, d = half, 0, p
        while True:
            for start in range(r, n - d, 2 * p):
                for i in range(start, min(start + p, n - d)):
                    exchange_pairs(keys, values, i, i + d)
            if q == p:
                break
            d = q - p
            q //= 2
            r = p
        p //= 2


@helper
def _load_lanes(h, keys, low, start, stop):
    """Columns start.. of h, from row low to row stop, a column in each lane; the diagonal becomes `LOWEST`."""
    wide = keys.shape[1]
    for i in range(low, stop):
        of_item, columns = keys[i - low], h[i, start : start + wide]
        for v in range(wide):
            of_item[v] = columns[v]
    for v in range(min(wide, stop - start)):
        if start + v >= low:
            keys[start + v - low, v] = LOWEST


@helper
def _kth_largest(g, kth, keys, n, k):
    """The k-th largest similarity of each item to another one."""
    if k < 1:
        return
    wide = keys.shape[1]
    for start in range(0, n, wide):
        _load_lanes(g, keys, 0, start, n)
        _sort(keys, n)
        for v in range(wide):
            kth[start + v] = keys[n - k, v]


@helper
def _graph(g, kth, line, factor, weights, rows, first, degrees, n, k):
    """The sparse rows of I + S / 2, with S the normalised graph; every row begins with the item itself."""
    real = g.dtype.type
    zero, one = real(0), real(1)
    count = 0
    for i in range(n):
        first[i] = count
        weights[0, count] = one
        rows[0, count] = i
        count += 1
        degree = zero
        if k > 0:
            of_item, kth_of_item = g[i], kth[i]
            for j in range(n):
                w = max(of_item[j], zero)
                line[j] = (w if of_item[j] >= kth_of_item else zero) + (w if of_item[j] >= kth[j] else zero)
            line[i] = 0
            for j in range(n):
                degree += line[j]
            for j in range(n):  # without a branch: what is 0 is overwritten by the next
                weights[0, count] = line[j]
                rows[0, count] = j
                count += line[j] > zero
        degrees[i] = degree
        factor[i] = one / real(math.sqrt(max(degree, real(FLOOR))))
    first[n] = count
    for i in range(n):
        for t in range(first[i] + 1, first[i + 1]):
            weights[0, t] *= factor[i] * factor[rows[0, t]] / real(2)


@helper
def _smooth_similarities(g, t, weights, rows, first, factor, n):
    """H in place of G = x x^T: A G A^T, and both sides divided by the lengths of A x; factor receives 1 / lengths."""
    real = g.dtype.type
    width = COLS * (VECTOR_BYTES // g.itemsize)
    for i in range(n):
        for d in range(0, g.shape[1], width):
            gather_tile(weights, rows, first[i], first[i + 1], g, d, t, i)
    for i in range(n):
        for j in range(i):
            t[i, j], t[j, i] = t[j, i], t[i, j]
    for i in range(n):
        for d in range(0, g.shape[1], width):
            gather_tile(weights, rows, first[i], first[i + 1], t, d, g, i)
    for i in range(n):
        factor[i] = real(1) / max(real(math.sqrt(max(g[i, i], real(0)))), real(FLOOR))
    for i in range(n):
        for j in range(n):
            g[i, j] *= factor[i] * factor[j]


@helper
def _spread(h, n_support, n):
    """The standard deviation of similarities of two queries, and the sum of squares with those of a query to itself."""
    real = h.dtype.type
    total, squares, whole = 0.0, 0.0, 0.0
    for i in range(n_support, n):
        of_item, part = h[i, n_support:n], real(0)
        for j in range(len(of_item)):
            part += of_item[j]
        total += part - h[i, i]
    pairs = (n - n_support) * (n - n_support - 1)
    mean = real(total / pairs)
    for i in range(n_support, n):
        of_item, part = h[i, n_support:n], real(0)
        for j in range(len(of_item)):
            part += (of_item[j] - mean) * (of_item[j] - mean)
        squares += part - (h[i, i] - mean) * (h[i, i] - mean)
        whole += h[i, i] * h[i, i]
    whole += squares + mean * (2 * total - pairs * mean)
    return math.sqrt(max(squares, 0.0) / pairs), whole


@helper
def _panels(h, h_panels, e_panels, n_support, n_query, width, beta):
    """H and E between queries, in panels of columns; returns e0."""
    real = h.dtype.type
    wide, whole = h_panels.shape[1], 0.0
    for panel in range(width // wide):
        low = panel * wide
        for i in range(n_query):
            row = panel * n_query + i
            for v in range(0, wide, VECTOR_BYTES // h.itemsize):
                similarity = load(h, n_support + i, n_support + low + v)
                store(h_panels, row, v, similarity)
                store(e_panels, row, v, exp((similarity - real(1)) * beta))
        for v in range(min(wide, n_query - low)):
            e_panels[panel * n_query + low + v, v] = 0
        for i in range(n_query):
            of_e, part = e_panels[panel * n_query + i], real(0)
            for v in range(min(wide, n_query - low)):
                part += of_e[v]
            whole += part
    return max(whole / (n_query * (n_query - 1)), DENSITY_FLOOR)


@helper
def _best_of_queries(h, keys, lines, draws, n_support, n, beta):
    """The mean similarity of a query to the best of N others, and e10."""
    real = h.dtype.type
    wide, n_others, best = keys.shape[1], n - n_support - 1, lines[0]
    usual, e10 = 0.0, 0.0
    nearest = min(NEAREST_QUERIES, n_others)
    for start in range(n_support, n, wide):
        _load_lanes(h, keys, n_support, start, n)
        _sort(keys, n_others + 1)
        for v in range(wide):
            best[v] = 0
        for i in range(n_others):
            for v in range(wide):
                best[v] += keys[i + 1, v] * draws[i]
        for v in range(min(wide, n - start)):
            usual += best[v]
        for i in range(n_others + 1 - nearest, n_others + 1):
            for v in range(wide):
                best[v] = exp(beta * (keys[i, v] - real(1)))
            for v in range(min(wide, n - start)):
                e10 += best[v]
    n_query = n - n_support
    return usual / n_query, e10 / (n_query * nearest)


@helper
def _best_of_examples(h, keys, values, lines, codes, class_shares, n, ways):
    """The mean over queries of the expected largest similarity to one random example of each class."""
    real = h.dtype.type
    wide, n_support, whole = keys.shape[1], len(codes), 0.0
    before, now, expected, parts = lines[0], lines[1], lines[2], lines[3:]
    for start in range(n_support, n, wide):
        for i in range(n_support):
            for v in range(wide):
                keys[i, v] = h[i, start + v]
                values[i, v] = codes[i]
        _sort_pairs(keys, values, n_support)
        for i in range(ways + 3):
            for v in range(wide):
                lines[i, v] = 0
        for i in range(n_support):
            for v in range(wide):
                now[v] = 1  # P(no drawn example is more similar than this one)
            of_item = values[i]
            for c in range(ways):
                code, one_of_class, of_class = real(c), class_shares[c], parts[c]
                for v in range(wide):
                    of_class[v] += one_of_class if of_item[v] == code else real(0)
                for v in range(wide):
                    now[v] *= of_class[v]
            for v in range(wide):
                expected[v] += keys[i, v] * (now[v] - before[v])
                before[v] = now[v]
        for v in range(min(wide, n - start)):
            whole += expected[v]
    return whole / (n - n_support)


@helper
def _example_sums(h, codes, beta, weight, square, of_h, of_e, best):
    """Per class: the weight of an example, the squared length of their weighted sum, and its products with the queries.

    Returns the number of examples of the classes. `best` receives each query's cosine to its best class.
    """
    real = h.dtype.type
    n_support, n_query, outputs, n_examples = len(codes), len(best), len(weight), 0
    for c in range(outputs):
        shots, total = 0, 0.0
        for j in range(of_h.shape[1]):
            of_h[c, j] = 0
            of_e[c, j] = 0
        for s in range(n_support):
            if codes[s] == c:
                shots += 1
                for j in range(of_h.shape[1]):
                    of_h[c, j] += h[s, n_support + j]
                    of_e[c, j] += exp(beta * (h[s, n_support + j] - real(1)))
                for other in range(n_support):
                    if codes[other] == c:
                        total += h[s, other]
        weight[c] = 2 + 4 / max(shots, 1)
        square[c] = weight[c] * weight[c] * total
        if c < outputs - 1:
            n_examples += shots
            length = real(1) / real(math.sqrt(max(total, FLOOR)))
            for j in range(n_query):
                cosine = of_h[c, j] * length
                best[j] = cosine if c == 0 else max(best[j], cosine)
        for j in range(of_h.shape[1]):
            of_h[c, j] *= weight[c]
            of_e[c, j] *= weight[c]
    return n_examples


@helper
def _product(p, panels, out, n_rows, n_query):
    """out = p @ M, for a matrix M between queries that is stored in panels."""
    wide = panels.shape[1]
    for panel in range(p.shape[1] // wide):
        for i in range(0, n_rows, HEIGHT):
            product_tile(p, i, n_query, panels, panel * n_query, out, panel * wide)


@helper
def _class_odds(p, toward, odds, r, of_examples, density_of_examples, c, square, beta, is_first):
    """exp(l) of a class, in place of the density: the root of the density times exp(beta cos / 2)."""
    real = p.dtype.type
    lanes = VECTOR_BYTES // p.itemsize
    along = fill(p, real(0))
    for j in range(0, p.shape[1], lanes):
        of_class = load(of_examples, c, j)
        both = of_class if is_first else load(toward, r, j) + of_class
        along = along + load(p, r, j) * (both + of_class)
        store(toward, r, j, both)
    length = max(square + total(along), real(FLOOR))
    sharpness = fill(p, beta / (real(2) * real(math.sqrt(length))))
    floor = fill(p, real(DENSITY_FLOOR))
    for j in range(0, p.shape[1], lanes):
        density = load(density_of_examples, c, j) + floor
        if not is_first:
            density = density + load(odds, r, j)
        store(odds, r, j, root(density) * exp(sharpness * load(toward, r, j)))


@helper
def _outlier_odds(odds, r, density_of_examples, c, floor, is_first):
    floor = fill(odds, floor)
    for j in range(0, odds.shape[1], VECTOR_BYTES // odds.itemsize):
        density = load(density_of_examples, c, j) + floor
        store(odds, r, j, density if is_first else density + load(odds, r, j))


@helper
def _totals(odds, weight, s, at, n_shares, is_query, inverse):
    """1 / sum over classes of weight x odds, for each query; 0 beyond the queries."""
    for j in range(0, odds.shape[1], VECTOR_BYTES // odds.itemsize):
        whole = load(odds, at, j) * weight[0, s]
        for c in range(1, len(weight)):
            whole = whole + load(odds, c * n_shares + at, j) * weight[c, s]
        store(inverse, s, j, load(is_query, 0, j) / whole)


@helper
def _dot(a, i, b, j):
    """The product of row i of a and row j of b."""
    along = fill(a, a.dtype.type(0))
    for k in range(0, a.shape[1], VECTOR_BYTES // a.itemsize):
        along = along + load(a, i, k) * load(b, j, k)
    return total(along)


@helper
def _weigh(odds, r, inverse, s, weight, p, to):
    weight = fill(p, weight)
    for j in range(0, p.shape[1], VECTOR_BYTES // p.itemsize):
        store(p, to, j, load(odds, r, j) * load(inverse, s, j) * weight)


@helper
def _limit(weight, scale):
    """`handful.engines.density._limited`, all shares at once."""
    real = weight.dtype.type
    ways = len(weight) - 1
    for s in range(len(scale)):
        scale[s] = 0
    for c in range(ways):
        for s in range(len(scale)):
            scale[s] += log(weight[c, s])
    for s in range(len(scale)):
        scale[s] = real(math.exp(-scale[s] / real(ways)))
    most = real(MAX_CLASS_WEIGHT)
    for c in range(ways):
        for s in range(len(scale)):
            weight[c, s] = min(max(weight[c, s] * scale[s], real(1) / most), most)
    most = real(MAX_OUTLIER_WEIGHT)
    for s in range(len(scale)):
        weight[ways, s] = min(max(weight[ways, s] * scale[s], real(1) / most), most)


@helper
def _trust(weight, s, ways, trust, law):
    """Draw the biases towards the usual ones, as far as a small pile does not determine them."""
    total = 0.0
    for c in range(ways):
        total += weight[c, s]
    usual = -math.log(ways)
    for c in range(ways):
        weight[c, s] = math.exp(usual + trust * (math.log(weight[c, s] / total) - usual))
    weight[ways, s] = math.exp(law + trust * (math.log(weight[ways, s] / total) - law))


@helper
def _write_rows(p, codes, class_weight, out, n_query):
    """P of all items, [G, N + 1, n]: the fixed weights of the examples, then the queries."""
    n_shares, outputs, n_support = len(out), out.shape[1], len(codes)
    for s in range(n_shares):
        for c in range(outputs):
            for i in range(n_support):
                out[s, c, i] = class_weight[c] if codes[i] == c else 0
            for j in range(n_query):
                out[s, c, n_support + j] = p[c * n_shares + s, j]


@helper
def _entropy(p, n_query):
    real = p.dtype.type
    floor, total = real(DENSITY_FLOOR), 0.0
    for j in range(n_query):
        q = real(1) - p[j]
        total -= p[j] * log(max(p[j], floor)) + q * log(max(q, floor))
    return total
