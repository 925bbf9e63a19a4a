"""Masked soft k-means with a distractor cluster. Transductive, open-set.

Soft k-means on the pile, started at the class means, with one cluster more than there are classes: the distractor,
which lies in the middle of all features and takes items that fit no class. A mask keeps items that are far from a
class, by the threshold `beta`, from pulling its prototype. It is simple, needs no gradient and ranks unknowns better
than the closed-set methods, unless most of the pile is unknown. Features of unit length are all equally far from the
middle, so the distractor amounts to one distance, set by `radius`, beyond which an item is unknown. The paper learned
that and the mask on base classes; here they are fixed and cannot suit every backbone.

Ren, Triantafillou, Ravi, Snell, Swersky, Tenenbaum, Larochelle, Zemel: "Meta-Learning for Semi-Supervised Few-Shot
Classification", 2018. Prototypes c_j start at the class means. The distractor cluster is at the origin, which is the
centre of all features after task centring, and has its own length scale r::

    z_i     = softmax over N + 1 of [-tau |q_i - c_j|^2,  -tau |q_i|^2 / r^2 - log r]
    d~_ij   = |q_i - c_j|^2 / mean_i |q_i - c_j|^2,      m_ij = sigmoid(gamma (beta - d~_ij))       the mask
    c_j     = mean of the support of class j, weight 1, and of the queries, weight z_ij m_ij

The paper learns r, and a network that predicts beta and gamma, on base classes. Here they are plain parameters, so that
the method needs only features. Class output: z over the N classes. Outlier score: z_i,N+1.
"""

from __future__ import annotations

from math import log
from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, class_means, one_hot, sigmoid, softmax, squared_distances
from handful.core.parameters import NotNegative, Positive, Whole
from handful.methods.registry import Info, Solution, register

INFO = Info(
    name="soft_kmeans",
    estimator="SoftKMeans",
    title="Masked soft k-means",
    authors="Ren, Triantafillou, Ravi, Snell, Swersky, Tenenbaum, Larochelle, Zemel",
    year=2018,
    paper="Meta-Learning for Semi-Supervised Few-Shot Classification (ICLR 2018)",
    paradigm="transductive",
    preparation=("task", "l2"),
    summary=(
        "Soft k-means from the class means with a distractor cluster in the middle, queries far from a class masked."
    ),
    new_items="by the final prototypes and the distractor cluster",
    state={"prototypes": "1 N D"},
)


def _assign(items: Array, squares: Array, c: Array, temperature: float, radius: float) -> tuple[Array, Array]:
    """Squared distances [B, M, N], and assignments z [B, M, N + 1]."""
    xp = array_namespace(items)
    distances = squared_distances(items, c, squares)
    origin = -temperature * squares[..., None] / radius**2 - log(radius)
    return distances, softmax(xp.concat([-temperature * distances, origin], axis=-1))


def score_new(
    state: dict[str, Array], items: Array, *, temperature: float = 5.0, radius: float = 1.0, **_: Any
) -> tuple[Array, Array]:
    """Score new items by the final prototypes."""
    squares = array_namespace(items).vecdot(items, items)
    z = _assign(items, squares, state["prototypes"], temperature, radius)[1]
    return z[..., :-1], z[..., -1]


@register(INFO, score_new=score_new)
def soft_kmeans(
    support: Array,
    labels: Array,
    query: Array,
    *,
    rounds: Whole = 3,
    temperature: Positive = 5.0,
    radius: Positive = 1.0,
    beta: Positive = 0.7,
    gamma: NotNegative = 10.0,
) -> Solution:
    """Solve tasks by soft k-means with a distractor cluster and a mask.

    Parameters
    ----------
    rounds : int, default 3
        Number of rounds.
    temperature : float, default 5.0
        The temperature tau: squared distances are multiplied by it.
    radius : float, default 1.0
        Length scale r of the distractor cluster.
    beta : float, default 0.7
        Relative distance beta at which the mask is one half.
    gamma : float, default 10.0
        Slope gamma of the mask.
    """
    xp = array_namespace(support)
    onehot = one_hot(labels, like=support)
    of_support, shots = xp.matrix_transpose(onehot) @ support, xp.sum(onehot, axis=-2)
    c, squares = class_means(support, onehot), xp.vecdot(query, query)
    for _ in range(rounds if query.shape[1] else 0):
        distances, z = _assign(query, squares, c, temperature, radius)
        relative = distances / at_least(xp.mean(distances, axis=1, keepdims=True), FLOOR)
        weight = z[..., :-1] * sigmoid(gamma * (beta - relative))  # [B, Q, N]
        c = (of_support + xp.matrix_transpose(weight) @ query) / (shots + xp.sum(weight, axis=-2))[..., None]
    state = {"prototypes": c}
    return Solution(*score_new(state, query, temperature=temperature, radius=radius), state, n_iter=rounds)
