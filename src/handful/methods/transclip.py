"""TransCLIP: a Gaussian mixture of examples and pile, smoothed over each query's neighbours. Transductive, closed-set.

Fits a mixture of Gaussians, one for each class, to examples and pile together. The examples keep their labels and have
the weight `gamma`; each item's nearest `neighbours` in the pile vote on its class. The paper starts from CLIP's texts;
without them one variance for all features is safer than its diagonal, which is a `shrinkage` of 0. Accuracy is close to
LaplacianShot's. Its outlier score, a low density of the mixture, ranks unknowns better than GDA where at least half of
the pile is unknown, and worse where few items are. Most of this difference comes from centring by the task's own mean:
GDA with that `preparation` comes close.

Zanella, Gerin, Ben Ayed: "Boosting Vision-Language Models with Transduction", 2024, without the text term. f_i are
items of unit length, y_i the one-hot labels of the support, and W the graph of each query's k nearest others in the
pile, with the weights max(0, cos). mu_k starts at the class mean, of unit length. All classes share the variances
Sigma, which start as one variance for all features. Each round updates the assignments z of the queries five times,
then mu and Sigma. After the last round z is updated once more in the same way::

    l_ik  = -tau / (2 D) (f_i - mu_k)^T Sigma^-1 (f_i - mu_k)
    z_i   = softmax_k(l_ik + lambda / (2 k) sum_j (w_ij + w_ji) z_jk),                    without votes at the start
    mu_k  = (gamma / |S| sum_S y_ik f_i + 1 / |Q| sum_Q z_ik f_i) / (the same sums of the weights), of unit length
    v     = (gamma / |S| sum_S,k y_ik (f_i - mu_k)^2 + 1 / |Q| sum_Q,k z_ik (f_i - mu_k)^2) / (gamma + 1)
    Sigma = diag((1 - s) v + s mean(v))

Class output: z. Outlier score: o_i = -log sum_k exp(l_ik), minus the log of the mixture's density at the temperature
tau, up to constants. A new item takes the votes of its k nearest items of the pile. What differs from the paper:

- There is no text term, and so no start from texts. The outlier score is not from the paper either.
- The paper's Sigma is a diagonal, s = 0. Without the texts it fails for one example of each class: divided by the small
  variances, prototypes get unequal lengths, and the shortest one attracts most items. The default s = 1 is one
  variance for all features.
- Log densities are multiplied by tau / D. The published code divides them by 50: its tau is 10 for 512 features.
- mu has unit length, as in the published code. The equations of the paper leave that out.
- The published code has votes of the support too, and chooses gamma on a validation set.

The defaults, the preparation and the outlier score were chosen on the validation classes of tiny-ImageNet. With as many
unknowns as knowns, o_i ranks unknowns better there than the smallest distance, and much better than -max_k z_ik.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from handful.core.arrays import Array, at_least, logsumexp, one_hot, products, softmax, squared_distances, unit
from handful.core.parameters import Count, NotNegative, Part, Positive
from handful.engines.gaussian import MIN_PART, MIN_SHRINKAGE
from handful.engines.share import MAX_QUERIES
from handful.methods.gda import around_means
from handful.methods.laplacianshot import neighbour_graph, sum_votes
from handful.methods.registry import Info, Solution, register

INFO = Info(
    name="transclip",
    estimator="TransCLIP",
    title="TransCLIP (without texts)",
    authors="Zanella, Gerin, Ben Ayed",
    year=2024,
    paper="Boosting Vision-Language Models with Transduction (NeurIPS 2024)",
    paradigm="transductive",
    setting="closed-set",
    preparation=("task", "l2"),
    summary="A Gaussian mixture of examples and pile, with votes of neighbours. Outlier score: a low density.",
    new_items="by the final Gaussians, with the votes of their nearest items of the pile",
    state={"prototypes": "1 N D", "variances": "1 1 D", "pile": "1 Q D", "assignments": "1 Q N"},
)

ASSIGNMENT_STEPS = 5  # of each round


def _logits(items: Array, mu: Array, variances: Array, temperature: float) -> Array:
    """The log densities l of items [B, M, D] in the classes, without their constant, [B, M, N]."""
    root = array_namespace(items).sqrt(variances)
    return squared_distances(items / root, mu / root) * (-temperature / (2 * items.shape[-1]))


def _weights(items: Array, pile: Array, k: int, is_pile: bool) -> Array:
    """The cosines, at least 0, of each item to its k nearest of the pile, and 0 to the others, [B, M, Q]."""
    xp = array_namespace(items)
    cosines = products(items, pile)
    distances = -cosines
    if is_pile:
        item = xp.arange(pile.shape[1])
        distances[:, item, item] = xp.inf  # no item is its own neighbour
    return neighbour_graph(distances, k) * at_least(cosines, 0.0)


def _outlier_scores(logits: Array) -> Array:
    return -logsumexp(logits, axis=-1)[..., 0]


def score_new(
    state: dict[str, Array],
    items: Array,
    *,
    temperature: float = 5.0,
    neighbours: int = 3,
    strength: float = 3.0,
    **_: Any,
) -> tuple[Array, Array]:
    """Score new items by the final Gaussians, with the final assignments of the pile as votes."""
    items, pile = unit(items), state["pile"]
    logits = _logits(items, state["prototypes"], state["variances"], temperature)
    votes: Any = 0.0
    if k := min(neighbours, pile.shape[1]):
        votes = strength / k * sum_votes(_weights(items, pile, k, is_pile=False), state["assignments"])
    return softmax(logits + votes), _outlier_scores(logits)


@register(INFO, score_new=score_new, chunk_factor=1 / 4, max_queries=MAX_QUERIES)
def transclip(
    support: Array,
    labels: Array,
    query: Array,
    *,
    rounds: Count = 10,
    gamma: Positive = 2.0,
    shrinkage: Part = 1.0,
    temperature: Positive = 5.0,
    neighbours: Count = 3,
    strength: NotNegative = 3.0,
) -> Solution:
    """Solve tasks by a Gaussian mixture of examples and pile, with the votes of neighbours.

    Parameters
    ----------
    rounds : int, default 10
        Number of rounds.
    gamma : float, default 2.0
        Weight gamma of all examples together, where that of the whole pile is 1.
    shrinkage : float, default 1.0
        How far the variances of the features are drawn towards their mean, s, from 0 to 1. Values below 0.001 count
        as 0.001.
    temperature : float, default 5.0
        The temperature tau: log densities, as a mean over the features, are multiplied by it.
    neighbours : int, default 3
        Number k of neighbours in the pile that vote for each item.
    strength : float, default 3.0
        Weight lambda of the neighbours' votes.
    """
    xp = array_namespace(support)
    support, query = unit(support), unit(query)
    n_query, of_pile = query.shape[1], 1 / max(query.shape[1], 1)
    onehot = one_hot(labels, like=support) * (gamma / support.shape[1])
    of_support, support_weights = xp.matrix_transpose(onehot) @ support, xp.sum(onehot, axis=-2)
    # Each item's assignments sum to 1, so that this sum of squares is the same in all rounds.
    squares = gamma * xp.mean(support * support, axis=1, keepdims=True)
    squares = squares + of_pile * xp.sum(query * query, axis=1, keepdims=True)  # [B, 1, D]
    total_weight = gamma + of_pile * n_query

    means, _, spread = around_means(support, labels)
    mu, variances = unit(means), spread + xp.zeros_like(squares)
    logits = _logits(query, mu, variances, temperature)
    z = softmax(logits)
    k = min(neighbours, n_query - 1)
    w = None
    if k > 0 and strength > 0:
        w = _weights(query, query, k, is_pile=True)
        w = (strength / (2 * k)) * (w + xp.matrix_transpose(w))
    for i in range(rounds + 1):
        z = softmax(logits) if w is None else _assign(logits, w, z)
        if i == rounds:
            break
        sums = of_support + of_pile * (xp.matrix_transpose(z) @ query)  # [B, N, D]
        weights = (support_weights + of_pile * xp.sum(z, axis=-2))[..., None]
        mu = unit(sums)
        v = squares + xp.sum(mu * (weights * mu - 2 * sums), axis=1, keepdims=True)
        variances = _shrunk(at_least(v, 0.0) / total_weight, shrinkage, spread)
        logits = _logits(query, mu, variances, temperature)
    state = {"prototypes": mu, "variances": variances, "pile": query, "assignments": z}
    return Solution(z, _outlier_scores(logits), state, n_iter=rounds)


def _assign(logits: Array, w: Array, z: Array) -> Array:
    """The assignments after some steps in which neighbours vote, [B, Q, N]."""
    for _ in range(ASSIGNMENT_STEPS):
        z = softmax(logits + sum_votes(w, z))
    return z


def _shrunk(v: Array, shrinkage: float, spread: Array) -> Array:
    """The variances Sigma [B, 1, D]; `spread` where all items are at their means."""
    xp = array_namespace(v)
    mean, s = xp.mean(v, axis=-1, keepdims=True), max(shrinkage, MIN_SHRINKAGE)
    return xp.where(mean <= MIN_PART * spread, spread, (1 - s) * v + s * mean)
