"""Meta-BCE: a one-class classifier for each class, by a transformation that its examples decide. Inductive, open-set.

Gives each class a one-class classifier: how likely is an item to be of this class, whatever the others are? It compares
items and class means after a projection that all classes share and a gate on each feature that the class's own examples
decide. Both were learned on tasks of base classes. An item that all classes reject is unknown. It needs a `base` with
that head. Where features are weak, as in a table of measurements, classes and unknowns gain several points; with a
strong backbone it stays near the nearest mean by cosine, whose rejection ranks unknowns as well as kNN and better than
doubt. The paper learns a network.

Kozerawski, Turk: "One-Class Meta-Learning: Towards Generalizable Few-Shot Open-Set Classification", 2021. Tasks of base
classes teach a representation f' of its own to tell members of one class from everything else, by binary cross-entropy.
With c_j the mean of the n_j examples of class j after the projection f'::

    f'(z) = z + (z V_1) V_2                                             shared by all classes
    u_j   = exp( tanh(c_j W_1) W_2 )                            [D]     a gate on each feature, from the examples of j
    d_ij  = 1 - cos( u_j * f'(q_i), u_j * c_j )
    s_ij  = -(e^a d_ij + t + t' / n_j),    p_ij = sigmoid(s_ij)         how likely item i is of class j
    outlier score o_i = 1 - max_j sigmoid(s_ij - r),    class probabilities softmax_j(s_ij)

The loss is the binary cross-entropy of p_ij on all pairs of a query and a class of the task, plus that of o_i on all
queries; members and others have equal weight. The term of o_i is ours. It sets r: the best of N classes is likelier by
chance than one class, and without r far too few items would have o_i > 0.5.

Simplified: the backbone is fixed, and f' is a projection of its features by a matrix of low rank, not a network of its
own. The gates, the cosine and the term t' / n_j are ours too; a mean of more examples is nearer to its class. With
V_2 = 0 and W_2 = 0, where learning starts, the nearest class mean by cosine decides on classes and on unknowns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, at_least, class_means, one_hot, products, sigmoid, softmax
from handful.methods.registry import Info, Solution, register

INFO = Info(
    name="meta_bce",
    estimator="MetaBCE",
    title="Meta-BCE",
    authors="Kozerawski, Turk",
    year=2021,
    paper="One-Class Meta-Learning: Towards Generalizable Few-Shot Open-Set Classification (2021)",
    score="probability",
    summary=(
        "A one-class classifier for each class, in a representation learned on base classes; unknown is what all of "
        "them reject."
    ),
    new_items="by the classes' one-class classifiers",
    state={"means": "1 N D", "gates": "1 N D", "thresholds": "1 N"},
    base_part="meta_bce",
)


def project(x: Array, base: Mapping[str, Array]) -> Array:
    """The representation f' of features [..., D]."""
    return x + (x @ base["down"]) @ base["up"]


def one_class(support: Array, labels: Array, base: Mapping[str, Array]) -> dict[str, Array]:
    """Means [B, N, D], squared gates [B, N, D] and thresholds [B, N] of the classes."""
    xp = array_namespace(support)
    onehot = one_hot(labels, like=support)
    means = class_means(project(support, base), onehot)
    gates = xp.exp(2 * (xp.tanh(means @ base["inner"]) @ base["outer"]))
    thresholds = base["threshold"][0] + base["threshold"][1] / xp.sum(onehot, axis=1)
    return {"means": means, "gates": gates, "thresholds": thresholds}


def distances(state: Mapping[str, Array], items: Array, base: Mapping[str, Array]) -> Array:
    """One minus the cosine of each item and each class mean, both gated: [B, n, D] to [B, n, N]."""
    xp = array_namespace(items)
    items, means, gates = project(items, base), state["means"], state["gates"]
    gated = gates * means
    squares = at_least(products(items * items, gates), FLOOR) * at_least(xp.vecdot(gated, means), FLOOR)[:, None]
    return 1 - products(items, gated) / xp.sqrt(squares)


def logits(state: Mapping[str, Array], items: Array, base: Mapping[str, Array]) -> Array:
    """The logits s of the one-class classifiers: [B, n, D] to [B, n, N]."""
    scale = array_namespace(items).exp(base["log_scale"])
    return -(scale * distances(state, items, base) + state["thresholds"][:, None])


def rejection(s: Array, base: Mapping[str, Array]) -> Array:
    """How surely the best of the classes rejects an item: logits [B, n, N] to [B, n]."""
    return sigmoid(base["rejection"] - array_namespace(s).max(s, axis=-1))


def score_new(state: dict[str, Array], items: Array, *, base: Any = None) -> tuple[Array, Array]:
    """Score new items by the one-class classifiers."""
    s = logits(state, items, base)
    return softmax(s), rejection(s, base)


@register(INFO, score_new=score_new)
def meta_bce(support: Array, labels: Array, query: Array, *, base: Any = None) -> Solution:
    """Solve tasks by a one-class classifier for each class, in a representation learned on base classes.

    Parameters
    ----------
    base : handful.methods.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    """
    state = one_class(support, labels, base)
    return Solution(*score_new(state, query, base=base), state)
