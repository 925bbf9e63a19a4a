"""The fused kernel of `handful.core.prepare`: one task at a time, with its features in the cache (extra `fast`).

All steps between two means over the task are applied to an item while it is in the first-level cache. Powers are
polynomials of vectors, several times as fast as NumPy's. Features are read once and written once.
"""

from __future__ import annotations

import math

import numpy as np

from handful.core.arrays import FLOOR
from handful.core.prepare import POWERS, Prepared, all_steps, is_extreme, learn
from handful.core.prepare import prepare as prepare_arrays
from handful.engines._compiled import entry, helper
from handful.engines._vectors import VECTOR_BYTES, fill, load, magnitude, power, root, store, total, with_sign
from handful.engines.descent_numba import _aligned

KINDS = ("task", "base", "none", "l2", "power", "signed")
TASK, BASE, L2, POWER = (KINDS.index(kind) for kind in ("task", "base", "l2", "power"))
SIGNED = KINDS.index("signed")
SUMMED_TOGETHER = 128  # items; their sum loses no digits that count, and sums of these are taken in double precision


def prepare(support, query, steps, base_mean=None, scale=None) -> Prepared:
    """Do what `handful.core.prepare.prepare` does, which is called for whatever is rare.

    Rare are features of an extreme size, the step "qr", exponents above 1, and other dtypes than float32 and float64.
    """
    steps_of = all_steps(steps, is_extreme(support) if scale is None else scale)
    is_fused = all(kind in KINDS and (argument is None or 0 < argument <= 1) for kind, argument in steps_of)
    if not is_fused or support.dtype not in (np.float32, np.float64) or query.dtype != support.dtype:
        return prepare_arrays(support, query, steps, base_mean, scale)
    support, query = np.ascontiguousarray(support), np.ascontiguousarray(query)
    names = ["task" if kind == "base" and base_mean is None else kind for kind, _ in steps_of]
    batch, _, dimension = support.shape
    means = np.empty((names.count("task"), batch, 1, dimension), support.dtype)
    own_means = iter(means)
    learned = tuple(
        (kind, next(own_means) if kind == "task" else learn(kind, argument, support, query, base_mean))
        for kind, (_, argument) in zip(names, steps_of, strict=True)
    )
    base, exponents = np.zeros(dimension, support.dtype), np.ones(len(names), support.dtype)
    for s, (kind, value) in enumerate(learned):
        if kind == "base":
            base = np.array(value[0, 0])
        elif kind in POWERS:
            exponents[s] = value[0, 0, 0]
    prepared = np.empty_like(support), np.empty_like(query)
    kinds = np.array([KINDS.index(kind) for kind in names], np.int64)
    _prepare(support, query, kinds, exponents, base, means, *prepared)
    return Prepared(*prepared, learned)


def warm(ways: int, dtype: str) -> None:
    """Compile the kernel, or load it from the cache; it is the same for any number of classes."""
    prepare(np.ones((1, 1, 1), dtype), np.ones((1, 1, 1), dtype), ("none",))


@entry
def _prepare(support, query, kinds, exponents, base, means, out_support, out_query):
    dtype, real = support.dtype, support.dtype.type
    n_support, dimension = support.shape[1], support.shape[2]
    n_items = n_support + query.shape[1]
    lanes = VECTOR_BYTES // support.itemsize
    padded_d = (dimension + lanes - 1) // lanes * lanes
    whole_block = _aligned(n_items + 3, padded_d, dtype)
    x, rows = whole_block[3:], whole_block[:3]  # rows: a sum of some items, the mean of the task, the base mean
    for d in range(dimension):
        rows[2, d] = base[d]
    whole = np.zeros(dimension)
    for b in range(len(support)):
        begin = mean = 0
        while True:  # the steps up to the next mean over the task
            end = begin
            while end < len(kinds) and kinds[end] != TASK:
                end += 1
            for d in range(dimension):
                whole[d] = rows[0, d] = 0
            for i in range(n_items):
                if begin == 0:
                    _copy(support[b, i] if i < n_support else query[b, i - n_support], x[i], dimension)
                else:
                    _subtract(x, i, rows, 1)
                for s in range(begin, end):
                    _apply(kinds[s], exponents[s], x, i, rows, dimension)
                if end < len(kinds):
                    _add(rows, x, i)
                    if i % SUMMED_TOGETHER == SUMMED_TOGETHER - 1 or i == n_items - 1:
                        for d in range(dimension):
                            whole[d] += rows[0, d]
                            rows[0, d] = 0
                else:
                    _copy(x[i], out_support[b, i] if i < n_support else out_query[b, i - n_support], dimension)
            if end == len(kinds):
                break
            for d in range(dimension):
                rows[1, d] = means[mean, b, 0, d] = real(whole[d] / n_items)
            mean += 1
            begin = end + 1


@helper
def _apply(kind, exponent, x, i, rows, dimension):
    """One step, to one item."""
    real = x.dtype.type
    lanes = VECTOR_BYTES // x.itemsize
    if kind == BASE:
        _subtract(x, i, rows, 2)
    elif kind == L2:
        squares = fill(x, 0)
        for d in range(0, x.shape[1], lanes):
            v = load(x, i, d)
            squares = squares + v * v
        inverse = real(1) / max(real(math.sqrt(total(squares))), real(FLOOR))
        for d in range(0, x.shape[1], lanes):
            store(x, i, d, load(x, i, d) * inverse)
    elif kind == POWER:
        for d in range(0, x.shape[1], lanes):
            v = max(load(x, i, d), real(0)) + real(1e-6)
            store(x, i, d, root(v) if exponent == real(0.5) else power(v, exponent))
        for d in range(dimension, x.shape[1]):
            x[i, d] = 0  # padding must not count in a norm
    elif kind == SIGNED:
        for d in range(0, x.shape[1], lanes):
            v = load(x, i, d)
            store(x, i, d, with_sign(power(magnitude(v), exponent), v))


@helper
def _copy(source, target, n):
    for d in range(n):
        target[d] = source[d]


@helper
def _subtract(x, i, rows, row):
    for d in range(0, x.shape[1], VECTOR_BYTES // x.itemsize):
        store(x, i, d, load(x, i, d) - load(rows, row, d))


@helper
def _add(rows, x, i):
    for d in range(0, x.shape[1], VECTOR_BYTES // x.itemsize):
        store(rows, 0, d, load(rows, 0, d) + load(x, i, d))
