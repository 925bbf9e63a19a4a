"""KDO: a kernel density for the outliers, beside those of the known classes. Transductive, open-set.

The handful project, 2026. Each query is held against every known class, by the cosine to its prototype and by a kernel
density of what belongs to it, and against a density of the outliers found so far; a bias for each holds the share of
the outliers at what is expected, and the known classes equal. The equations are in `handful.density`. ::

    P(class k or outlier | i) = softmax(l_i + bias),   outlier score o_i = P(outlier | i)

It has no gradients and takes a few passes over an [n, n] matrix: quadratic in the size of the pile.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from handful.arrays import Array, class_count
from handful.density import Densities, Neighbours, densities, score_items, smooth
from handful.methods.registry import Solution, register
from handful.parameters import Number, Rule

RULES: dict[str, Rule] = {
    "outlier_share": Number(0, 1, each_task=True),
    "neighbours": Number(1, closed=True, whole=True),
    "passes": Number(1, closed=True, whole=True),
}


def state_of(near: Neighbours, end: Densities) -> dict[str, Array]:
    """What new items are scored by."""
    return {
        "items": near.items, "smooth": near.smooth, "degrees": near.degrees, "assignments": end.assignments,
        "bias": end.bias, "floor": end.floor,
    }  # fmt: skip


def neighbours_of(state: dict[str, Array], k: int) -> Neighbours:
    return Neighbours(state["items"], state["smooth"], state["degrees"], min(k, state["items"].shape[1] - 1))


def answer(logits: Array) -> tuple[Array, Array]:
    """Class probabilities [B, M, N] and P(outlier) [B, M] of logits [B, N + 1, M]."""
    xp = array_namespace(logits)
    e = xp.exp(logits - xp.max(logits, axis=1, keepdims=True))
    p = xp.matrix_transpose(e / xp.sum(e, axis=1, keepdims=True))
    return p[..., :-1], p[..., -1]


def score_new(state: dict[str, Array], items: Array, *, neighbours: int = 10, **_) -> tuple[Array, Array]:
    """New items by the densities where they ended: each on its own, nothing is refitted."""
    end = Densities(state["bias"], state["bias"], state["assignments"], state["floor"])
    return answer(score_items(neighbours_of(state, neighbours), end, items))


@register("kdo", rules=RULES, score_new=score_new, together=1 / 2)
def kdo(
    support: Array, labels: Array, query: Array, *, outlier_share: Any = 0.5, neighbours: int = 10, passes: int = 11
) -> Solution:
    """outlier_share: how much of the pile is unknown, in (0, 1), or one for each task; neighbours: of the smoothing."""
    near = smooth(support, query, neighbours)
    end = densities(near, labels, class_count(labels), outlier_share, passes)
    return Solution(*answer(end.logits), state_of(near, end), outlier_share, passes)
