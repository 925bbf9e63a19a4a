"""PEELER's Gaussian head: the spread of each class is predicted from its examples. Inductive, open-set.

Gives each class a Gaussian: its mean, and a precision for each feature that a small network predicts from the examples.
The network was trained on tasks of base classes that contain unknowns: it should decide on queries of the known classes
and stay undecided on others. This is the head and the loss of PEELER. The paper also trains the backbone, and most of
its gain comes from that. It needs a `base` with that head. Classes come out some points better than by the nearest mean
where base classes are many; unknowns are ranked by doubt, and kNN and SnaTCHer-F do that better.

Liu, Kang, Li, Hua, Vasconcelos: "Few-Shot Open-Set Recognition Using Meta-Learning", 2020. A class is a Gaussian: its
mean and a diagonal precision that a small network, learned on tasks of base classes, predicts from the examples z_i::

    mu_j  = mean_{i in j} z_i
    A_j   = mean_{i in j} exp( g + tanh(z_i W_1) W_2 )                  [D], diagonal
    p_ij  = softmax_j( -(q_i - mu_j)^T A_j (q_i - mu_j) ),    outlier score o_i = -max_j p_ij

The network learns from tasks with unknowns. Its loss is the cross-entropy on queries of the known classes, and minus
the entropy of p on queries of other classes, which should stay undecided. This is the head and the loss of PEELER. The
paper also learns the backbone; here the backbone is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import Array, class_means, one_hot, products, softmax
from handful.methods.registry import Info, Solution, maxprob, register

INFO = Info(
    name="peeler",
    estimator="PEELER",
    title="PEELER (Gaussian head)",
    authors="Liu, Kang, Li, Hua, Vasconcelos",
    year=2020,
    paper="Few-Shot Open-Set Recognition Using Meta-Learning (CVPR 2020)",
    summary=(
        "A Gaussian for each class, its spread predicted by a head that was taught on base classes to "
        "leave unknowns undecided."
    ),
    new_items="by the classes' Gaussians",
    state={"means": "1 N D", "precision": "1 N D"},
    base_part="peeler",
)


def gaussians(support: Array, labels: Array, base: Mapping[str, Array]) -> dict[str, Array]:
    """Means and diagonal precisions of the classes, [B, N, D] each."""
    xp = array_namespace(support)
    onehot = one_hot(labels, like=support)
    precision = xp.exp(base["log_precision"] + xp.tanh(support @ base["inner"]) @ base["outer"])
    return {"means": class_means(support, onehot), "precision": class_means(precision, onehot)}


def logits(state: Mapping[str, Array], items: Array) -> Array:
    """Minus the distance of each item to each class: [B, n, D] to [B, n, N]."""
    xp = array_namespace(items)
    means, precision = state["means"], state["precision"]
    offset = xp.sum(precision * means * means, axis=-1)[:, None, :]
    return 2 * products(items, precision * means) - products(items * items, precision) - offset


def score_new(state: dict[str, Array], items: Array, **_: Any) -> tuple[Array, Array]:
    """Score new items by the classes' Gaussians."""
    p = softmax(logits(state, items))
    return p, maxprob(p)


@register(INFO, score_new=score_new)
def peeler(support: Array, labels: Array, query: Array, *, base: Any = None) -> Solution:
    """Solve tasks by a Gaussian for each class, whose precision a learned head predicts.

    Parameters
    ----------
    base : handful.methods.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    """
    state = gaussians(support, labels, base)
    return Solution(*score_new(state, query), state)
