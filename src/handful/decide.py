"""From scores to decisions: above which outlier score is an item unknown?"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from handful.arrays import Array


def threshold(scores: Array, kind: str, share: Any) -> Array:
    """One threshold for each task [B], from the scores [B, Q] of its queries.

    kind "probability": 0.5, where unknown is the likelier answer. kind "rank": only the order of scores means
    something, so the `share` (a number) of the pile with the highest scores is called unknown.
    """
    xp = array_namespace(scores)
    if kind == "probability":
        return xp.full(scores.shape[:1], 0.5, dtype=scores.dtype, device=device(scores))
    if not scores.shape[-1]:  # no pile to rank: nothing is unknown
        return xp.full(scores.shape[:1], xp.inf, dtype=scores.dtype, device=device(scores))
    ordered = xp.sort(scores, axis=-1)
    known = round((1 - share) * scores.shape[-1])  # how many stay below
    if known == 0:
        return ordered[:, 0] - 1
    if known == scores.shape[-1]:
        return ordered[:, -1]
    return (ordered[:, known - 1] + ordered[:, known]) / 2
