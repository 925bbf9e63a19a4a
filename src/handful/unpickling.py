"""Pickles of arrays and plain containers, read without running them.

A pickle is a program. This one is run by an interpreter that knows only the words needed to say "array", "tensor"
and "plain container"; every other name is refused when it is asked for, before it could be called. The words are our
own functions: NumPy's unpickling code is never reached, and torch's only behind `weights_only`.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np

ADVICE = "where you trust the file, load it and save its arrays with numpy.savez(..., features=..., labels=...)"


def load_plain(path: Path, advice: str = ADVICE) -> Any:
    """What a pickle holds: strings of Python 2 as bytes, arrays as something that `plain` makes arrays of.

    `advice` ends the sentence where the file asks for more than that.
    """
    with path.open("rb") as file:
        if file.read(2) == b"PK":
            raise ValueError(
                "the file is an archive of torch.save, not a pickle: load it with torch.load(..., weights_only=True) "
                "and save its arrays with numpy.savez(..., features=..., labels=...)"
            )
        file.seek(0)
        try:
            return _Unpickler(file, encoding="bytes").load()  # arrays of Python 2 came as its strings
        except _Refused as error:
            raise ValueError(f"{error}; {advice}" if error.advise else str(error)) from None
        except ImportError:
            raise
        except Exception as error:  # a damaged pickle can raise anything
            raise ValueError(f"the pickle is damaged, or no pickle: {type(error).__name__}: {error}") from None


def plain(value: Any) -> Any:
    """An array that came out of `load_plain` as a NumPy array, without a copy; anything else as it is."""
    return value.value if isinstance(value, _Array) else value


class _Refused(ValueError):
    def __init__(self, reason: str, advise: bool = False):
        super().__init__(reason)
        self.advise = advise


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = _ADMITTED.get((_MOVED.get(module, module), name))
        if known is None:
            raise _Refused(
                f"the pickle asks for {module}.{name}, which is no array and no plain container, and could run "
                "anything: it was not called and nothing was read",
                advise=True,
            )
        return known


class _Word:
    """What a pickle gets for a name: it can be called, and neither changed nor looked into."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]):
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise _Refused("the pickle tries to change a function: it was not changed and nothing was read")


class _DType:
    """A numpy.dtype being unpickled: numbers and strings only, so that no array holds Python objects."""

    __slots__ = ("dtype",)

    def __init__(self, code: str | bytes, align: bool = False, copy: bool = True):
        code = _text(code)
        if not re.fullmatch(r"b1|[iu][1248]|f[248]|[US]\d{1,6}", code):
            raise _Refused(
                f"the pickle holds an array of type {code!r}: only numbers and strings are read", advise=True
            )
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order, subarray, names, fields = state[1:5]
        if (subarray, names, fields) != (None, None, None):
            raise _Refused("the pickle holds an array of records: only numbers and strings are read", advise=True)
        self.dtype = np.dtype(_text(order) + self.dtype.str[1:])


class _Array:
    """A numpy.ndarray being unpickled; `plain` gives the array."""

    __slots__ = ("value",)

    def __init__(self, value: np.ndarray | None = None):
        self.value = value

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        self.value = _filled(shape, dtype, data, "F" if fortran else "C")


class _Storage:
    """The numbers of a torch tensor, in one row."""

    __slots__ = ("flat",)

    def __init__(self, flat: Any):
        self.flat = flat


def _text(value: str | bytes) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value


def _filled(shape: Any, dtype: _DType, data: bytes, order: Literal["C", "F"] = "C") -> np.ndarray:
    if not isinstance(data, bytes | bytearray):
        raise _Refused(f"the pickle fills an array with a {type(data).__name__}: only bytes are read")
    return np.ndarray(shape, dtype.dtype, bytes(data), order=order)  # a bytearray could still be made shorter


def _reconstruct(kind: Any, shape: Any, code: Any) -> _Array:
    return _Array()  # its state follows


def _from_buffer(data: bytes, dtype: _DType, shape: Any, order: str, axes: Any = None) -> _Array:
    array = _filled(shape, dtype, data, "F" if order == "F" else "C")
    return _Array(array.transpose(axes) if order == "K" and axes is not None else array)


def _scalar(dtype: _DType, data: bytes) -> Any:
    return _filled((), dtype, data).item()


def _encode(text: str, encoding: str) -> bytes:
    """How bytes are written by pickle protocols that had none."""
    if encoding != "latin1":
        raise _Refused(f"the pickle asks for the codec {encoding!r}: only bytes written as latin1 are read")
    return text.encode("latin1")


def _storage(data: bytes) -> _Storage:
    try:
        torch: Any = import_module("torch")  # not an import statement: type checking must not need torch
    except ImportError:
        raise ImportError("the pickle holds torch tensors: pip install 'handful[torch]' to read them") from None
    storage = torch.load(BytesIO(data), map_location="cpu", weights_only=True)
    return _Storage(torch.empty(0, dtype=storage.dtype).set_(storage._untyped_storage))


def _tensor(storage: _Storage, offset: int, shape: Any, strides: Any, *_: Any) -> _Array:
    tensor = storage.flat.as_strided(shape, strides, offset)  # never leaves the storage; torch's own would enlarge it
    return _Array((tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy())


def _empty_bytes() -> bytes:
    return b""


def _default_dict(factory: Any = None) -> dict[Any, Any]:
    return {}


def _never(*arguments: Any) -> None:
    raise _Refused("the pickle makes an array without data: nothing was read")


_MOVED = {  # as NumPy 1 and Python 2 called them
    "numpy.core.multiarray": "numpy._core.multiarray",
    "numpy.core.numeric": "numpy._core.numeric",
    "__builtin__": "builtins",
}
_ADMITTED = {
    ("numpy._core.multiarray", "_reconstruct"): _Word(_reconstruct),
    ("numpy._core.multiarray", "scalar"): _Word(_scalar),
    ("numpy._core.numeric", "_frombuffer"): _Word(_from_buffer),
    ("numpy", "ndarray"): _Word(_never),  # named by _reconstruct, never called
    ("numpy", "dtype"): _Word(_DType),
    ("torch._utils", "_rebuild_tensor_v2"): _Word(_tensor),
    ("torch.storage", "_load_from_bytes"): _Word(_storage),
    ("collections", "OrderedDict"): _Word(dict),
    ("collections", "defaultdict"): _Word(_default_dict),  # its factory is not kept
    ("builtins", "dict"): _Word(dict),
    ("builtins", "list"): _Word(list),
    ("builtins", "tuple"): _Word(tuple),
    ("builtins", "set"): _Word(set),
    ("builtins", "frozenset"): _Word(frozenset),
    ("builtins", "bytes"): _Word(_empty_bytes),
    ("_codecs", "encode"): _Word(_encode),
}
