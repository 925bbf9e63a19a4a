"""`handful.core.prepare` by its kernel, where there is one (`handful.engines.kernels`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from handful.core.arrays import FLOOR, Array
from handful.core.prepare import POWERS, Prepared, all_steps, is_extreme, learn
from handful.core.prepare import prepare as prepare_arrays
from handful.engines.kernels import call, can_use

KINDS = ("task", "base", "none", "l2", "power", "signed")  # as prepare.c numbers them


def prepare(
    support: Array,
    query: Array,
    steps: Sequence[str] | str,
    base_mean: Any = None,
    scale: bool | None = None,
    backend: str = "auto",
) -> Prepared:
    """Do what `handful.core.prepare.prepare` does, which is called for whatever is rare, and where there is no kernel.

    Rare are features of an extreme size, the step "qr" and exponents above 1.
    """
    if not can_use(backend, support, query):
        return prepare_arrays(support, query, steps, base_mean, scale)
    steps_of = all_steps(steps, is_extreme(support) if scale is None else scale)
    if not all(kind in KINDS and (argument is None or 0 < argument <= 1) for kind, argument in steps_of):
        return prepare_arrays(support, query, steps, base_mean, scale)
    support, query = np.ascontiguousarray(support), np.ascontiguousarray(query)
    names = ["task" if kind == "base" and base_mean is None else kind for kind, _ in steps_of]
    (batch, n_support, dimension), n_query, dtype = support.shape, query.shape[1], support.dtype
    means = np.empty((batch, names.count("task"), 1, dimension), dtype)
    own_means = iter(means.swapaxes(0, 1))
    learned = tuple(
        (kind, next(own_means) if kind == "task" else learn(kind, argument, support, query, base_mean))
        for kind, (_, argument) in zip(names, steps_of, strict=True)
    )
    base, exponents = np.zeros(dimension, dtype), np.ones(len(names), dtype)
    for s, (kind, value) in enumerate(learned):
        if kind == "base":
            base = np.array(value[0, 0])
        elif kind in POWERS:
            exponents[s] = value[0, 0, 0]
    prepared = np.empty((batch, n_support + n_query, dimension), dtype)
    sizes = np.array([batch, n_support, n_query, dimension, len(names)], np.int64)
    kinds = np.array([KINDS.index(kind) for kind in names], np.int64)
    call("prepare", dtype, sizes, np.array([FLOOR]), support, query, kinds, exponents, base, means, prepared)
    return Prepared(prepared[:, :n_support], prepared[:, n_support:], learned)
