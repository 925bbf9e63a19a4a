"""How numba compiles the kernels, and where it keeps them: in the cache folder of the user, whoever installed handful.

numba itself would write beside the source files, which may be read-only, and would notice changes in the file of the
compiled function only. A kernel is inlined from several files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from numba import njit
    from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
except ImportError as error:  # pragma: no cover
    raise ImportError("the fused kernels need numba: pip install 'handful[fast]'") from error

from handful.engines.compiling import kernel_folder, source_digest

# Helpers are always inlined. Otherwise the compiler would inline only what it has just compiled, and not what comes
# from the cache, and the last bits of a result would depend on whether the machine has run this before.
helper = njit(fastmath=True, error_model="numpy", nogil=True, forceinline=True)


def entry(function: Callable[..., Any]) -> Any:
    """A function that is compiled once on this machine; what it calls is inlined."""
    dispatcher = njit(fastmath=True, error_model="numpy", nogil=True)(function)
    if kernel_folder() is not None:
        dispatcher._cache = _Cache(function)  # numba has no public way to choose the folder of one function
    return dispatcher


class _Locator(_CacheLocator):
    """The folder of the kernels; its name changes with their source files."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get_cache_path(self) -> str:
        return str(kernel_folder())

    def get_source_stamp(self) -> str:
        return source_digest()

    def get_disambiguator(self) -> str:
        return self._name

    @classmethod
    def from_function(cls, function: Any, file: str) -> _Locator:
        return cls(function.__module__.replace(".", "_"))


class _Storage(CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class _Cache(FunctionCache):
    _impl_class = _Storage

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel as it was stored; None, so that it is compiled again, if a file was cut off or damaged."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # of unpickling, which may raise any
            self.flush()
            return None
