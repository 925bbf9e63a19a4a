"""OSLO: open-set likelihood optimisation. Transductive, open-set.

Repeats three steps: how much of an inlier each item of the pile is, which classes it belongs to, and new prototypes as
weighted means, so that likely outliers hardly move them. Two rounds suffice and no gradient is needed, which makes it
one of the fastest transductive methods; its ranking of unknowns is close to that of OSTIM. The inlierness compares
cosines with zero, the middle of the task: where unknowns are the majority the middle moves towards them, and too few
would be called unknown at 0.5. So only the order of the scores is used. The share that you expect, or your own
`threshold`, decides how many are called unknown.

Boudiaf, Bennequin, Tami, Toubhans, Piantanida, Hudelot, Ben Ayed: "Open-Set Likelihood Maximization for Few-Shot
Learning", 2023. Prototypes c_j start at the class means, assignments z_ij at 1/N; two rounds of ::

    xi_i = sigmoid(sum_j z_ij cos(q_i, c_j) / lambda_xi)            how much of an inlier
    z_ij = softmax_j(xi_i cos(q_i, c_j) / lambda_z)
    c_j  = mean of the support of class j, weight 1, and of the queries, weight xi_i z_ij

Class output: softmax_j cos(q_i, c_j) with the last c; outlier score o_i = 1 - xi_i. A new item takes the same
steps with the prototypes of each round, and does not move them.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import Array, class_means, cosine_to, one_hot, sigmoid, softmax
from handful.core.parameters import Count, Positive
from handful.methods.registry import Info, Solution, register

INFO = Info(
    name="oslo",
    estimator="OSLO",
    title="OSLO",
    authors="Boudiaf, Bennequin, Tami, Toubhans, Piantanida, Hudelot, Ben Ayed",
    year=2023,
    paper="Open-Set Likelihood Maximization for Few-Shot Learning (CVPR 2023)",
    paradigm="transductive",
    preparation=("task", "l2"),
    summary=(
        "Inlierness, soft assignments and prototypes in turn, so that likely outliers hardly move the prototypes."
    ),
    new_items="through the same rounds, past the prototypes of each, moving none",
    state={"rounds": "1 R N D"},
)


def assign(cosine: Array, z: Array | float, lambda_xi: float, lambda_z: float) -> tuple[Array, Array]:
    """The logit of the inlierness xi [B, Q], and the new assignments z [B, Q, N]."""
    logit = array_namespace(cosine).sum(z * cosine, axis=-1) / lambda_xi
    return logit, softmax(sigmoid(logit)[..., None] * cosine / lambda_z)


def score_new(
    state: dict[str, Array], items: Array, *, lambda_xi: float = 0.05, lambda_z: float = 0.1, **_: Any
) -> tuple[Array, Array]:
    """Score new items by the same rounds, with the prototypes that the items of the task gave."""
    rounds = state["rounds"]  # [B, rounds + 1, N, D]
    z: Array | float = 1 / rounds.shape[2]
    for k in range(rounds.shape[1] - 1):
        logit, z = assign(cosine_to(items, rounds[:, k]), z, lambda_xi, lambda_z)
    return softmax(cosine_to(items, rounds[:, -1])), sigmoid(-logit)


@register(INFO, score_new=score_new)
def oslo(
    support: Array,
    labels: Array,
    query: Array,
    *,
    rounds: Count = 2,
    lambda_xi: Positive = 0.05,
    lambda_z: Positive = 0.1,
) -> Solution:
    """Solve tasks by updating inlierness, assignments and prototypes in turn.

    Parameters
    ----------
    rounds : int, default 2
        Number of rounds.
    lambda_xi : float, default 0.05
        Softness lambda_xi of the inlierness.
    lambda_z : float, default 0.1
        Softness lambda_z of the assignments.
    """
    xp = array_namespace(support)
    onehot = one_hot(labels, like=support)
    ways = onehot.shape[-1]
    of_support, shots = xp.matrix_transpose(onehot) @ support, xp.sum(onehot, axis=-2)
    c = class_means(support, onehot)
    prototypes, z = [c], 1 / ways
    for _ in range(rounds):
        logit, z = assign(cosine_to(query, c), z, lambda_xi, lambda_z)
        weight = sigmoid(logit)[..., None] * z  # [B, Q, N]
        c = (of_support + xp.matrix_transpose(weight) @ query) / (shots + xp.sum(weight, axis=-2))[..., None]
        prototypes.append(c)
    scores = sigmoid(-logit)  # equal to 1 - xi, which would round the scores of the surest inliers to one value
    return Solution(softmax(cosine_to(query, c)), scores, {"rounds": xp.stack(prototypes, axis=1)}, n_iter=rounds)
