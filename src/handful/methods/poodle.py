"""POODLE: prototypes pulled to the support and pushed away from items of other classes. Inductive, closed-set.

Moves the class means by gradient descent: towards the examples, and away from items that surely belong to none of the
classes, a sample of the base classes' features. Each item pulls or pushes most the prototype that it is nearest to, so
features that base items share count less. It needs a `base` with such items, and no learned head. On features of a
strong backbone and with five examples, accuracy is a little above the nearest mean and fine-tuning; with one example,
or weak features, nothing is gained. It was made for classes, not for unknowns: its doubt ranks them no better than
SimpleShot's.

Le, Nguyen, Nguyen, Tran, Nguyen, Hua: "POODLE: Improving Few-shot Learning via Penalizing Out-of-Distribution Samples",
2021. Prototypes c_j start at the class means, the scale s at 10; negatives n are features of base classes::

    l_ij = -(s / 2) |z_i - c_j|^2,    p_i = softmax_j(l_ij)
    pull = -mean_i sum_j [p_ij] l_ij  over the support,    push the same over the negatives
    loss = -mean_S log p_iy + alpha pull - beta push            minimised by Adam over c and s

[p] is a constant weight: no gradient passes through it. So each item pulls or pushes mostly its nearest prototype.
This is the inductive variant of the paper; the other variant also pulls to the queries. Outlier score: minus the
largest class probability.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import Array, class_means, one_hot, softmax, squared_distances
from handful.core.parameters import Count, NotNegative, Positive, Whole
from handful.engines.descent import Adam
from handful.methods.registry import Info, Solution, maxprob, register

INFO = Info(
    name="poodle",
    estimator="POODLE",
    title="POODLE",
    authors="Le, Nguyen, Nguyen, Tran, Nguyen, Hua",
    year=2021,
    paper="POODLE: Improving Few-shot Learning via Penalizing Out-of-Distribution Samples (NeurIPS 2021)",
    setting="closed-set",
    summary="Prototypes moved by gradient descent towards the support and away from items of base classes.",
    new_items="by the learned prototypes and scale",
    state={"prototypes": "1 N D", "scale": "1 1 1"},
    base_part="negatives",
)


def score_new(state: dict[str, Array], items: Array, **_: Any) -> tuple[Array, Array]:
    """Score new items by the learned prototypes and scale."""
    p = softmax(-0.5 * state["scale"] * squared_distances(items, state["prototypes"]))
    return p, maxprob(p)


def slopes(
    support: Array, onehot: Array, negatives: Array, prototypes: Array, scale: Array, alpha: float, beta: float
) -> tuple[Array, Array]:
    """The gradients of the loss of each task, for its prototypes [B, N, D] and its scale [B, 1, 1].

    Negatives are [B, M, D], or [1, M, D] where all tasks share them: then one product is enough for all tasks.
    """
    xp = array_namespace(support)
    shape = prototypes.shape
    d = squared_distances(support, prototypes)
    p = softmax(-0.5 * scale * d)
    slope = ((1 - alpha) * p - onehot) / support.shape[1]  # dL/dl of the support, [B, S, N]

    rows = xp.reshape(prototypes, (negatives.shape[0], -1, shape[2]))  # [1 or B, ..., D]
    d_out = xp.reshape(xp.matrix_transpose(squared_distances(negatives, rows)), (shape[0], shape[1], -1))  # [B, N, M]
    e = xp.exp(-0.5 * scale * (d_out - xp.min(d_out, axis=1, keepdims=True)))
    slope_out = beta / negatives.shape[1] * e / xp.sum(e, axis=1, keepdims=True)  # dL/dl of the negatives

    pull = xp.reshape(xp.reshape(slope_out, (negatives.shape[0], -1, negatives.shape[1])) @ negatives, shape)
    pull = pull + xp.matrix_transpose(slope) @ support
    weight = xp.sum(slope, axis=1) + xp.sum(slope_out, axis=2)  # [B, N]
    total = xp.sum(slope * d, axis=(1, 2)) + xp.sum(slope_out * d_out, axis=(1, 2))
    return scale * (pull - weight[..., None] * prototypes), -0.5 * total[:, None, None]


@register(INFO, score_new=score_new, chunk_factor=4)
def poodle(
    support: Array,
    labels: Array,
    query: Array,
    *,
    base: Any = None,
    steps: Whole = 100,
    learning_rate: Positive = 1e-3,
    alpha: NotNegative = 1.0,
    beta: NotNegative = 0.5,
    scale: Positive = 10.0,
    negatives: Count = 400,
) -> Solution:
    """Solve tasks by prototypes that move towards the examples and away from items of base classes.

    Parameters
    ----------
    base : handful.methods.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    steps : int, default 100
        Number of steps of Adam.
    learning_rate : float, default 0.001
        Step size of Adam.
    alpha : float, default 1.0
        Weight alpha of the pull towards the examples.
    beta : float, default 0.5
        Weight beta of the push away from the negatives.
    scale : float, default 10.0
        Start value of the scale s.
    negatives : int, default 400
        How many items of the base are used, at most.
    """
    xp = array_namespace(support)
    onehot = one_hot(labels, like=support)
    others = base["negatives"][:, :negatives]
    prototypes = class_means(support, onehot)
    factor = xp.zeros_like(prototypes[:, :1, :1]) + scale
    move_prototypes, move_factor = Adam(prototypes, learning_rate), Adam(factor, learning_rate)
    for _ in range(steps):
        of_prototypes, of_factor = slopes(support, onehot, others, prototypes, factor, alpha, beta)
        move_prototypes.move(prototypes, of_prototypes)
        move_factor.move(factor, of_factor)
    state = {"prototypes": prototypes, "scale": factor}
    return Solution(*score_new(state, query), state, n_iter=steps)
