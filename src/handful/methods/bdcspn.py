"""BD-CSPN: prototypes rectified against intra-class and cross-class bias. Transductive, closed-set.

Corrects two biases of class means taken from a few examples. The pile is shifted so that its mean meets that of the
examples; each pile item then votes for its nearest class, and prototypes become weighted means of examples and voters.
One pass, no gradient: among the cheapest ways to learn from a pile, and a clear gain in accuracy with one example per
class. Every item votes, the unknown too: with many outliers in the pile prototypes are pulled towards them, the shift
goes astray, and the ranking of unknowns gets worse than SimpleShot's.

Liu, Song, Qin: "Prototype Rectification for Few-Shot Learning", 2020. Queries are shifted by mean(S) - mean(Q)
and labelled by the nearest class mean. The prototype of a class is the mean of its support and its pseudo-labelled
queries, weighted by exp(cos to the class mean). Then p_ij = softmax_j cos(q_i, c_j) of the unshifted queries.
Outlier score: minus the largest class probability.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, class_means, cosine_to, one_hot, products, softmax, unit
from handful.core.parameters import Positive
from handful.methods.registry import Info, Solution, maxprob, register

INFO = Info(
    name="bdcspn",
    estimator="BDCSPN",
    title="BD-CSPN",
    authors="Liu, Song, Qin",
    year=2020,
    paper="Prototype Rectification for Few-Shot Learning (ECCV 2020)",
    paradigm="transductive",
    setting="closed-set",
    preparation=("task", "l2"),
    summary="Class means rectified once by pseudo-labelled, shifted queries.",
    new_items="by the rectified prototypes",
    state={"prototypes": "1 N D"},
)


def rectified(support: Array, labels: Array, query: Array) -> Array:
    """The rectified prototypes [B, N, D]; LaplacianShot uses them too."""
    xp = array_namespace(support)
    onehot = one_hot(labels, like=support)
    ways = onehot.shape[-1]
    means = class_means(support, onehot)
    if query.shape[1] == 0:
        return means
    shift = xp.mean(support, axis=1, keepdims=True) - xp.mean(query, axis=1, keepdims=True)  # [B, 1, D]
    directions = unit(means)
    # The shifted queries q + s are never stored: their products and their length are enough.
    with_both = products(query, xp.concat([directions, shift], axis=1))  # [B, Q, N + 1]
    along = with_both[..., :ways] + products(shift, directions)
    squares = xp.vecdot(query, query) + 2 * with_both[..., ways] + xp.vecdot(shift, shift)
    of_query = along / at_least(xp.sqrt(at_least(squares, 0.0))[..., None], FLOOR)
    pseudo = one_hot(xp.argmax(of_query, axis=-1), ways, like=support)
    weight_s, weight_q = xp.exp(cosine_to(support, means)) * onehot, xp.exp(of_query) * pseudo
    of_queries = xp.sum(weight_q, axis=-2)[..., None]  # [B, N, 1]
    pull = xp.matrix_transpose(weight_s) @ support + xp.matrix_transpose(weight_q) @ query + of_queries * shift
    return pull / (xp.sum(weight_s, axis=-2)[..., None] + of_queries)


def score_new(state: dict[str, Array], items: Array, *, temperature: float = 1.0, **_: Any) -> tuple[Array, Array]:
    """Score new items by the rectified prototypes."""
    p = softmax(temperature * cosine_to(items, state["prototypes"]))
    return p, maxprob(p)


@register(INFO, score_new=score_new)
def bdcspn(support: Array, labels: Array, query: Array, *, temperature: Positive = 1.0) -> Solution:
    """Solve tasks by class means that pseudo-labelled queries rectify once.

    Parameters
    ----------
    temperature : float, default 1.0
        The temperature tau: cosines are multiplied by it before the softmax.
    """
    state = {"prototypes": rectified(support, labels, query)}
    return Solution(*score_new(state, query, temperature=temperature), state)
