"""Items on a plane, for maps: by UMAP if it is installed, else along the two directions in which they differ most."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.core.arrays import at_usual_scale, unit

MAX_AXIS_ROWS = 2000  # rows from which the axes are computed


def by_umap(features: Any) -> np.ndarray:
    """Places [n, 2] of items by UMAP, or by `on_plane` if it is not installed."""
    try:
        from umap import UMAP
    except ImportError:
        return on_plane(features)
    x = _directions(features)
    flat = UMAP(n_neighbors=min(15, len(x) - 1), random_state=0).fit_transform(x) if len(x) > 4 else x[:, :2]
    return np.column_stack([flat, np.zeros(len(flat))])[:, :2]


def on_plane(features: Any) -> np.ndarray:
    """Places [n, 2] of items by PCA of their directions; the first column varies the most.

    >>> on_plane(np.eye(3)).shape
    (3, 2)
    """
    x = _directions(features)
    if not len(x):
        return np.empty((0, 2))
    x = x - x.mean(axis=0)
    sample = x if len(x) <= MAX_AXIS_ROWS else x[:: len(x) // MAX_AXIS_ROWS + 1]
    _, _, axes = np.linalg.svd(sample, full_matrices=False)
    flat = x @ axes[:2].T
    return np.column_stack([flat, np.zeros((len(flat), 2))])[:, :2]


def _directions(features: Any) -> np.ndarray:
    """Features [n, D] as unit vectors about their mean; numbers that are not finite count as 0."""
    x = at_usual_scale(np.asarray(features, np.float64))
    x = np.where(np.isfinite(x), x, 0.0)
    directions: np.ndarray = unit(x - x.mean(axis=0)) if len(x) else x
    return directions
