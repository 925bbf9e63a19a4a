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
    ordered = xp.sort(scores, axis=-1, stable=False)
    edges = xp.concat([ordered[:, :1] - 1, ordered, ordered[:, -1:] + 1], axis=-1)
    task = np.arange(len(known))
    return (edges[task, known] + edges[task, known + 1]) / 2


def at_share(scores: np.ndarray, share: float) -> float:
    """The threshold above which lies this share of the scores [n].

    >>> at_share(np.array([0.1, 0.9, 0.4, 0.2]), 0.25)
    0.65
    """
    if not 0 <= share <= 1:
        raise ValueError(f"the share of unknowns is {share}: give a number between 0 and 1")
    return float(threshold(np.asarray(scores, np.float64)[None], "rank", share)[0])


def at_false_unknown(p_unknown: np.ndarray, rate: float) -> float:
    """The lowest threshold with at most `rate` of the knowns expected above it, P(unknown) [n] taken at its word.

    Calling the items with the highest P unknown, the expected number of knowns among them is the sum of 1 - P.

    >>> at_false_unknown(np.array([0.9, 0.8, 0.1, 0.0]), 0.2)  # 0.3 of 2.2 expected knowns are above
    0.45
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"the rate of knowns called unknown is {rate}: give a number between 0 and 1")
    p = np.sort(np.asarray(p_unknown, np.float64))[::-1]
    knowns = np.cumsum(1 - p)
    count = int(np.searchsorted(knowns, rate * knowns[-1], side="right")) if len(p) else 0  # may be called unknown
    edges = np.concatenate([[1.0], p, [0.0]])
    return float((edges[count] + edges[count + 1]) / 2)
