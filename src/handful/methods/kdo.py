"""KDO: a kernel density for the outliers, beside those of the known classes. Transductive, open-set.

It smooths the features over the nearest neighbours of each item, then makes a few passes over the pile. Each item is
compared with every class, by the cosine to its prototype and by a kernel density of its members so far, and with a
density of the unknowns so far. A bias holds the share of unknowns at `outlier_share`; others pull the classes towards
equal sizes, a little. Without a share it is run at sixteen shares, and their answers are averaged by how probable each
share is. It is the quicker half of the default method, better on features of a good backbone, and worse on tables of
measurements.

The handful project, 2026. The equations of the logits l and the biases are in `handful.engines.density`. ::

    P(class k or outlier | i, g) = softmax(l_i + bias) at the share g
    P(class k or outlier | i)    = sum_g weight(g) P(... | i, g),   outlier score o_i = P(outlier | i)

The weights are the posterior of the share (`handful.engines.share`). A share that is given has all the weight.

There are no gradients: a few passes over an [n, n] matrix, quadratic in the size of the pile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import Array, as_like, class_count, with_unknown
from handful.core.parameters import Count, OutlierShare, inner_share, is_auto
from handful.engines import share
from handful.engines.density import Densities, score_items
from handful.engines.neighbours import Neighbours
from handful.engines.share import Share
from handful.methods.registry import Backend, Info, Solution, register

INFO = Info(
    name="kdo",
    estimator="KDO",
    title="KDO: kernel density for the outliers",
    authors="The handful project",
    year=2026,
    paper="none: docs/reference/methods.md has the equations",
    paradigm="transductive",
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
        "assignments": "1 G M I",
        "bias": "1 G M",
        "weights": "1 G",
        "floor": "1",
        "beta": "1",
    },
)


def state_of(items: Neighbours, belief: Belief) -> dict[str, Array]:
    """The arrays that score new items."""
    end = belief.end
    return {
        "items": items.items, "smooth": items.smooth, "degrees": items.degrees, "assignments": end.assignments,
        "bias": end.bias, "weights": belief.weights, "floor": end.floor, "beta": end.beta,
    }  # fmt: skip


def neighbours_of(state: dict[str, Array], k: int) -> Neighbours:
    """The smoothed items of the task that a state was learned from."""
    return Neighbours(state["items"], state["smooth"], state["degrees"], min(k, state["items"].shape[1] - 1))


def answer(probabilities: Array, weights: Array) -> tuple[Array, Array]:
    """P(class) [B, M, N] and P(outlier) [B, M] from those at each share [B, G, N + 1, M], weighted by [B, G]."""
    xp = array_namespace(probabilities)
    batch, n_shares, *shape = probabilities.shape
    p = weights[:, None, :] @ xp.reshape(probabilities, (batch, n_shares, -1))
    p = xp.matrix_transpose(xp.reshape(p, (batch, *shape)))
    return p[..., :-1], p[..., -1]


def score_new(state: dict[str, Array], items: Array, *, neighbours: int = 10, **_: Any) -> tuple[Array, Array]:
    """Score each new item alone, by the final densities."""
    end = Densities(state["bias"], state["assignments"], state["floor"], state["beta"], state["bias"])
    logits = score_items(neighbours_of(state, neighbours), end, items)
    xp = array_namespace(logits)
    e = xp.exp(logits - xp.max(logits, axis=2, keepdims=True))
    return answer(e / xp.sum(e, axis=2, keepdims=True), state["weights"])


@register(INFO, score_new=score_new, chunk_factor=1 / 2, estimates_share=True, max_queries=share.MAX_QUERIES)
def kdo(
    support: Array,
    labels: Array,
    query: Array,
    unknown: Array | None = None,
    *,
    outlier_share: OutlierShare = "auto",
    neighbours: Count = 10,
    passes: Count = 11,
    backend: Backend = "auto",
) -> Solution:
    """Solve tasks by kernel densities of the known classes and of the outliers.

    Parameters
    ----------
    unknown : array [B, U, D], optional
        Prepared features of examples of no class: fixed members of the outliers' density.
    outlier_share : float, array [B] or "auto", default "auto"
        How much of the pile is unknown, or one share for each task: the last entry of the target. "auto" averages over
        the shares that may be true, by what the examples and the pile show.
    neighbours : int, default 10
        Number of neighbours that each item is smoothed over.
    passes : int, default 11
        Number of passes over the pile where the share is given.
    backend : {"auto", "array"}, default "auto"
        How to compute: "auto" uses the kernels in C where they are there, "array" NumPy or torch alone.
    """
    ways = class_count(labels)
    support, labels = with_unknown(support, labels, unknown)
    items, belief = smooth_and_believe(support, labels, query, ways, outlier_share, neighbours, passes, backend)
    return Solution(
        *answer(belief.end.probabilities, belief.weights), state_of(items, belief), belief.outlier_share, passes,
        share_interval=belief.interval, is_calibrated=belief.interval is not None, share_posterior=belief.above,
    )  # fmt: skip


@dataclass
class Belief:
    """What is believed of the share of outliers, and KDO at each share that may be true."""

    outlier_share: Any  # a number or [B]: the share that was given, or the estimate
    weights: Array  # [B, G], how probable each share is
    end: Densities  # KDO at each share
    posterior: Share | None = None  # if the share was estimated

    @property
    def interval(self) -> np.ndarray | None:
        """The interval of the share [B, 2], if it was estimated."""
        return None if self.posterior is None else self.posterior.interval

    @property
    def above(self) -> np.ndarray | None:
        """P(share > g) for each share that was tried [B, G], if the share was estimated."""
        return None if self.posterior is None else self.posterior.above


def smooth_and_believe(
    support: Array,
    codes: Array,
    query: Array,
    ways: int,
    outlier_share: Any,
    neighbours: int,
    passes: int,
    backend: str,
) -> tuple[Neighbours, Belief]:
    """Smooth the prepared items, and run KDO at the share that is given, or at all shares that may be true."""
    if is_auto(outlier_share):
        items, posterior = share.smooth_and_estimate(support, codes, query, ways, neighbours, backend)
        assert posterior.end is not None
        return items, Belief(posterior.estimate, as_like(posterior.weights, query), posterior.end, posterior)
    column = as_like(np.reshape(inner_share(outlier_share), (-1, 1)), query)  # [1, 1], or [B, 1]: one for each task
    items, end, _ = share.solve(support, codes, query, ways, neighbours, column, passes, backend=backend)
    return items, Belief(outlier_share, array_namespace(query).ones_like(end.bias[..., 0]), end)
