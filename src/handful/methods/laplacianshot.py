"""LaplacianShot: nearby queries vote for the same class. Transductive, closed-set.

Ziko, Dolz, Granger, Ben Ayed: "Laplacian Regularized Few-Shot Learning", 2020. With prototypes rectified as in BD-
CSPN, a_ij the squared distance of query i to prototype j, and W the directed graph of each query's k nearest
others::

    Y = softmax(-a);   then   Y = softmax(-a + lambda W Y)

until the energy sum Y log Y + a Y - lambda (W Y) Y changes by at most 1e-6 of itself, from the third round on.
Outlier score: minus the largest class probability. A new item takes the votes of its k nearest items of the pile.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from handful.core.arrays import Array, at_least, products, softmax, squared_distances
from handful.core.parameters import Number
from handful.methods.bdcspn import rectified
from handful.methods.contract import BY_SHOTS, Info, Solution
from handful.methods.registry import register
from handful.methods.scores import maxprob

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
    score="rank",
    summary="Distances to rectified prototypes, smoothed over each query's nearest neighbours in the pile.",
    new_items="with the votes of their nearest items of the pile",
    by_shots={"strength": {"1": 0.7, "5": 0.1}},
    state={"prototypes": "1 N D", "pile": "1 Q D", "assignments": "1 Q N"},
)

TOLERANCE = 1e-6


def _nearness(items: Array, pile: Array) -> Array:
    """What orders the pile by distance from each item, [B, M, Q]: |p|^2 - 2 i.p, without the item's own |i|^2."""
    near = products(items, pile)
    near *= -2
    near += array_namespace(pile).vecdot(pile, pile)[:, None, :]
    return near


def _graph(near: Array, k: int) -> Array:
    """W [B, M, Q]: 1 at the k smallest of each row of `near`, the first among equals; it takes the place of `near`.

    That is k passes over the row. A sort spends most of its time on the order of all the others.
    """
    xp = array_namespace(near)
    task, item = xp.arange(near.shape[0])[:, None], xp.arange(near.shape[1])[None, :]
    nearest = []
    for _ in range(min(k, near.shape[2])):
        nearest.append((task, item, xp.argmin(near, axis=-1)))
        near[nearest[-1]] = xp.inf
    near[...] = 0
    for place in nearest:
        near[place] = 1
    return near


def _votes(w: Array, y: Array) -> Array:
    """W Y: the sum of the neighbours' rows, [B, M, Q] and [B, Q, N] to [B, M, N]."""
    return products(w, array_namespace(y).matrix_transpose(y))


def score_new(
    state: dict[str, Array], items: Array, *, neighbours: int = 2, strength: float = BY_SHOTS, **_
) -> tuple[Array, Array]:
    """One round for each new item, with the pile's final assignments as votes."""
    a = squared_distances(items, state["prototypes"])
    y = softmax(-a)
    if state["pile"].shape[1]:
        w = _graph(_nearness(items, state["pile"]), neighbours)
        y = softmax(-a + strength * _votes(w, state["assignments"]))
    return y, maxprob(y)


@register(
    INFO,
    score_new=score_new,
    chunk_factor=1 / 4,
    rules={
        "neighbours": Number(1, closed=True, whole=True),
        "strength": Number(0, closed=True, optional=True),
        "rounds": Number(1, closed=True, whole=True),
    },
)
def laplacianshot(
    support: Array,
    labels: Array,
    query: Array,
    *,
    neighbours: int = 2,
    strength: float = BY_SHOTS,
    rounds: int = 20,
) -> Solution:
    """strength: the paper's lambda; rounds: at most."""
    xp = array_namespace(support)
    prototypes = rectified(support, labels, query)
    a = squared_distances(query, prototypes)  # [B, Q, N]
    y = softmax(-a)
    if query.shape[1] > 1:
        apart, item = _nearness(query, query), xp.arange(query.shape[1])
        apart[:, item, item] = xp.inf  # nobody is their own neighbour
        w = _graph(apart, min(neighbours, query.shape[1] - 1))
        votes = strength * _votes(w, y)
        energy = active = None
        for i in range(rounds):
            new = softmax(-a + votes)
            y = new if active is None else xp.where(active[:, None, None], new, y)  # a task that settled stays
            votes = strength * _votes(w, y)
            now = xp.sum(y * (xp.log(at_least(y, 1e-20)) + a - votes), axis=(1, 2))
            if i > 1:
                settled = xp.abs(now - energy) <= TOLERANCE * xp.abs(energy)
                active = ~settled if active is None else active & ~settled
                if not bool(xp.any(active)):
                    break
            energy = now
    return Solution(y, maxprob(y), {"prototypes": prototypes, "pile": query, "assignments": y}, n_iter=rounds)
