"""How many threads there are to work with, and how to keep the BLAS from taking them twice."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import lru_cache
from typing import Any


def available_threads() -> int:
    """The cores this process may use, or fewer if OMP_NUM_THREADS says so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    requested = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(requested)) if requested.isdigit() and int(requested) else cores


def one_blas_thread() -> Any:
    """Threads over tasks and threads inside the BLAS would fight for the same cores."""
    controller = _blas(len(sys.modules))
    return controller.limit(limits=1, user_api="blas") if controller else nullcontext()


@lru_cache(1)
def _blas(_modules: int) -> Any:
    """Found anew when modules were imported since: SciPy brings a BLAS of its own."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # pragma: no cover - scikit-learn brings it
        return None
    return ThreadpoolController()
