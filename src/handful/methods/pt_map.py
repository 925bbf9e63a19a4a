"""PT-MAP: power transform, then optimal transport to prototypes. Transductive, closed-set.

Takes roots of the features, which makes their distribution more even, then repeats: transport the pile to the
prototypes at the least cost so that all classes get equally many items, and move the prototypes part of the way to what
they got. If the pile truly holds the classes in equal numbers, this is among the best classifiers from one example per
class. It always assumes equal numbers, also where classes are unequal or the pile has outliers. The power step sets
negative features to zero, so give it features as they leave a ReLU, not centred ones, or another `preparation`.

Hu, Gripon, Pateux: "Leveraging the Feature Distribution in Transfer-Based Few-Shot Learning", 2021. Ten rounds of ::

    M_ij = squared distance of query i to prototype j
    P    = exp(-10 M), scaled by Sinkhorn to row sums 1 and column sums floor(Q / N)
    c   += 0.2 (mean of the one-hot support and of the queries weighted by P  -  c)

The class output is P, computed once more at the end, with rows scaled to 1. Outlier score: minus the largest class
probability. Sinkhorn runs in log space, for all tasks at once; a task whose row sums no longer change is not updated. A
new item gets its row from the final column scaling of the pile. A pile with fewer items than classes cannot fill them
equally: then only rows are scaled.

The published code also rotates the features by a QR decomposition. That changes no distance and is left out here.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import Array, class_means, logsumexp, one_hot, softmax, squared_distances
from handful.core.parameters import Count, Part, Positive
from handful.methods.registry import Info, Solution, maxprob, register

INFO = Info(
    name="pt_map",
    estimator="PTMAP",
    title="PT-MAP",
    authors="Hu, Gripon, Pateux",
    year=2021,
    paper="Leveraging the Feature Distribution in Transfer-Based Few-Shot Learning (ICANN 2021)",
    paradigm="transductive",
    setting="closed-set",
    preparation=("power(0.5)", "l2", "task"),
    summary=(
        "Optimal transport of the queries to prototypes, with classes of equal size, repeated as prototypes move."
    ),
    new_items="by the column scaling that the pile's transport ended with",
    state={"prototypes": "1 N D", "columns": "1 1 N"},
)

ROW_SUM_TOLERANCE, MAX_SINKHORN_ROUNDS = 1e-6, 1000


def transport(distances: Array, sharpness: float, column_sum: int) -> tuple[Array, Array]:
    """The plan [B, Q, N] with row sums 1 and column sums `column_sum`, and its log column scaling [B, 1, N].

    If Q is not a multiple of N, both sums cannot hold: columns are scaled last. With a column sum of 0, columns are not
    scaled.
    """
    xp = array_namespace(distances)
    log_k = -sharpness * distances
    if not column_sum:
        return softmax(log_k), xp.sum(log_k[:, :0, :], axis=1, keepdims=True)  # zeros, also if there are no rows
    log_k = log_k - logsumexp(logsumexp(log_k, -1), -2)  # sums to 1, so the first row sums are comparable
    f, g = xp.zeros_like(log_k[..., :1]), xp.zeros_like(log_k[:, :1, :])
    rows = xp.zeros_like(f)
    active = None
    for _ in range(MAX_SINKHORN_ROUNDS):
        log_rows = f + logsumexp(log_k + g, -1)
        next_rows = xp.exp(log_rows)
        changes = xp.max(xp.abs(next_rows - rows), axis=(1, 2)) > ROW_SUM_TOLERANCE
        active = changes if active is None else active & changes
        if not bool(xp.any(active)):
            break
        rows = next_rows
        step = active[:, None, None]
        f = xp.where(step, f - log_rows, f)
        columns = logsumexp(log_k + f, -2)
        g = xp.where(step, xp.log(column_sum + xp.zeros_like(g)) - columns, g)
    return xp.exp(log_k + f + g), g


def score_new(state: dict[str, Array], items: Array, *, sharpness: float = 10.0, **_: Any) -> tuple[Array, Array]:
    """Score each new item by its row of the plan, with the column scaling of the pile."""
    p = softmax(-sharpness * squared_distances(items, state["prototypes"]) + state["columns"])
    return p, maxprob(p)


@register(INFO, score_new=score_new, chunk_factor=4)
def pt_map(
    support: Array, labels: Array, query: Array, *, rounds: Count = 10, rate: Part = 0.2, sharpness: Positive = 10.0
) -> Solution:
    """Solve tasks by optimal transport of the queries to prototypes, with classes of equal size.

    Parameters
    ----------
    rounds : int, default 10
        Number of rounds.
    rate : float, default 0.2
        Factor alpha: how far prototypes move towards their new means in a round.
    sharpness : float, default 10.0
        Factor kappa of the squared distances.
    """
    xp = array_namespace(support)
    onehot = one_hot(labels, like=support)
    ways = onehot.shape[-1]
    of_support, shots = xp.matrix_transpose(onehot) @ support, xp.sum(onehot, axis=-2)
    c, squares = class_means(support, onehot), xp.vecdot(query, query)
    column_sum = query.shape[1] // ways
    for _ in range(rounds):
        p, _columns = transport(squared_distances(query, c, squares), sharpness, column_sum)
        mean = (of_support + xp.matrix_transpose(p) @ query) / (shots + xp.sum(p, axis=-2))[..., None]
        c = c + rate * (mean - c)
    columns = transport(squared_distances(query, c, squares), sharpness, column_sum)[1]
    state = {"prototypes": c, "columns": columns}
    return Solution(*score_new(state, query, sharpness=sharpness), state, n_iter=rounds)
