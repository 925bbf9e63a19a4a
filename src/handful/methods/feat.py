"""FEAT: prototypes that self-attention adapts to each other. Inductive, closed-set.

Adapts the class means to each other before items are compared with them. One head of self-attention, learned on tasks
of base classes, moves each mean depending on the others, so that the features which separate these classes count more.
It needs a `base` with that head. With many base classes and features that were not made for few examples it gains many
points of accuracy; with a strong backbone and few base classes it learns little, and stays near SimpleShot, where it
starts. The paper learns the backbone as well. Unknowns are ranked by doubt; `snatcher_f` does that better with the same
head.

Ye, Hu, Zhan, Sha: "Few-Shot Learning via Embedding Adaptation with Set-to-Set Functions", 2020. One head of
self-attention over the N class means c_j of the prepared support, learned on tasks of base classes, with a residual
and layer normalisation::

    a_jk = softmax_k( sqrt(D) <c_j W_q, c_k W_k> )
    r_j  = c_j + (sum_k a_jk c_k W_v) W_o
    c'_j = gain * (r_j - mean r_j) / |r_j - mean r_j| + shift          layer normalisation, scaled to length 1
    p_ij = softmax_j( -|q_i - c'_j|^2 / T ),    outlier score o_i = -max_j p_ij

Only the products M = W_q W_k^T and V = W_v W_o of a head have an effect: these are learned and stored. Features have
length 1 here and entries of order 1 in the paper. Two changes make up for it: the factor sqrt(D), 1 / sqrt(D) in the
paper, and layer normalisation to length 1, sqrt(D) in the paper. With V = 0, where learning starts, c'_j is the
prototype of SimpleShot. The paper also learns the backbone; here the backbone is fixed. T is learned, and then raised
if that separates unknowns better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, class_prototypes, norms, softmax, squared_distances
from handful.core.parameters import Positive
from handful.methods.registry import Info, Solution, maxprob, register

INFO = Info(
    name="feat",
    estimator="FEAT",
    title="FEAT",
    authors="Ye, Hu, Zhan, Sha",
    year=2020,
    paper="Few-Shot Learning via Embedding Adaptation with Set-to-Set Functions (CVPR 2020)",
    setting="closed-set",
    summary=(
        "Prototypes adapted to each other by self-attention that was learned on base classes; the largest "
        "class probability."
    ),
    new_items="by the adapted prototypes",
    state={"adapted": "1 N D"},
    base_part="feat",
)


def layer_norm(x: Array, base: Mapping[str, Array]) -> Array:
    """Features [..., D] without their mean, scaled to length 1, times the gain, plus the shift."""
    xp = array_namespace(x)
    x = x - xp.mean(x, axis=-1, keepdims=True)
    return x / at_least(norms(x), FLOOR) * base["gain"] + base["shift"]


def adapt(prototypes: Array, base: Mapping[str, Array]) -> Array:
    """Prototypes [B, N, D], adapted to each other."""
    projections = prototypes.shape[-1] ** 0.5 * (prototypes @ base["attention"])
    a = softmax(projections @ array_namespace(projections).matrix_transpose(prototypes))  # [B, N, N]
    return layer_norm(prototypes + a @ (prototypes @ base["output"]), base)


def logits(query: Array, adapted: Array, base: Mapping[str, Array], temperature: float | None = None) -> Array:
    """Minus the squared distances, divided by the temperature: [B, Q, D] and [B, N, D] to [B, Q, N]."""
    divisor = array_namespace(query).exp(base["log_temperature"]) if temperature is None else temperature
    return -squared_distances(query, adapted) / divisor


def score_new(
    state: dict[str, Array], items: Array, *, base: Any = None, temperature: float | None = None
) -> tuple[Array, Array]:
    """Score new items by the adapted prototypes."""
    p = softmax(logits(items, state["adapted"], base, temperature))
    return p, maxprob(p)


@register(INFO, score_new=score_new)
def feat(
    support: Array, labels: Array, query: Array, *, base: Any = None, temperature: Positive | None = None
) -> Solution:
    """Solve tasks by prototypes that learned self-attention adapts to each other.

    Parameters
    ----------
    base : handful.methods.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    temperature : float, optional
        The temperature T, in place of the learned one.
    """
    state = {"adapted": adapt(class_prototypes(support, labels), base)}
    return Solution(*score_new(state, query, base=base, temperature=temperature), state)
