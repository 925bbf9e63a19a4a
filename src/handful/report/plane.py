"""Items on a plane, for maps: along the two directions in which they differ most."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.core.arrays import at_usual_scale, unit

MAX_AXIS_ROWS = 2000  # rows from which the axes are computed


def on_plane(features: Any) -> np.ndarray:
    """Places [n, 2] of items by PCA of their directions from the mean; numbers that are not finite count as 0."""
    x = at_usual_scale(np.asarray(features, np.float64))
    x = np.where(np.isfinite(x), x, 0.0)
    if not len(x):
        return np.empty((0, 2))
    x = unit(x - x.mean(axis=0))
    x = x - x.mean(axis=0)
    sample = x if len(x) <= MAX_AXIS_ROWS else x[:: len(x) // MAX_AXIS_ROWS + 1]
    _, _, axes = np.linalg.svd(sample, full_matrices=False)
    flat = x @ axes[:2].T
    return np.column_stack([flat, np.zeros((len(flat), 2))])[:, :2]
