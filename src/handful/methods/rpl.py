"""RPL: a reciprocal point for each class, which represents everything outside the class. Inductive, open-set.

Gives each class a reciprocal point that represents everything outside the class; an item belongs to the class whose
reciprocal point it is farthest from, and one that is far from none is unknown. A second term bounds how far known items
may be, so that open space stays near the points. The paper shapes the features by this loss, and that is where its
strength lies; on fixed features there is little left to shape. Classes come out as well as by the nearest mean.
Unknowns are ranked worse than by a plain distance to the examples, most clearly with one example per class.

Chen, Qiao, Shi, Peng, Li, Huang, Pu, Tian: "Learning Open Set Network with Discriminative Reciprocal Points", 2020.
Each class j has a reciprocal point P_j and a margin R_j; an item belongs to the class whose reciprocal point it is
farthest from::

    d_ij = |z_i - P_j|^2,    p_i = softmax_j(gamma d_ij)
    loss = -mean_S log p_iy + lambda mean_S (d_iy - R_y)^2          minimised by Adam over P and R

The second term bounds the distance of a known item to its reciprocal point, so that unknown items stay near it. Outlier
score: o_i = -max_j d_ij. P_j starts at the mean of the other classes, R_j at the mean distance of the class to it. The
paper also learns the features; here they are fixed.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import Array, class_count, class_means, one_hot, softmax, squared_distances
from handful.core.parameters import NotNegative, Positive, Whole
from handful.engines.descent import Adam
from handful.methods.registry import Info, Solution, register

INFO = Info(
    name="rpl",
    estimator="RPL",
    title="RPL (reciprocal points)",
    authors="Chen, Qiao, Shi, Peng, Li, Huang, Pu, Tian",
    year=2020,
    paper="Learning Open Set Network with Discriminative Reciprocal Points (ECCV 2020)",
    summary="Learns for each class a point that stands for all it is not; the unknown stay near these points.",
    new_items="by the learned reciprocal points",
    state={"points": "1 N D"},
)


def score_new(state: dict[str, Array], items: Array, *, gamma: float = 1.0, **_: Any) -> tuple[Array, Array]:
    """Score new items by their distances to the reciprocal points."""
    d = squared_distances(items, state["points"])
    return softmax(gamma * d), -array_namespace(items).max(d, axis=-1)


@register(INFO, score_new=score_new, chunk_factor=4)
def rpl(
    support: Array,
    labels: Array,
    query: Array,
    *,
    steps: Whole = 100,
    learning_rate: Positive = 0.01,
    gamma: Positive = 1.0,
    lambda_open: NotNegative = 0.1,
) -> Solution:
    """Solve tasks by learning a reciprocal point for each class.

    Parameters
    ----------
    steps : int, default 100
        Number of steps of Adam.
    learning_rate : float, default 0.01
        Step size of Adam.
    gamma : float, default 1.0
        Sharpness gamma of the class probabilities.
    lambda_open : float, default 0.1
        Weight lambda of the term that bounds the open space.
    """
    xp = array_namespace(support)
    n_support, ways = support.shape[1], class_count(labels)
    onehot = one_hot(labels, ways, like=support)
    means = class_means(support, onehot)
    others = (xp.sum(means, axis=1, keepdims=True) - means) / max(1, ways - 1)
    points = others if ways > 1 else xp.zeros_like(means)
    shots, squares = xp.sum(onehot, axis=1), xp.vecdot(support, support)  # [B, N], [B, S]
    margin = xp.sum(onehot * squared_distances(support, points), axis=1) / shots
    points, margin = points + 0, margin + 0  # Adam moves them in place
    move_points, move_margin = Adam(points, learning_rate), Adam(margin, learning_rate)
    for _ in range(steps):
        d = squared_distances(support, points, squares)
        excess = onehot * (d - margin[:, None, :])  # [B, S, N], 0 for other classes
        slope = (gamma * (softmax(gamma * d) - onehot) + 2 * lambda_open * excess) / n_support  # dL/dd
        pull = xp.matrix_transpose(slope)
        move_points.move(points, 2 * (xp.sum(pull, axis=-1)[..., None] * points - pull @ support))
        move_margin.move(margin, -2 * lambda_open * xp.sum(excess, axis=1) / n_support)
    state = {"points": points}
    return Solution(*score_new(state, query, gamma=gamma), state, n_iter=steps)
