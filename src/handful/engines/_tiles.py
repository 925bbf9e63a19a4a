"""Micro-kernels for `handful.engines.descent_numba`, written as LLVM vectors so that sums live in registers.

The two products of a descent step are tall and thin: [M, D] features with about N = 5 prototypes. A BLAS packs and
blocks for large square products and loses most of its speed here. A tile of ROWS items (or COLS vectors of features)
and W prototypes keeps ROWS x W running sums in registers, and each value loaded from the cache is used W or ROWS times.
The caller pads arrays: items to ROWS, features to COLS vectors, prototypes to W, so that no tile has an edge.

Items x may be stored in slabs: [slabs * M, width], where the rows of a slab hold `width` of the features of all items.
Both products then read memory nearly in order, which keeps the pages they touch few. One slab is an ordinary matrix.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.extending import intrinsic

from handful.engines._vectors import FAST, ROWS, Matrix, everywhere, sums
from handful.engines._vectors import VECTOR_BYTES as VECTOR_BYTES
from handful.engines._vectors import exp as exp
from handful.engines._vectors import log as log
from handful.engines.compiling import MAX_TILE
from handful.engines.compiling import tile_ways as tile_ways

COLS = ROWS
MAX_WAYS = MAX_TILE


def add_product(builder, cell, a, b):
    """Add a b to a running sum."""
    builder.store(builder.fadd(builder.load(cell), builder.fmul(a, b, flags=FAST), flags=FAST), cell)


def _across(builder, vectors):
    """The sum of each vector, side by side in one short vector: halves are folded for all of them at once."""

    def fold(a, b, lanes):
        first = [k for k in range(lanes) if k % segment < segment // 2]
        second = [k for k in range(lanes) if k % segment >= segment // 2]
        masks = [ir.Constant(ir.VectorType(ir.IntType(32), len(m)), m) for m in (first, second)]
        return builder.fadd(*(builder.shuffle_vector(a, b, m) for m in masks), flags=FAST)

    segment = vectors[0].type.count  # lanes that still belong to one sum
    while segment > 1:
        if len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [fold(a, b, 2 * a.type.count) for a, b in pairs]
        else:
            vectors = [fold(vectors[0], vectors[0], vectors[0].type.count)]
        segment //= 2
    return vectors[0]


@intrinsic
def dot_tile(typing, x, i, c, j, out, ways):
    """out[j : j+W, i : i+ROWS] = c[j : j+W] @ x[i : i+ROWS]^T; W is the length of the tuple `ways`."""

    def generate(context, builder, signature, arguments):
        x, i, c, j, out, _ = arguments
        kinds = signature.args
        w = kinds[5].count
        x, c, out = (Matrix(context, builder, kinds[k], v) for k, v in ((0, x), (2, c), (4, out)))
        step, zero = ir.Constant(i.type, x.vector.count), ir.Constant(i.type, 0)
        cells = sums(builder, x.vector, w, ROWS)
        c_rows = [c.start(j, k) for k in range(w)]
        # the columns of `out` are the items of a slab
        with cgutils.for_range_slice(builder, i, x.rows, out.columns, inc=True) as (row, slab):
            x_rows = [x.start(row, r) for r in range(ROWS)]
            first = builder.mul(slab, x.columns)
            with cgutils.for_range_slice(builder, zero, x.columns, step, inc=True) as (d, _):
                of_c = [c.load(builder.add(builder.add(start, first), d), c.vector) for start in c_rows]
                for r, start in enumerate(x_rows):
                    of_x = x.load(builder.add(start, d), x.vector)
                    for k in range(w):
                        add_product(builder, cells[k][r], of_x, of_c[k])
        for k in range(w):
            row = _across(builder, [builder.load(cell) for cell in cells[k]])
            out.store(row, builder.add(out.start(j, k), i))
        return context.get_dummy_value()

    return types.void(x, i, c, j, out, ways), generate


@intrinsic
def sum_tile(typing, a, j, x, row, d, out, to, ways):
    """out[j : j+W, to : to + V] = a[j : j+W] @ x[row : row+M, d : d + V]; V are COLS vectors, M the columns of a."""

    def generate(context, builder, signature, arguments):
        a, j, x, row, d, out, to, _ = arguments
        kinds = signature.args
        w = kinds[7].count
        a, x, out = (Matrix(context, builder, kinds[k], v) for k, v in ((0, a), (2, x), (5, out)))
        offsets = [ir.Constant(d.type, v * x.vector.count) for v in range(COLS)]
        cells = sums(builder, x.vector, w, COLS)
        a_rows = [a.start(j, k) for k in range(w)]
        x_start = builder.add(x.start(row), d)
        with cgutils.for_range(builder, a.columns) as loop:
            start = builder.add(x_start, builder.mul(loop.index, x.columns))
            of_x = [x.load(builder.add(start, offset), x.vector) for offset in offsets]
            for k in range(w):
                weight = everywhere(builder, a.load(builder.add(a_rows[k], loop.index), a.scalar))
                for v in range(COLS):
                    add_product(builder, cells[k][v], of_x[v], weight)
        for k in range(w):
            start = builder.add(out.start(j, k), to)
            for v in range(COLS):
                out.store(builder.load(cells[k][v]), builder.add(start, offsets[v]))
        return context.get_dummy_value()

    return types.void(a, j, x, row, d, out, to, ways), generate
