"""Micro-kernels for `handful.engines.descent_numba`, written as LLVM vectors so that sums live in registers.

The two products of a descent step are tall and thin: [M, D] features with about N = 5 prototypes. A BLAS packs and
blocks for large square products and loses most of its speed here. A tile of ROWS items (or COLS vectors of features)
and W prototypes keeps ROWS x W running sums in registers, and each value loaded from the cache is used W or ROWS times.
The caller pads arrays: items to ROWS, features to COLS vectors, prototypes to W, so that no tile has an edge.

`exp` and `log` are plain polynomials, because loops with a call into the maths library are not vectorised. In double
precision they are the functions of the library.
"""

from __future__ import annotations

import math

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.extending import intrinsic, overload

FAST = ("fast",)  # lets LLVM contract multiply and add into one instruction


def _vector_unit() -> tuple[int, int]:
    """Bytes of a vector register, and how many of them a tile is high: as many sums as registers can hold."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, 4  # 32 registers
    if features.get("avx"):
        return 32, 2  # 16 registers
    return 16, 4  # NEON: 32 registers


VECTOR_BYTES, ROWS = _vector_unit()
COLS = ROWS
MAX_WAYS = 6  # prototypes in a tile: 4 x 6 sums, 4 loads and a spare fit 32 registers, 2 x 6 fit 16


def tile_ways(ways: int) -> int:
    """Prototypes per tile: the fewest tiles, and among those the least padding."""
    return -(-ways // -(-ways // MAX_WAYS))


class _Matrix:
    """A C-contiguous 2-D array inside an intrinsic: addresses of vectors and scalars in it."""

    def __init__(self, context, builder, kind, value):
        array = context.make_array(kind)(context, builder, value)
        self.builder, self.data = builder, array.data
        self.columns = builder.extract_value(array.shape, 1)
        self.scalar = context.get_data_type(kind.dtype)
        self.align = kind.dtype.bitwidth // 8
        self.vector = ir.VectorType(self.scalar, VECTOR_BYTES // self.align)

    def start(self, row, plus: int = 0):
        """Offset of the first element of row `row + plus`."""
        return self.builder.mul(self.builder.add(row, ir.Constant(row.type, plus)), self.columns)

    def load(self, offset, kind):
        address = self.builder.gep(self.data, [offset])
        return self.builder.load(self.builder.bitcast(address, kind.as_pointer()), align=self.align)

    def store(self, value, offset):
        address = self.builder.gep(self.data, [offset])
        self.builder.store(value, self.builder.bitcast(address, value.type.as_pointer()), align=self.align)


def _sums(builder, vector, rows: int, columns: int):
    """rows x columns running sums, zeroed; LLVM promotes them to registers."""
    zero = ir.Constant(vector, [0.0] * vector.count)
    cells = [[cgutils.alloca_once(builder, vector) for _ in range(columns)] for _ in range(rows)]
    for row in cells:
        for cell in row:
            builder.store(zero, cell)
    return cells


def _add_product(builder, cell, a, b):
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
        x, c, out = (_Matrix(context, builder, kinds[k], v) for k, v in ((0, x), (2, c), (4, out)))
        step = ir.Constant(i.type, x.vector.count)
        sums = _sums(builder, x.vector, w, ROWS)
        x_rows, c_rows = [x.start(i, r) for r in range(ROWS)], [c.start(j, k) for k in range(w)]
        with cgutils.for_range_slice(builder, ir.Constant(i.type, 0), x.columns, step, inc=True) as (d, _):
            of_c = [c.load(builder.add(row, d), c.vector) for row in c_rows]
            for r, row in enumerate(x_rows):
                of_x = x.load(builder.add(row, d), x.vector)
                for k in range(w):
                    _add_product(builder, sums[k][r], of_x, of_c[k])
        for k in range(w):
            row = _across(builder, [builder.load(cell) for cell in sums[k]])
            out.store(row, builder.add(out.start(j, k), i))
        return context.get_dummy_value()

    return types.void(x, i, c, j, out, ways), generate


@intrinsic
def sum_tile(typing, a, j, x, d, out, ways):
    """out[j : j+W, d : d + COLS vectors] = a[j : j+W] @ x[:, d : d + COLS vectors]."""

    def generate(context, builder, signature, arguments):
        a, j, x, d, out, _ = arguments
        kinds = signature.args
        w = kinds[5].count
        a, x, out = (_Matrix(context, builder, kinds[k], v) for k, v in ((0, a), (2, x), (4, out)))
        offsets = [ir.Constant(d.type, v * x.vector.count) for v in range(COLS)]
        sums = _sums(builder, x.vector, w, COLS)
        a_rows = [a.start(j, k) for k in range(w)]
        undefined = ir.Constant(x.vector, ir.Undefined)
        first = ir.Constant(ir.IntType(32), 0)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), x.vector.count), [0] * x.vector.count)
        with cgutils.for_range(builder, a.columns) as loop:
            start = builder.add(x.start(loop.index), d)
            of_x = [x.load(builder.add(start, offset), x.vector) for offset in offsets]
            for k in range(w):
                weight = a.load(builder.add(a_rows[k], loop.index), a.scalar)
                weight = builder.insert_element(undefined, weight, first)
                weight = builder.shuffle_vector(weight, undefined, everywhere)
                for v in range(COLS):
                    _add_product(builder, sums[k][v], of_x[v], weight)
        for k in range(w):
            start = builder.add(out.start(j, k), d)
            for v in range(COLS):
                out.store(builder.load(sums[k][v]), builder.add(start, offsets[v]))
        return context.get_dummy_value()

    return types.void(a, j, x, d, out, ways), generate


@intrinsic
def _as_float(typing, bits):
    return types.float32(types.int32), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.FloatType())


@intrinsic
def _as_bits(typing, x):
    return types.int32(types.float32), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.IntType(32))


def exp(x):
    """e^x for x <= 0, to 1e-7 of itself in single precision; underflow stops at e^-87."""


@overload(exp, inline="always")
def _exp(x):
    if x == types.float64:
        return lambda x: math.exp(x)
    f = np.float32
    lowest, half, one, log2e, ln2 = f(-87), f(0.5), f(1), f(1 / math.log(2)), f(math.log(2))
    c2, c3, c4, c5, c6, c7 = (f(1 / math.factorial(k)) for k in range(2, 8))

    def single(x):
        x = max(x, lowest)
        n = np.floor(x * log2e + half)
        r = x - n * ln2  # |r| <= log(2) / 2
        series = one + r * (one + r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * (c6 + r * c7))))))
        return series * _as_float(np.int32((np.int32(n) + np.int32(127)) << np.int32(23)))  # times 2^n

    return single


def log(x):
    """Natural logarithm of a positive normal number."""


@overload(log, inline="always")
def _log(x):
    if x == types.float64:
        return lambda x: math.log(x)
    f = np.float32
    one, two, ln2 = f(1), f(2), f(math.log(2))
    k0, k1, k2, k3, k4, k5 = (f(1 / (2 * k + 1)) for k in range(6))
    root = np.int32(np.float32(math.sqrt(0.5)).view(np.int32))
    fraction = np.int32(0x7FFFFF)

    def single(x):
        bits = _as_bits(x) - root
        m = _as_float(np.int32((bits & fraction) + root))  # x = m 2^e with m in [sqrt(1/2), sqrt(2))
        e = np.float32(bits >> np.int32(23))
        t = (m - one) / (m + one)  # log m = 2 artanh t
        u = t * t
        return e * ln2 + two * t * (k0 + u * (k1 + u * (k2 + u * (k3 + u * (k4 + u * k5)))))

    return single
