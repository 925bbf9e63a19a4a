"""Micro-kernels for `handful.engines.density_numba`, written as LLVM vectors so that sums live in registers.

The matrices of a task fit the second-level cache, and a panel of PANEL vectors of columns fits the first-level cache.
`product_tile` multiplies HEIGHT rows by one panel. `gather_tile` adds up the few rows of a matrix that a sparse row
names. `exchange` and `exchange_pairs` are the comparators of a sorting network: each lane of a vector is a list of its
own, so as many lists are sorted at once as a vector has lanes, without a branch.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.extending import intrinsic

from handful.engines._tiles import COLS, add_product
from handful.engines._vectors import VECTOR_BYTES, Matrix, everywhere, sums

PANEL = 2  # vectors of columns
HEIGHT = 4 if VECTOR_BYTES == 32 else 8  # rows of a tile: 8 x 2 sums fit 32 registers, 4 x 2 fit 16


@intrinsic
def product_tile(typing, a, i, count, x, start, out, d):
    """out[i : i+HEIGHT, d : d + PANEL vectors] = a[i : i+HEIGHT, :count] @ x[start : start+count], x one panel wide."""

    def generate(context, builder, signature, arguments):
        a, i, count, x, start, out, d = arguments
        kinds = signature.args
        a, x, out = (Matrix(context, builder, kinds[k], v) for k, v in ((0, a), (3, x), (5, out)))
        offsets = [ir.Constant(d.type, v * x.vector.count) for v in range(PANEL)]
        cells = sums(builder, x.vector, HEIGHT, PANEL)
        a_rows = [a.start(i, k) for k in range(HEIGHT)]
        with cgutils.for_range(builder, count) as loop:
            row = x.start(builder.add(start, loop.index))
            of_x = [x.load(builder.add(row, offset), x.vector) for offset in offsets]
            for k in range(HEIGHT):
                weight = everywhere(builder, a.load(builder.add(a_rows[k], loop.index), a.scalar))
                for v in range(PANEL):
                    add_product(builder, cells[k][v], of_x[v], weight)
        for k in range(HEIGHT):
            row = builder.add(out.start(i, k), d)
            for v in range(PANEL):
                out.store(builder.load(cells[k][v]), builder.add(row, offsets[v]))
        return context.get_dummy_value()

    return types.void(a, i, count, x, start, out, d), generate


@intrinsic
def gather_tile(typing, weights, rows, first, last, x, d, out, i):
    """out[i, d : d + COLS vectors] = sum of weights[0, t] x[rows[0, t], d : d + COLS vectors], t from first to last."""

    def generate(context, builder, signature, arguments):
        weights, rows, first, last, x, d, out, i = arguments
        kinds = signature.args
        weights, rows, x, out = (
            Matrix(context, builder, kinds[k], v) for k, v in ((0, weights), (1, rows), (4, x), (6, out))
        )
        offsets = [ir.Constant(d.type, v * x.vector.count) for v in range(COLS)]
        (cells,) = sums(builder, x.vector, 1, COLS)
        one = ir.Constant(first.type, 1)
        with cgutils.for_range_slice(builder, first, last, one, inc=True) as (t, _):
            row = builder.add(x.start(rows.load(t, rows.scalar)), d)
            weight = everywhere(builder, weights.load(t, weights.scalar))
            for v in range(COLS):
                add_product(builder, cells[v], x.load(builder.add(row, offsets[v]), x.vector), weight)
        row = builder.add(out.start(i), d)
        for v in range(COLS):
            out.store(builder.load(cells[v]), builder.add(row, offsets[v]))
        return context.get_dummy_value()

    return types.void(weights, rows, first, last, x, d, out, i), generate


@intrinsic
def exchange(typing, keys, i, j):
    """Put the smaller of keys[i] and keys[j] into row i and the larger into row j, lane by lane; keys are a panel."""

    def generate(context, builder, signature, arguments):
        keys, i, j = arguments
        keys = Matrix(context, builder, signature.args[0], keys)
        for low, high in _vectors(builder, keys, i, j):
            _exchange(builder, keys, low, high)
        return context.get_dummy_value()

    return types.void(keys, i, j), generate


@intrinsic
def exchange_pairs(typing, keys, values, i, j):
    """`exchange` of keys, where values follow their keys."""

    def generate(context, builder, signature, arguments):
        keys, values, i, j = arguments
        keys, values = (Matrix(context, builder, signature.args[k], v) for k, v in ((0, keys), (1, values)))
        for low, high in _vectors(builder, keys, i, j):
            is_ordered = _exchange(builder, keys, low, high)
            a, b = values.load(low, values.vector), values.load(high, values.vector)
            values.store(builder.select(is_ordered, a, b), low)
            values.store(builder.select(is_ordered, b, a), high)
        return context.get_dummy_value()

    return types.void(keys, values, i, j), generate


def _vectors(builder, keys, i, j):
    """The offsets of each vector of rows i and j."""
    rows = keys.start(i), keys.start(j)
    return [[builder.add(row, ir.Constant(row.type, v * keys.vector.count)) for row in rows] for v in range(PANEL)]


def _exchange(builder, keys, i, j):
    a, b = keys.load(i, keys.vector), keys.load(j, keys.vector)
    is_ordered = builder.fcmp_ordered("<", a, b)
    keys.store(builder.select(is_ordered, a, b), i)  # in this form they become one instruction each, min and max
    keys.store(builder.select(builder.fcmp_ordered(">", a, b), a, b), j)
    return is_ordered
