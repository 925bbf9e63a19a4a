"""The passes of `handful.streaming.descent` fused (extra `fast`): a row is read once for all that a pass does with it.

Rows are taken a few hundred at a time into a padded block that stays in cache: centred, multiplied by the prototypes,
turned into probabilities and weights, and summed by these. The arithmetic is that of `handful.engines.descent_numba`.
"""

from __future__ import annotations

import math

import numpy as np

from handful.engines._compiled import entry, helper
from handful.engines._tiles import COLS, MAX_WAYS, VECTOR_BYTES, tile_ways
from handful.engines.descent_numba import (
    CONSTANT,
    MINUS_MEAN,
    NO_OUTLIER,
    _aligned,
    _cosines,
    _outlier_logit,
    _softmax,
    _weighted_sums,
)
from handful.engines.infomax import InfoMax

TOGETHER = 256  # rows, 640 kB of 640 float32 features
MEAN, PAIRS, SLOPES, REFINED = 0, 1, 2, 3
Sums = dict[str, np.ndarray]


def sums(
    what: int,
    block: np.ndarray,
    mean: np.ndarray,
    by_length: bool,
    head: InfoMax,
    direction: np.ndarray,
    scale: np.ndarray,
    shift: np.ndarray,
    g: np.ndarray | None = None,
) -> Sums:
    """The pass `what` over rows [n, D], of which `mean` [D] is subtracted first."""
    block = np.ascontiguousarray(block)
    direction = np.array(direction, order="C")  # what an actor gets is read-only, and numba would compile once more
    dtype = block.dtype
    ways = len(direction)
    kind = NO_OUTLIER if head.outlier is None else MINUS_MEAN if isinstance(head.outlier, str) else CONSTANT
    outputs = ways + (kind != NO_OUTLIER)
    weights = {MEAN: 0, PAIRS: outputs + outputs * (outputs - 1) // 2, SLOPES: ways, REFINED: ways}[what]
    p, total = np.zeros(outputs), np.zeros(weights)
    pull = np.zeros((weights, block.shape[1]))
    _sums(
        what, block, mean.astype(dtype), by_length, direction, scale.astype(dtype), shift.astype(dtype), kind,
        float(np.asarray(head.outlier).reshape(-1)[0]) if kind == CONSTANT else 0.0,
        np.broadcast_to(np.asarray(head.co, dtype), (1, outputs))[0].copy(),
        np.zeros(outputs, dtype) if g is None else g.astype(dtype),
        (0,) * tile_ways(ways), (0,) * MAX_WAYS, p, pull, total,
    )  # fmt: skip
    if what == MEAN:
        return {"p": p}
    if what == REFINED:
        return {"pull": pull, "p": p[:ways]}
    return {"slope": pull, "total": total} | ({"p": p} if what == PAIRS else {})


def warm(ways: int, dtype: str) -> None:
    """Compile the kernel for so many classes, or load it from the cache: by a tiny pile."""
    items = np.eye(ways, dtype=dtype)
    head = InfoMax(co=np.zeros(ways + 1), ma=np.zeros(ways + 1), w=np.ones(ways + 1), outlier=1.0)
    sums(MEAN, items, items[0], False, head, items, items[0], items[0])


@entry
def _sums(
    what, block, mean, by_length, direction, scale, shift, kind, constant, co, g, tile, wide, out_p, out_pull, out_total
):
    dtype, real = block.dtype, block.dtype.type
    ways, dimension = direction.shape
    outputs = len(out_p)
    lanes = VECTOR_BYTES // block.itemsize
    width = COLS * lanes
    padded_d = (dimension + width - 1) // width * width
    padded_ways = (ways + len(tile) - 1) // len(tile) * len(tile)
    padded_weights = (len(out_total) + len(wide) - 1) // len(wide) * len(wide)
    x = _aligned(TOGETHER, padded_d, dtype)
    c = _aligned(padded_ways, padded_d, dtype)
    cosine = _aligned(padded_ways, TOGETHER, dtype)
    l = _aligned(outputs, TOGETHER, dtype)
    p = _aligned(outputs, TOGETHER, dtype)
    scratch = _aligned(2, TOGETHER, dtype)
    a = _aligned(padded_weights, TOGETHER, dtype)
    pull = _aligned(padded_weights, padded_d, dtype)
    per_length = np.zeros(TOGETHER, dtype)
    c[:ways, :dimension] = direction
    for start in range(0, len(block), TOGETHER):
        n = min(TOGETHER, len(block) - start)
        for i in range(n):
            per_length[i] = _centre(block[start + i], mean, x[i])
        x[n:] = 0
        _cosines(x, c, cosine, tile)
        for j in range(ways):
            for i in range(n):
                l[j, i] = scale[j] * (cosine[j, i] * per_length[i]) + shift[j]
        _outlier_logit(l, n, ways, kind, real(constant))
        _softmax(l, p, n)  # l holds log p from here on
        for k in range(outputs):
            out_p[k] += _sum(p[k], n)
        if what == MEAN:
            continue
        if what == REFINED:
            for j in range(ways):
                for i in range(n):
                    a[j, i] = p[j, i]
        else:
            _bend(l, p, scratch[0], co, g, n)
            if what == SLOPES:
                for j in range(ways):
                    for i in range(n):
                        a[j, i] = l[j, i] - (l[ways, i] / real(ways) if kind == MINUS_MEAN else real(0))
            else:
                _pairs(l, p, a, n)
        for k in range(len(out_total)):
            out_total[k] += _sum(a[k], n)
            if what != REFINED or by_length:
                for i in range(n):
                    a[k, i] *= per_length[i]
            a[k, n:] = 0
        _weighted_sums(a, x, pull, wide)
        for k in range(len(out_total)):
            for d in range(dimension):
                out_pull[k, d] += pull[k, d]


@helper
def _centre(source, mean, target):
    """source - mean into target; one over its length."""
    real = source.dtype.type
    squares = real(0)
    for d in range(len(source)):
        target[d] = source[d] - mean[d]
        squares += target[d] * target[d]
    return real(1) / max(real(math.sqrt(squares)), real(1e-12))


@helper
def _sum(row, n):
    total = row.dtype.type(0)
    for i in range(n):
        total += row[i]
    return total


@helper
def _bend(l, p, mixed, co, g, n):
    """log p in, Q dL/d(K logits) out in their place."""
    real = l.dtype.type
    mixed[:] = 0
    for k in range(len(l)):
        for i in range(n):
            l[k, i] = g[k] - co[k] * (l[k, i] + real(1))
            mixed[i] += p[k, i] * l[k, i]
    for k in range(len(l)):
        for i in range(n):
            l[k, i] = p[k, i] * (l[k, i] - mixed[i])


@helper
def _pairs(slope, p, a, n):
    """The slopes, then the products of each two probabilities, in the order of `np.triu_indices`."""
    row = len(slope)
    a[:row] = slope
    for j in range(len(p)):
        for k in range(j + 1, len(p)):
            for i in range(n):
                a[row, i] = p[j, i] * p[k, i]
            row += 1
