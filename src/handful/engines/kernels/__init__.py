"""The kernels in C: a small shared library without Python's API, called on the memory of NumPy's arrays.

It holds `prepare`, `descend`, `density`, `hide` and `look`, for float32 and float64, and on x86-64 for three levels of
the processor. They do what the array code does, one task at a time with its features in the cache. A call releases
Python's lock, and `handful.solving` distributes tasks over threads. `hatch_build.py` compiles the library when the
package is installed. Without it, for torch, and with backend="array", the array code does the work.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from array_api_compat import is_numpy_array

from handful.core.arrays import Array

TYPES = {"float32": "float", "float64": "double"}


@cache
def _library() -> ctypes.CDLL | None:
    """The library; None if it was not compiled, or for another platform, or from other sources than are here."""
    folder = Path(__file__).parent
    for file in sorted(folder.glob("kernels.*")):
        if file.suffix in (".so", ".dll"):
            try:
                library = ctypes.CDLL(str(file))
                compiled_from = library.sources() & 0xFFFFFFFF
            except (OSError, AttributeError):
                return None
            sources = crc32(b"".join(source.read_bytes() for source in sorted(folder.glob("*.[ch]"))))
            return library if compiled_from == sources else None
    return None


@cache
def levels() -> tuple[str, ...]:
    """The levels that are in the library and run on this processor, the best last; empty without the library."""
    library = _library()
    if library is None:
        return ()
    if hasattr(library, "descend_float_plain"):
        return ("plain",)
    return tuple(f"v{level}" for level in range(2, library.level() + 1))


def can_use(backend: str, *arrays: Array) -> bool:
    """Whether the kernels compute with these arrays: NumPy arrays, all of float32 or all of float64."""
    if backend == "array" or not levels() or not all(map(is_numpy_array, arrays)):
        return False
    return str(arrays[0].dtype) in TYPES and all(a.dtype == arrays[0].dtype for a in arrays)


def call(name: str, dtype: Any, *arrays: np.ndarray, level: str | None = None) -> None:
    """Call a kernel."""
    assert all(a.flags.c_contiguous for a in arrays), "kernels read arrays in C's order"
    function = getattr(_library(), f"{name}_{TYPES[str(dtype)]}_{level or levels()[-1]}")
    if function(*(ctypes.c_void_p(a.ctypes.data) for a in arrays)):
        raise MemoryError(f"not enough memory for the kernel {name!r}: solve fewer tasks or a smaller pile at once")


def joined(support: np.ndarray, query: np.ndarray) -> np.ndarray:
    """The examples and the pile [B, S + Q, D]: a copy, or the array that both are views of, as `prepare` gives them."""
    whole, n_support = support.base, support.shape[1]
    shape = (len(support), n_support + query.shape[1], support.shape[2])
    if whole is not None and whole is query.base and whole.shape == shape and whole.flags.c_contiguous:
        parts = (support, whole[:, :n_support]), (query, whole[:, n_support:])
        if all(x.strides == y.strides and x.ctypes.data == y.ctypes.data for x, y in parts):
            return whole
    return np.concatenate([support, query], axis=1)
