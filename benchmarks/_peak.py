"""The machine's peak of multiply-adds, single precision: independent vector FMAs that stay in registers."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.extending import intrinsic

from handful.engines._tiles import VECTOR_BYTES

LANES = VECTOR_BYTES // 4
CHAINS = 12  # an FMA takes 4 or 5 cycles and up to 2 start in each: 10 in flight, and 16 registers must do

FUSE = ("contract",)  # lets LLVM make one instruction of a multiply and an add, and nothing else


@intrinsic
def _chains(typing, turns, factor):
    """`turns` times s = s * factor + factor, for CHAINS vectors s; returns the sum of all lanes."""

    def generate(context, builder, signature, arguments):
        turns, factor = arguments
        vector = ir.VectorType(ir.FloatType(), LANES)
        x = ir.Constant(vector, ir.Undefined)
        for lane in range(LANES):
            x = builder.insert_element(x, factor, ir.Constant(ir.IntType(32), lane))
        sums = [cgutils.alloca_once(builder, vector) for _ in range(CHAINS)]
        for k, s in enumerate(sums):
            builder.store(ir.Constant(vector, [float(k)] * LANES), s)  # all alike would be merged into one
        with cgutils.for_range(builder, turns):
            for s in sums:
                product = builder.fmul(builder.load(s), x, flags=FUSE)
                builder.store(builder.fadd(product, x, flags=FUSE), s)
        total = builder.load(sums[0])
        for s in sums[1:]:
            total = builder.fadd(total, builder.load(s))
        lanes = [builder.extract_element(total, ir.Constant(ir.IntType(32), k)) for k in range(LANES)]
        result = lanes[0]
        for lane in lanes[1:]:
            result = builder.fadd(result, lane)
        return result

    return types.float32(types.intp, types.float32), generate


@njit(nogil=True)
def _run(turns, factor):
    return _chains(turns, factor)


def multiply_adds_per_second(threads: int, turns: int = 20_000_000) -> float:
    """Of `threads` threads together, over about a tenth of a second."""
    factor = np.float32(0.5)
    _run(1, factor)  # compile
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: _run(turns // 10, factor), range(threads)))  # start the threads
        start = time.perf_counter()
        list(pool.map(lambda _: _run(turns, factor), range(threads)))
        return threads * turns * CHAINS * LANES / (time.perf_counter() - start)
