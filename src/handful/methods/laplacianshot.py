"""LaplacianShot: nearby queries vote for the same class. Transductive, closed-set.

Starts from BD-CSPN's prototypes and lets the nearest `neighbours` of each item in the pile vote on its class, so that
nearby items end in the same class. Where classes form clusters in the pile this gives some of the best accuracy from
one example per class, at little cost. Neighbours vote with the weight `strength`, known or not: a tight cluster of
outliers agrees with itself and looks like a class. So its outlier score, doubt, is among the least useful here, and
gets worse with more unknowns. Use only its classes, as in `laplacianshot+knn`.

Ziko, Dolz, Granger, Ben Ayed: "Laplacian Regularized Few-Shot Learning", 2020. With prototypes rectified as in BD-
CSPN, a_ij the squared distance of query i to prototype j, and W the directed graph of each query's k nearest
others::

    Y = softmax(-a);   then   Y = softmax(-a + lambda W Y)

until the energy sum Y log Y + a Y - lambda (W Y) Y changes by at most 1e-6 of itself, from the third round on.
Outlier score: minus the largest class probability. A new item takes the votes of its k nearest items of the pile.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import Array, at_least, products, softmax, squared_distances
from handful.core.parameters import Count, NotNegative
from handful.methods.bdcspn import rectified
from handful.methods.registry import BY_SHOTS, Info, Solution, maxprob, register

INFO = Info(
    name="laplacianshot",
    estimator="LaplacianShot",
    title="LaplacianShot",
    authors="Ziko, Dolz, Granger, Ben Ayed",
    year=2020,
    paper="Laplacian Regularized Few-Shot Learning (ICML 2020)",
    paradigm="transductive",
    setting="closed-set",
    preparation=("task", "l2"),
    summary="Distances to rectified prototypes, smoothed over each query's nearest neighbours in the pile.",
    new_items="with the votes of their nearest items of the pile",
    by_shots={"strength": {"1": 0.7, "5": 0.1}},
    state={"prototypes": "1 N D", "pile": "1 Q D", "assignments": "1 Q N"},
)

ENERGY_TOLERANCE = 1e-6  # relative change


def _relative_distances(items: Array, pile: Array) -> Array:
    """Values that order the pile by distance from each item, [B, M, Q]: |p|^2 - 2 i.p, without the constant |i|^2."""
    distances = products(items, pile)
    distances *= -2
    distances += array_namespace(pile).vecdot(pile, pile)[:, None, :]
    return distances


def neighbour_graph(distances: Array, k: int) -> Array:
    """W [B, M, Q], written over `distances`: 1 at the k smallest of each row, by k passes, quicker than a sort."""
    xp = array_namespace(distances)
    task, item = xp.arange(distances.shape[0])[:, None], xp.arange(distances.shape[1])[None, :]
    nearest = []
    for _ in range(min(k, distances.shape[2])):
        nearest.append((task, item, xp.argmin(distances, axis=-1)))
        distances[nearest[-1]] = xp.inf
    distances[...] = 0
    for place in nearest:
        distances[place] = 1
    return distances


def sum_votes(w: Array, y: Array) -> Array:
    """W Y: the sum of the neighbours' rows, [B, M, Q] and [B, Q, N] to [B, M, N]."""
    return products(w, array_namespace(y).matrix_transpose(y))


def score_new(
    state: dict[str, Array], items: Array, *, neighbours: int = 2, strength: float = BY_SHOTS, **_: Any
) -> tuple[Array, Array]:
    """Score new items by one round, with the final assignments of the pile as votes."""
    a = squared_distances(items, state["prototypes"])
    y = softmax(-a)
    if state["pile"].shape[1]:
        w = neighbour_graph(_relative_distances(items, state["pile"]), neighbours)
        y = softmax(-a + strength * sum_votes(w, state["assignments"]))
    return y, maxprob(y)


@register(INFO, score_new=score_new, chunk_factor=1 / 4)
def laplacianshot(
    support: Array,
    labels: Array,
    query: Array,
    *,
    neighbours: Count = 2,
    strength: NotNegative = BY_SHOTS,
    rounds: Count = 20,
) -> Solution:
    """Solve tasks by distances to rectified prototypes and the votes of neighbours.

    Parameters
    ----------
    neighbours : int, default 2
        Number k of neighbours in the pile that vote for each item.
    strength : float, default 0.7 (1 shot) or 0.1 (5 shots)
        Weight lambda of the neighbours' votes.
    rounds : int, default 20
        Number of rounds, at most.
    """
    xp = array_namespace(support)
    prototypes = rectified(support, labels, query)
    a = squared_distances(query, prototypes)  # [B, Q, N]
    y = softmax(-a)
    if query.shape[1] > 1:
        distances, item = _relative_distances(query, query), xp.arange(query.shape[1])
        distances[:, item, item] = xp.inf  # no item is its own neighbour
        w = neighbour_graph(distances, min(neighbours, query.shape[1] - 1))
        votes = strength * sum_votes(w, y)
        energy, is_active = None, xp.ones_like(a[:, 0, 0]) > 0
        for i in range(rounds):
            y = xp.where(is_active[:, None, None], softmax(-a + votes), y)  # a settled task stays
            votes = strength * sum_votes(w, y)
            next_energy = xp.sum(y * (xp.log(at_least(y, 1e-20)) + a - votes), axis=(1, 2))
            if i > 1:
                is_active = is_active & ~(xp.abs(next_energy - energy) <= ENERGY_TOLERANCE * xp.abs(energy))
                if not bool(xp.any(is_active)):
                    break
            energy = next_energy
    return Solution(y, maxprob(y), {"prototypes": prototypes, "pile": query, "assignments": y}, n_iter=rounds)
