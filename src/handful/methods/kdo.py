"""KDO: a kernel density for the outliers, beside those of the known classes. Transductive, open-set.

The handful project, 2026. Each query is held against every known class, by the cosine to its prototype and by a kernel
density of what belongs to it, and against a density of the outliers found so far; a bias for each holds the share of
the outliers at what is expected, and the known classes equal. The equations are in `handful.engines.density`. ::

    P(class k or outlier | i) = softmax(l_i + bias),   outlier score o_i = P(outlier | i)

It has no gradients and takes a few passes over an [n, n] matrix: quadratic in the size of the pile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import Array, as_like, class_count
from handful.core.parameters import SHARE, Number, Rule, is_auto
from handful.engines import share
from handful.engines.density import Densities, Graph, Kernels, Neighbours, densities, kernels, score_items, smooth
from handful.engines.growing import Growth
from handful.methods.contract import Info, Solution
from handful.methods.registry import register

INFO = Info(
    name="kdo",
    estimator="KDO",
    title="KDO: kernel density for the outliers",
    authors="The handful project",
    year=2026,
    paper="none: docs/methods.md has the equations",
    paradigm="transductive",
    setting="open-set",
    preparation=("signed(0.6)", "l2", "task", "l2"),
    score="probability",
    summary=(
        "Prototypes and kernel densities for the known classes, a density of its own for the outliers, "
        "and a bias that holds their share."
    ),
    new_items="by the densities where they ended",
    state={
        "items": "1 I D",
        "smooth": "1 I D",
        "degrees": "1 I",
        "assignments": "1 1 M I",
        "bias": "1 1 M",
        "floor": "1",
        "beta": "1",
    },
)

RULES: dict[str, Rule] = {
    "outlier_share": SHARE,
    "neighbours": Number(1, closed=True, whole=True),
    "passes": Number(1, closed=True, whole=True),
}


def state_of(near: Neighbours, end: Densities) -> dict[str, Array]:
    """What new items are scored by."""
    return {
        "items": near.items, "smooth": near.smooth, "degrees": near.degrees, "assignments": end.assignments,
        "bias": end.bias, "floor": end.floor, "beta": end.beta,
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
    bias = state["bias"]
    end = Densities(bias, bias, state["assignments"], state["floor"], state["beta"], bias)
    return answer(score_items(neighbours_of(state, neighbours), end, items))


def grow(growth: Growth, *, outlier_share: Any = "auto", neighbours: int = 10, passes: int = 11) -> Solution:
    """A pile that has grown: its graph is changed where items came and went, the rest is as in `kdo`.

    The graph takes half of the time of a fit; through it nearly every y moves a little, so H and E are new. The passes
    begin where they always do: they are quick, and more of them, from where they ended, would be another answer.
    """
    state, labels = growth.state, growth.task.labels
    graph = growth.kept.get("graph") or Graph.of(state["items"][0], neighbours)
    shown = state["shown"][0] if "shown" in state else share.sample(growth.seen, share.MOST)
    graph, shown = growth.follow(graph, shown, growth.prepared)
    solution = _solve(graph.neighbours(), labels, outlier_share, passes)
    solution.state["shown"], solution.kept["graph"] = shown[None], graph
    return solution


@register(
    INFO, rules=RULES, score_new=score_new, chunk_factor=1 / 2, estimates_share=True, max_queries=share.MOST, grow=grow
)
def kdo(
    support: Array, labels: Array, query: Array, *, outlier_share: Any = "auto", neighbours: int = 10, passes: int = 11
) -> Solution:
    """outlier_share: how much of the pile is unknown, or "auto", or one for each task; neighbours: of the smoothing."""
    return _solve(smooth(support, query, neighbours), labels, outlier_share, passes)


def _solve(near: Neighbours, labels: Array, outlier_share: Any, passes: int) -> Solution:
    of = kernels(near, labels, class_count(labels))
    told, interval = find_share(outlier_share, of, labels)
    end = densities(of, as_column(told, near.smooth), passes)
    return Solution(*answer(end.logits[:, 0]), state_of(near, end), told, passes, share_interval=interval)


def find_share(given: Any, of: Kernels, labels: Array) -> tuple[Any, np.ndarray | None]:
    """The share of outliers, and where it may lie if it was not given."""
    if not is_auto(given):
        return given, None
    found = share.estimate(of, labels)
    return found.estimate, found.interval


def as_column(share: Any, like: Array) -> Array:
    """One share for all tasks, or one a task, as [1, 1] or [B, 1]."""
    return as_like(np.reshape(share, (-1, 1)), like)
