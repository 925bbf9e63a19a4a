"""The number of threads to use, and how to keep the BLAS from using them a second time."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any


def available_threads() -> int:
    """Return the number of cores that this process may use, or OMP_NUM_THREADS if that is lower."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    requested = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(requested)) if requested.isdigit() and int(requested) else cores


def one_blas_thread() -> Any:
    """Return a context in which the BLAS uses one thread: threads over tasks already use all cores."""
    return _blas(len(sys.modules)).limit(limits=1, user_api="blas")


@lru_cache(1)
def _blas(_modules: int) -> Any:
    """Find the BLAS libraries, again when more modules are loaded: SciPy brings its own BLAS."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
