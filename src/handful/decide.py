"""From scores to decisions: above which outlier score is an item unknown?"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from handful.arrays import Array


def threshold(scores: Array, kind: str, share: Any) -> Array:
    """One threshold for each task [B], from the scores [B, Q] of its queries.

    kind "probability": 0.5, where unknown is the likelier answer. kind "rank": only the order of scores means
    something, so the `share` (a number, or one a task) of the pile with the highest scores is called unknown.
    """
    xp = array_namespace(scores)
    if kind == "probability":
        return xp.full(scores.shape[:1], 0.5, dtype=scores.dtype, device=device(scores))
    if not scores.shape[-1]:  # no pile to rank: nothing is unknown
        return xp.full(scores.shape[:1], xp.inf, dtype=scores.dtype, device=device(scores))
    count = scores.shape[-1]
    known = np.floor((1 - np.broadcast_to(share, scores.shape[:1])) * count + 0.5).astype(int)  # how many stay below
    ordered = xp.sort(scores, axis=-1)
    edges = xp.concat([ordered[:, :1] - 1, ordered, ordered[:, -1:] + 1], axis=-1)
    task = np.arange(len(known))
    return (edges[task, known] + edges[task, known + 1]) / 2
