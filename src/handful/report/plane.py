"""Items on a plane: the two directions along which they differ most."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.core.arrays import at_usual_scale, unit

MAX_AXIS_ROWS = 2000  # rows from which the axes are computed


def centred(features: Any) -> np.ndarray:
    """Features as unit vectors about their mean, the way the maps compare them.

    Parameters
    ----------
    features : array_like [n, D]
        The features of the items.

    Returns
    -------
    ndarray [n, D]
        Rows of length 1; numbers that are not finite count as 0.
    """
    x = at_usual_scale(np.asarray(features, np.float64))
    x = np.where(np.isfinite(x), x, 0.0)
    directions: np.ndarray = unit(x - x.mean(axis=0)) if len(x) else x
    return directions


def on_plane(features: Any) -> np.ndarray:
    """Places [n, 2] of items on a plane, by PCA of their directions.

    Parameters
    ----------
    features : array [n, D]
        The items.

    Returns
    -------
    array [n, 2]
        The places; the first column varies the most.

    Examples
    --------
    >>> on_plane(np.eye(3)).shape
    (3, 2)
    """
    x = centred(features)
    if not len(x):
        return np.empty((0, 2))
    x = x - x.mean(axis=0)
    sample = x if len(x) <= MAX_AXIS_ROWS else x[:: len(x) // MAX_AXIS_ROWS + 1]
    _, _, axes = np.linalg.svd(sample, full_matrices=False)
    flat = x @ axes[:2].T
    return np.column_stack([flat, np.zeros((len(flat), 2))])[:, :2]
