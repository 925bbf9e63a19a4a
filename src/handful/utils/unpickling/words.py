"""The names that a pickle may use, and the functions behind them: NumPy arrays and containers.

NumPy's own unpickling is never used, because it trusts the types, sizes and addresses in a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from handful.utils.unpickling.budget import Budget, Damaged, Refused, quoted

MAX_DIMENSIONS = 16
MAX_EMPTY_ITEMS = 2**20  # of an array without data: the product of its lengths, with 0 counted as 1
MAX_CODE_POINT = 0x10FFFF
ARRAY = 200  # bytes that an array takes in addition to its data
TYPES = re.compile(r"b1|[iu][1248]|f[248]|[US]\d{1,6}")


class Name:
    """The token that a pickle gets for a name. `call`, if it is not None, is a function of handful."""

    __slots__ = ("call", "text")

    def __init__(self, text: str, call: Callable[..., Any] | None = None):
        self.text = text
        self.call = call


class Unfinished:
    """A value whose state follows in the file. The finished value replaces it on the stack and in the memo."""

    __slots__ = ("places",)

    def __init__(self) -> None:
        self.places: list[int] = []

    def finished(self, budget: Budget, state: Any) -> Any:
        """Return the object that this state completes."""
        raise NotImplementedError


# ---- arrays


class _Type(Unfinished):
    """A numpy.dtype: numbers and strings only, so that no array holds Python objects or addresses."""

    __slots__ = ("code",)

    def __init__(self, code: str):
        super().__init__()
        self.code = code

    def finished(self, budget: Budget, state: Any) -> np.dtype:
        if type(state) is not tuple or len(state) < 5:
            raise Damaged("it describes a type of numbers in an unknown way")
        order, *records = state[1:5]
        if any(part is not None for part in records):
            raise _not_plain("records")
        order = _ascii(order)
        if order not in ("<", ">", "|", "="):
            raise Refused(f"has the byte order {quoted(order)}: only <, >, | and = are read")
        return _checked(np.dtype(order + self.code))


def _type(budget: Budget, code: Any, align: Any = False, copy: Any = True) -> _Type:
    text = _ascii(code)
    if not TYPES.fullmatch(text):
        raise _not_plain(f"type {quoted(text)}")
    budget.take(ARRAY)
    return _Type(text)


def _not_plain(what: str) -> Refused:
    return Refused(f"holds an array of {what}: only numbers and strings are read", advise=True)


def _checked(dtype: Any) -> np.dtype:
    if isinstance(dtype, _Type):
        dtype = np.dtype(dtype.code)
    if not isinstance(dtype, np.dtype):
        raise Damaged("it makes an array of no type")
    if dtype.hasobject or dtype.subdtype is not None or dtype.fields is not None or dtype.kind not in "biufUS":
        raise _not_plain("another type")  # `TYPES` has refused them already
    return dtype


def _ascii(value: Any) -> str:
    if type(value) is bytes:  # of Python 2
        value = value[:100].decode("ascii", "replace")
    if type(value) is not str:
        raise Damaged("it describes a type of numbers in an unknown way")
    return value


class _Array(Unfinished):
    """A numpy.ndarray whose shape, type and data follow."""

    def finished(self, budget: Budget, state: Any) -> np.ndarray:
        if type(state) is not tuple or len(state) != 5:
            raise Damaged("it describes an array in an unknown way")
        _, shape, dtype, fortran, data = state
        return _filled(budget, data, dtype, shape, "F" if fortran is True else "C")


def _array(budget: Budget, kind: Any, shape: Any, code: Any) -> _Array:
    budget.take(ARRAY)
    return _Array()


def _filled(budget: Budget, data: Any, dtype: Any, shape: Any, order: Literal["C", "F"] = "C") -> np.ndarray:
    """Return a view of `data`, which must have exactly the bytes that the shape needs."""
    if type(data) is not bytes:
        raise Refused(f"fills an array with a {type(data).__name__}: only bytes are read")
    dtype = _checked(dtype)
    if bytes_of(shape, dtype) != len(data):
        raise Damaged(f"an array has {len(data):,} bytes of data, but its shape needs another number")
    if dtype.kind == "U" and len(data) and np.frombuffer(data, f"{dtype.str[0]}u4").max() > MAX_CODE_POINT:
        raise Damaged("an array of text has characters that do not exist")
    budget.take(ARRAY)
    if dtype.kind == "b":
        budget.take(len(data))
        truth: np.ndarray = np.ndarray(shape, np.uint8, data, order=order) != 0  # bytes above 1 are not valid booleans
        return truth
    return np.ndarray(shape, dtype, data, order=order)


def bytes_of(shape: Any, dtype: np.dtype) -> int:
    """Return the number of bytes of an array."""
    if len(shape) > MAX_DIMENSIONS or not are_counts(shape):
        raise Damaged("an array has an impossible shape")
    count: int = math.prod(shape) * dtype.itemsize
    if count == 0 and math.prod(max(1, n) for n in shape) > MAX_EMPTY_ITEMS:
        raise Damaged("an array without data has a huge shape")
    return count


def are_counts(values: Any) -> bool:
    """Return whether these are sizes or strides: a tuple of whole numbers that are not negative."""
    return type(values) is tuple and all(type(v) is int and 0 <= v < 2**62 for v in values)


def _from_buffer(budget: Budget, data: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> np.ndarray:
    array = _filled(budget, data, dtype, shape, "F" if order == "F" else "C")
    if order == "K" and axes is not None:
        if not are_counts(axes) or sorted(axes) != [*range(array.ndim)]:
            raise Damaged("an array has impossible axes")
        array = array.transpose(axes)
    return array


def _scalar(budget: Budget, dtype: Any, data: Any) -> Any:
    return _filled(budget, data, dtype, ()).item()


# ---- containers, and bytes in protocols that had none


def _encode(budget: Budget, text: Any, encoding: Any) -> bytes:
    if encoding not in ("latin1", b"latin1"):
        raise Refused(f"asks for the codec {quoted(encoding)}: only bytes written as latin1 are read")
    if type(text) is not str:
        raise Damaged("it makes bytes of something that is not text")
    budget.take(len(text))
    return text.encode("latin1")


def _empty_bytes(budget: Budget) -> bytes:
    return b""


def _dictionary(budget: Budget, items: Any = ()) -> dict[Any, Any]:
    """Return a dictionary of a list of pairs (an OrderedDict of Python 2) or of a dictionary (a Counter)."""
    if type(items) not in (dict, list, tuple):
        raise Damaged("it makes a dictionary of something that is not pairs")
    budget.take(80 + 100 * len(items))
    pairs = items.items() if type(items) is dict else items
    if not all(type(pair) in (list, tuple) and len(pair) == 2 for pair in pairs):
        raise Damaged("it makes a dictionary of something that is not pairs")
    budget.check_keys(key for key, _ in pairs)
    return dict(pairs)


def _default_dictionary(budget: Budget, factory: Any = None) -> dict[Any, Any]:
    budget.take(80)
    return {}  # the factory is not kept


def _set(budget: Budget, items: Any = ()) -> set[Any]:
    if type(items) not in (list, tuple, set, frozenset):
        raise Damaged("it makes a set of something that is not a list")
    budget.take(224 + 80 * len(items))
    budget.check_keys(items)
    return set(items)


def _frozen_set(budget: Budget, items: Any = ()) -> frozenset[Any]:
    return frozenset(_set(budget, items))


def _namespace(budget: Budget) -> dict[str, Any]:
    budget.take(80)
    return {}  # the arguments of a command, which are not needed


def _never(budget: Budget, *arguments: Any) -> None:
    raise Refused("makes an array without data: nothing was read")


def named(calls: dict[str, Callable[..., Any] | None]) -> dict[str, Name]:
    """Return the names that a file may use, with what they call."""
    return {text: Name(text, call) for text, call in calls.items()}


_NUMPY: dict[str, Callable[..., Any]] = {
    "multiarray._reconstruct": _array,
    "multiarray.scalar": _scalar,
    "numeric._frombuffer": _from_buffer,
}
_BUILTINS: dict[str, Callable[..., Any] | None] = {
    "dict": _dictionary,
    "set": _set,
    "frozenset": _frozen_set,
    "bytes": _empty_bytes,
    "list": None,  # named as the factory of a defaultdict
    "tuple": None,
}
WORDS = named(
    {
        **{f"{package}.{name}": call for package in ("numpy._core", "numpy.core") for name, call in _NUMPY.items()},
        **{f"{module}.{name}": call for module in ("builtins", "__builtin__") for name, call in _BUILTINS.items()},
        "numpy.ndarray": _never,  # named by _reconstruct, never called
        "numpy.dtype": _type,
        "collections.OrderedDict": _dictionary,
        "collections.Counter": _dictionary,
        "collections.defaultdict": _default_dictionary,
        "argparse.Namespace": _namespace,
        "_codecs.encode": _encode,
    }
)
