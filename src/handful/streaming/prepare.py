"""Preparation in passes: the mean of a pile that is not in memory, and a look at every number in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from handful.core.prepare import LINEAR, SCALE, all_steps, apply, as_dtype, is_extreme, learn
from handful.streaming.passes import Pass, Passes, Rows, View


def prepare_in_passes(
    support: np.ndarray, count: int, steps: Sequence[str] | str, base_mean: Any, dtype: str
) -> Passes[tuple[np.ndarray, View]]:
    """As `handful.core.prepare.prepare`, for a pile of `count` rows: prepared support [1, S, D], and a view of rows."""
    names = all_steps(steps, is_extreme(support))
    if "qr" in dict(names):
        raise ValueError("qr needs all features of a task at once: leave it out for a pile that is read in pieces")
    means = [i for i, (kind, _) in enumerate(names) if kind == "task" or (kind == "base" and base_mean is None)]
    learned: list[tuple[str, np.ndarray]] = []
    own, factors = False, None
    seen = yield Pass(_total, {}, View((), str(support.dtype)), len(means) - (0 in means))
    for i, (kind, argument) in enumerate(names):
        if i in means:
            kind = "task"
            if i:
                seen = yield Pass(_total, {}, View(tuple(learned), str(support.dtype)), sum(j > i for j in means))
            total = support.sum(axis=1, keepdims=True, dtype=np.float64) + seen["total"]
            value = (total / (support.shape[1] + count)).astype(support.dtype)
        else:
            value = learn(kind, argument, support, support[:, :0], base_mean, factors)
        factors = value if kind == SCALE else factors if kind in LINEAR else None
        learned.append((kind, value))
        support = apply(kind, value, support, own)
        own = own or kind != "none"
    return as_dtype(support, dtype), View(tuple(learned), dtype)


def _total(rows: Rows) -> dict[str, np.ndarray]:
    """In double precision: an item that lies near the mean is moved far by a mean that is a little off."""
    x = rows.x * rows.per_length[:, None] if rows.by_length else rows.x
    return {"total": x.sum(axis=0, dtype=np.float64)}
