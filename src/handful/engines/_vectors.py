"""Vectors of the processor as a type of numba: what the loops over items and features are written in.

numba writes scalar loops and hopes that LLVM makes vectors of them. It often does not, and nobody is told. Here a loop
loads, computes and stores whole registers, so that its speed does not depend on what LLVM can prove. Arithmetic between
vectors, or between a vector and a number, is written with the usual operators.

`exp`, `log` and `power` are polynomials in single precision, because a call into the maths library would stop the
vectors. In double precision they are the functions of the library. `exp` and `log` take numbers too.
"""

from __future__ import annotations

import math
import operator

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.extending import intrinsic, lower_builtin, models, register_model
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

FAST = ("fast",)  # lets LLVM contract multiply and add into one instruction, and change the order of sums
FUSE = ("contract",)  # only the former: for sums whose order keeps their digits
BITS = ir.IntType(32)


def _vector_unit() -> tuple[int, int]:
    """Bytes of a vector register, and how many of them a tile is high: as many sums as registers can hold."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, 4  # 32 registers
    if features.get("avx"):
        return 32, 2  # 16 registers
    return 16, 4  # NEON: 32 registers


VECTOR_BYTES, ROWS = _vector_unit()


class Vector(types.Type):
    """As many numbers of one dtype as a register holds."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(f"vector of {dtype}")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, vector_type(manager.lookup(kind.dtype).get_value_type()))


def vector_type(scalar):
    """The LLVM vector of a scalar."""
    size = 8 if isinstance(scalar, ir.DoubleType) else 4
    return ir.VectorType(scalar, VECTOR_BYTES // size)


class Matrix:
    """A C-contiguous 2-D array inside an intrinsic: addresses of vectors and scalars in it."""

    def __init__(self, context, builder, kind, value):
        array = context.make_array(kind)(context, builder, value)
        self.builder, self.data = builder, array.data
        self.rows, self.columns = (builder.extract_value(array.shape, axis) for axis in range(2))
        self.scalar = context.get_data_type(kind.dtype)
        self.align = kind.dtype.bitwidth // 8
        self.vector = vector_type(self.scalar)

    def start(self, row, plus: int = 0):
        """Offset of the first element of row `row + plus`."""
        return self.builder.mul(self.builder.add(row, ir.Constant(row.type, plus)), self.columns)

    def load(self, offset, kind):
        address = self.builder.gep(self.data, [offset])
        return self.builder.load(self.builder.bitcast(address, kind.as_pointer()), align=self.align)

    def store(self, value, offset):
        address = self.builder.gep(self.data, [offset])
        self.builder.store(value, self.builder.bitcast(address, value.type.as_pointer()), align=self.align)


def everywhere(builder, scalar):
    """A vector that holds the scalar in every place."""
    undefined = ir.Constant(vector_type(scalar.type), ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(BITS, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(BITS, undefined.type.count), None))


@intrinsic
def load(typing, a, row, column):
    """The vector that starts at a[row, column]."""

    def generate(context, builder, sig, arguments):
        matrix = Matrix(context, builder, sig.args[0], arguments[0])
        return matrix.load(builder.add(matrix.start(arguments[1]), arguments[2]), matrix.vector)

    return Vector(a.dtype)(a, types.intp, types.intp), generate


@intrinsic
def store(typing, a, row, column, value):
    """Write a vector from a[row, column] on."""

    def generate(context, builder, sig, arguments):
        matrix = Matrix(context, builder, sig.args[0], arguments[0])
        matrix.store(arguments[3], builder.add(matrix.start(arguments[1]), arguments[2]))
        return context.get_dummy_value()

    return types.void(a, types.intp, types.intp, Vector(a.dtype)), generate


@intrinsic
def fill(typing, a, value):
    """A vector of the dtype of the array a that holds the number in every place."""

    def generate(context, builder, sig, arguments):
        return everywhere(builder, arguments[1])

    return Vector(a.dtype)(a, a.dtype), generate


@intrinsic
def total(typing, x):
    """The sum of a vector."""

    def generate(context, builder, sig, arguments):
        (rest,) = arguments
        while rest.type.count > 1:
            half = rest.type.count // 2
            masks = [ir.Constant(ir.VectorType(BITS, half), list(range(s, s + half))) for s in (0, half)]
            rest = builder.fadd(*(builder.shuffle_vector(rest, rest, m) for m in masks), flags=FAST)
        return builder.extract_element(rest, ir.Constant(BITS, 0))

    return x.dtype(x), generate


def _operator(function, instruction):
    """`function` between vectors, or between a vector and a number."""

    @infer_global(function)
    class _Typing(AbstractTemplate):
        def generic(self, arguments, keywords):
            if len(arguments) != 2:
                return None
            vectors = [a for a in arguments if isinstance(a, Vector)]
            if not vectors or not all(isinstance(a, Vector | types.Number) for a in arguments):
                return None
            return signature(vectors[0], *(a if isinstance(a, Vector) else vectors[0].dtype for a in arguments))

    def lower(context, builder, sig, arguments):
        a, b = (
            value if isinstance(kind, Vector) else everywhere(builder, value)
            for kind, value in zip(sig.args, arguments, strict=True)
        )
        return instruction(builder, a, b)

    for kinds in ((Vector, Vector), (Vector, types.Number), (types.Number, Vector)):
        lower_builtin(function, *kinds)(lower)


def larger(builder, a, b):
    """max(a, b)."""
    return builder.select(builder.fcmp_ordered(">", a, b, flags=FAST), a, b)


_operator(operator.add, lambda builder, a, b: builder.fadd(a, b, flags=FAST))
_operator(operator.sub, lambda builder, a, b: builder.fsub(a, b, flags=FAST))
_operator(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=FAST))
_operator(operator.truediv, lambda builder, a, b: builder.fdiv(a, b, flags=FAST))
_operator(max, larger)


def _function(name, single, library):
    """An intrinsic of one number or vector: `single` writes it for float32, the LLVM function `library` for float64."""

    def compute(typing, x):
        def generate(context, builder, sig, arguments):
            (x,) = arguments
            if single is not None and sig.return_type in (types.float32, Vector(types.float32)):
                return single(builder, x)
            return _call(builder, library, x)

        return signature(x, x), generate

    compute.__name__ = name
    return intrinsic(compute)


def _call(builder, name, *arguments):
    kind = arguments[0].type
    scalar, count = (kind.element, f"v{kind.count}") if isinstance(kind, ir.VectorType) else (kind, "")
    name += f".{count}{'f64' if isinstance(scalar, ir.DoubleType) else 'f32'}"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * len(arguments)), name)
    return builder.call(function, arguments, fastmath=FAST)


def _constant(like, value):
    """A number, or a vector of it, in the type `like`."""
    return ir.Constant(like, [value] * like.count if isinstance(like, ir.VectorType) else value)


def _integers(like):
    return ir.VectorType(BITS, like.count) if isinstance(like, ir.VectorType) else BITS


def _series(builder, x, coefficients, flags=FAST):
    """Polynomial with these coefficients, the highest power first."""
    result = _constant(x.type, coefficients[0])
    for c in coefficients[1:]:
        result = builder.fadd(builder.fmul(result, x, flags=flags), _constant(x.type, c), flags=flags)
    return result


def _round(value: float) -> float:
    return float(np.float32(value))


EXP_SERIES = [_round(1 / math.factorial(k)) for k in range(7, -1, -1)]
EXP2_SERIES = [_round(math.log(2) ** k / math.factorial(k)) for k in range(7, -1, -1)]
ARTANH_SERIES = [_round(1 / (2 * k + 1)) for k in range(5, -1, -1)]
LN2, LOG2E, LOWEST_EXP = _round(math.log(2)), _round(1 / math.log(2)), -87.0
ROOT_BITS = int(np.float32(math.sqrt(0.5)).view(np.int32))


def _times_power_of_two(builder, x, n):
    """x 2^n of whole numbers n, in floats."""
    kind = _integers(x.type)
    bits = builder.add(builder.fptosi(n, kind), _constant(kind, 127))
    return builder.fmul(x, builder.bitcast(builder.shl(bits, _constant(kind, 23)), x.type), flags=FAST)


def _exp_single(builder, x):
    x = larger(builder, x, _constant(x.type, LOWEST_EXP))
    n = builder.fadd(builder.fmul(x, _constant(x.type, LOG2E), flags=FAST), _constant(x.type, 0.5), flags=FAST)
    n = _call(builder, "llvm.floor", n)
    r = builder.fsub(x, builder.fmul(n, _constant(x.type, LN2), flags=FUSE), flags=FUSE)  # |r| <= log(2) / 2
    return _times_power_of_two(builder, _series(builder, r, EXP_SERIES), n)


def _split(builder, x):
    """E and t with x = 2^e m, m in [sqrt(1/2), sqrt(2)), and log m = 2 artanh t."""
    kind = _integers(x.type)
    bits = builder.sub(builder.bitcast(x, kind), _constant(kind, ROOT_BITS))
    m = builder.add(builder.and_(bits, _constant(kind, 0x7FFFFF)), _constant(kind, ROOT_BITS))
    m = builder.bitcast(m, x.type)
    e = builder.sitofp(builder.ashr(bits, _constant(kind, 23)), x.type)
    one = _constant(x.type, 1.0)
    return e, builder.fdiv(builder.fsub(m, one, flags=FUSE), builder.fadd(m, one, flags=FUSE), flags=FUSE)


def _log_fraction(builder, t, factor: float):
    """Factor times artanh t."""
    series = _series(builder, builder.fmul(t, t, flags=FAST), [_round(factor * c) for c in ARTANH_SERIES])
    return builder.fmul(t, series, flags=FAST)


def _log_single(builder, x):
    e, t = _split(builder, x)
    return builder.fadd(builder.fmul(e, _constant(x.type, LN2), flags=FAST), _log_fraction(builder, t, 2.0), flags=FAST)


exp = _function("exp", _exp_single, "llvm.exp")  # e^x for x <= 0 to 1e-7 of itself; underflow stops at e^-87
log = _function("log", _log_single, "llvm.log")  # natural logarithm of a positive normal number
root = _function("root", None, "llvm.sqrt")  # square root
magnitude = _function("magnitude", None, "llvm.fabs")  # |x|


@intrinsic
def power(typing, x, exponent):
    """x^exponent of a vector x of positive normal numbers, for an exponent from 0 to 1; 0 for smaller x."""

    def generate(context, builder, sig, arguments):
        x, exponent = arguments[0], everywhere(builder, arguments[1])
        if sig.return_type.dtype == types.float64:
            return _call(builder, "llvm.pow", x, exponent)
        e, t = _split(builder, x)
        fraction = _log_fraction(builder, t, 2 / math.log(2))
        n = _call(builder, "llvm.rint", builder.fmul(exponent, builder.fadd(e, fraction, flags=FUSE), flags=FUSE))
        # exponent * e - n first, in one instruction: else the digits of the fraction are lost where e is large
        rest = builder.fsub(builder.fmul(exponent, e, flags=FUSE), n, flags=FUSE)
        rest = builder.fadd(rest, builder.fmul(exponent, fraction, flags=FUSE), flags=FUSE)
        result = _times_power_of_two(builder, _series(builder, rest, EXP2_SERIES), n)
        tiny = builder.fcmp_ordered("<", x, _constant(x.type, float(np.finfo(np.float32).tiny)))
        return builder.select(tiny, _constant(x.type, 0.0), result)

    return x(x, x.dtype), generate


@intrinsic
def with_sign(typing, x, sign):
    """|x| with the signs of another vector."""

    def generate(context, builder, sig, arguments):
        return _call(builder, "llvm.copysign", *arguments)

    return x(x, x), generate


def sums(builder, vector, rows: int, columns: int):
    """rows x columns running sums, zeroed; LLVM promotes them to registers."""
    cells = [[cgutils.alloca_once(builder, vector) for _ in range(columns)] for _ in range(rows)]
    for row in cells:
        for cell in row:
            builder.store(_constant(vector, 0.0), cell)
    return cells
