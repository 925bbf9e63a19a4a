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

from handful.arrays import Array, as_like, softmax, squared_distances
from handful.methods.bdcspn import rectified
from handful.methods.registry import BY_SHOTS, Solution, register
from handful.methods.scores import maxprob
from handful.parameters import Number

TOLERANCE = 1e-6


def _votes(y: Array, neighbours: Array) -> Array:
    """W Y: the sum of the neighbours' rows, [B, M, k] into y [B, Q, N]."""
    xp = array_namespace(y)
    return xp.sum(y[xp.arange(y.shape[0])[:, None, None], neighbours], axis=2)


def score_new(
    state: dict[str, Array], items: Array, *, neighbours: int = 2, strength: float = BY_SHOTS, **_
) -> tuple[Array, Array]:
    """One round for each new item, with the pile's final assignments as votes."""
    xp = array_namespace(items)
    a = squared_distances(items, state["prototypes"])
    y = softmax(-a)
    if state["pile"].shape[1]:
        near = xp.argsort(squared_distances(items, state["pile"]), axis=-1)[..., :neighbours]
        y = softmax(-a + strength * _votes(state["assignments"], near))
    return y, maxprob(y)


@register(
    "laplacianshot",
    score_new=score_new,
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
        apart = squared_distances(query, query)
        apart = apart + as_like(_diagonal(query.shape[1]), query)
        near = xp.argsort(apart, axis=-1, stable=True)[..., : min(neighbours, query.shape[1] - 1)]  # [B, Q, k]
        energy = active = None
        for i in range(rounds):
            new = softmax(-a + strength * _votes(y, near))
            y = new if active is None else xp.where(active[:, None, None], new, y)  # a task that settled stays
            terms = y * (xp.log(xp.clip(y, 1e-20, None)) + a - strength * _votes(y, near))
            now = xp.sum(terms, axis=(1, 2))
            if i > 1:
                settled = xp.abs(now - energy) <= TOLERANCE * xp.abs(energy)
                active = ~settled if active is None else active & ~settled
                if not bool(xp.any(active)):
                    break
            energy = now
    return Solution(y, maxprob(y), {"prototypes": prototypes, "pile": query, "assignments": y}, n_iter=rounds)


def _diagonal(n: int):
    """Nobody is their own neighbour: a distance beyond all others on the diagonal."""
    import numpy as np

    return np.diag(np.full(n, 1e30))
