"""FLOWR: Gaussian classes with a prior on their means, and a prior probability of a new class. Inductive, open-set.

Takes each class for a Gaussian in a linear embedding. The mean of a class is itself drawn from a Gaussian, learned on
base classes. So a mean of few examples stays uncertain, and a class without examples has a distribution too. The prior
of a new class grows with `alpha` and falls with the number of examples: with one example per class, more items are
called unknown than with five. It needs a `base` with its head. With `arrivals`, items come one after another, join
classes and open new ones. Their order then matters, and a wrong decision is never undone.

Willes, Harrison, Harakeh, Finn, Pavone, Waslander: "Bayesian Embeddings for Few-Shot Open World Recognition", 2022. An
item z has the embedding e = z W. The mean of a class is drawn from N(m_0, diag s_0), its items from N(mean, diag s).
After n_k items with the sum t_k, the mean of class k and the next item of it have the distributions ::

    lambda_k  = 1 / s_0 + n_k / s,   mu_k = (m_0 / s_0 + t_k / s) / lambda_k        N(mu_k, 1 / lambda_k)
    p(e | k)  = N(e; mu_k, 1 / lambda_k + s),   p(e | new) = N(e; m_0, s_0 + s)     a new class has n_k = 0

and the class of the next item has the prior of the Chinese restaurant process, with n = sum_k n_k::

    P(k) = n_k / (n + alpha),   P(new) = alpha / (n + alpha)
    P(k | e) ~ n_k p(e | k)^(1/T),    P(new | e) ~ alpha p(e | new)^(1/T),    outlier score o = P(new | e)

W, m_0, s_0, s, alpha and T are learned on base classes. T = 1 is Bayes' rule. Features are no Gaussians: their many
dimensions say less together than independent ones would, and T > 1 makes up for it.

With `arrivals` the pile is a sequence. Each item is scored by the classes that exist at that moment. Then it joins the
most probable one: a known class, one that was opened before, or a new one, which is opened. n_k and t_k of that class
change. The answer for an item is that of the moment of its arrival, and o = P(new | e) + the P(k | e) of all opened
classes. Examples of no class are opened classes of one item each from the start, with and without `arrivals`.

The state has a place for each item that could have opened a class: counts and sums of the places without items are 0.

Simplified: the paper also learns the backbone, here it is fixed and the embedding is linear; T is ours; the head learns
on tasks whose queries are scored alone, not on sequences; no label is revealed between arrivals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import FLOOR, Array, as_like, at_least, class_count, one_hot, products, softmax, to_numpy
from handful.core.parameters import Flag, Positive
from handful.methods.registry import Info, Scores, Solution, register

INFO = Info(
    name="flowr",
    estimator="FLOWR",
    title="FLOWR",
    authors="Willes, Harrison, Harakeh, Finn, Pavone, Waslander",
    year=2022,
    paper="Bayesian Embeddings for Few-Shot Open World Recognition (TPAMI 2022)",
    score="probability",
    summary=(
        "Gaussian classes whose means have a prior that was learned on base classes, and a prior probability that an "
        "item opens a new class."
    ),
    new_items="by the classes' distributions after the last arrival",
    state={"counts": "1 K", "sums": "1 K E", "joined": "1 Q", "answers": "1 Q M"},
    base_part="flowr",
)


def statistics(support: Array, labels: Array, base: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return the number of items [B, N] and the sum of the embeddings [B, N, E] of each class."""
    xp = array_namespace(support)
    onehot = one_hot(labels, like=support)
    return xp.sum(onehot, axis=1), xp.matrix_transpose(onehot) @ (support @ base["embedding"])


def predictive(counts: Array, sums: Array, base: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return mean and variance of the next item of classes: [..., K] and [..., K, E] to [..., K, E] each."""
    xp = array_namespace(sums)
    s_0, s = xp.exp(base["log_between"]), xp.exp(base["log_within"])
    precision = 1 / s_0 + counts[..., None] / s
    return (base["prior_mean"] / s_0 + sums / s) / precision, 1 / precision + s


def log_joint(embedded: Array, counts: Array, sums: Array, base: Mapping[str, Array], log_alpha: Array) -> Array:
    """Return log P(class, e) of embeddings [B, n, E], up to a constant: [B, n, K + 1], the last is a new class."""
    xp = array_namespace(embedded)
    counts = xp.concat([counts, xp.zeros_like(counts[:, :1])], axis=1)
    sums = xp.concat([sums, xp.zeros_like(sums[:, :1])], axis=1)
    mean, variance = predictive(counts, sums, base)
    offset = xp.sum(xp.log(variance) + mean * mean / variance, axis=-1)[:, None, :]
    log_p = products(embedded, mean / variance) - (products(embedded * embedded, 1 / variance) + offset) / 2
    log_counts = xp.log(at_least(counts[:, :-1], FLOOR**3))  # very low where a class has no items
    log_prior = xp.concat([log_counts, log_alpha + 0 * counts[:, -1:]], axis=1)
    return log_p / xp.exp(base["log_temperature"]) + log_prior[:, None, :]


def log_alpha_of(base: Mapping[str, Array], alpha: float | None) -> Array:
    """Return the logarithm of alpha as an array [1]: that of the head, unless another alpha is given."""
    learned = base["log_alpha"]
    return learned if alpha is None else as_like(np.log([alpha]), learned)


def known_and_new(p: Array, ways: int) -> Scores:
    """Split probabilities [..., K + 1] into those of the known classes [..., N], and that of all others [...]."""
    others = array_namespace(p).sum(p[..., ways:], axis=-1)
    return p[..., :ways], -at_least(-others, -1.0)  # a sum of rounded numbers may be above 1


def score_new(
    state: Mapping[str, Array], items: Array, *, base: Any = None, alpha: float | None = None, **_: Any
) -> Scores:
    """Score new items by the classes as they are. No item joins."""
    ways = state["answers"].shape[-1] - 1
    if state["counts"].shape[1] < ways:
        raise ValueError(f"the state has {state['counts'].shape[1]} classes, and {ways} are known: fit the model again")
    used = max(ways, int(to_numpy(state["counts"] > 0).sum(axis=1).max()))  # the places after the last class are free
    counts, sums = state["counts"][:, :used], state["sums"][:, :used]
    l = log_joint(items @ base["embedding"], counts, sums, base, log_alpha_of(base, alpha))
    return known_and_new(softmax(l), ways)


def arrive_all(
    state: Mapping[str, Array], query: Array, base: Mapping[str, Array], alpha: float | None = None
) -> dict[str, Array]:
    """Let the queries [B, Q, D] arrive one after another, and return the state after the last of them.

    There is a place for each class that may be opened. The first free place is the new class, those after it have a
    prior of 0: so an arrival is the same few operations for all tasks, and only the class that it joins changes.
    """
    xp, ways = array_namespace(query), state["answers"].shape[-1] - 1
    embedded, temperature = query @ base["embedding"], xp.exp(base["log_temperature"])
    free = as_like(np.zeros((len(query), query.shape[1] + 1, embedded.shape[2])), embedded)
    counts = xp.concat([state["counts"], free[..., 0]], axis=1)
    sums = xp.concat([state["sums"], free], axis=1)

    def distributions(counts: Array, sums: Array) -> tuple[Array, Array, Array]:
        """Mean, precision / T, and the part of log p / T that does not depend on the item."""
        mean, variance = predictive(counts, sums, base)
        return mean, 1 / (temperature * variance), -xp.sum(xp.log(variance), axis=-1) / (2 * temperature)

    mean, precision, log_scale = distributions(counts, sums)
    task, used = np.arange(len(query)), to_numpy(counts > 0).sum(axis=1)  # [B], the place of the new class
    offset = xp.where(counts > 0, xp.log(at_least(counts, 1.0)), -xp.inf) + log_scale
    new_offset = (log_alpha_of(base, alpha) + log_scale[:, -1])[0]
    offset[task, used] = new_offset
    answers, joined = [state["answers"]], [to_numpy(state["joined"])]
    for i in range(query.shape[1]):
        most, e = used.max() + 1, embedded[:, i]
        difference = e[:, None, :] - mean[:, :most]
        p = softmax(offset[:, :most] - xp.sum(difference * difference * precision[:, :most], axis=-1) / 2)
        known, other = known_and_new(p, ways)
        place = task, to_numpy(xp.argmax(p, axis=-1))
        counts[place] += 1
        sums[place] += e
        mean[place], precision[place], log_scale = distributions(counts[place], sums[place])
        offset[place] = xp.log(counts[place]) + log_scale
        used = used + (place[1] == used)
        offset[task, used] = new_offset
        answers.append(xp.concat([known, other[:, None]], axis=1)[:, None])
        joined.append(place[1][:, None])
    return {
        "counts": counts[:, :-1], "sums": sums[:, :-1],
        "joined": as_like(np.concatenate(joined, axis=1), query), "answers": xp.concat(answers, axis=1),
    }  # fmt: skip


def start(support: Array, labels: Array, unknown: Array | None, base: Mapping[str, Array]) -> dict[str, Array]:
    """Return the state before the first arrival: each example of no class is an opened class of one item."""
    xp = array_namespace(support)
    counts, sums = statistics(support, labels, base)
    if unknown is not None and unknown.shape[1]:
        counts = xp.concat([counts, xp.ones_like(unknown[:, :, 0])], axis=1)
        sums = xp.concat([sums, unknown @ base["embedding"]], axis=1)
    ways = class_count(labels)
    empty = as_like(np.empty((support.shape[0], 0, ways + 1)), support)
    return {"counts": counts, "sums": sums, "joined": empty[..., 0], "answers": empty}


@register(INFO, score_new=score_new)
def flowr(
    support: Array,
    labels: Array,
    query: Array,
    unknown: Array | None = None,
    *,
    base: Any = None,
    alpha: Positive | None = None,
    arrivals: Flag = False,
) -> Solution:
    """Solve tasks by Gaussian classes whose means have a learned prior, and by the probability of a new class.

    Parameters
    ----------
    unknown : array [B, U, D], optional
        Prepared features of examples of no class: opened classes of one item each.
    base : handful.methods.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given.
    alpha : float, optional
        How strongly new classes are expected, as a number of items, in place of the learned alpha.
    arrivals : bool, default False
        Whether items arrive one after another and join classes, also new ones. If not, each item is scored alone.
    """
    state = start(support, labels, unknown, base)
    if arrivals:
        state = arrive_all(state, query, base, alpha)
        return Solution(state["answers"][..., :-1], state["answers"][..., -1], state)
    return Solution(*score_new(state, query, base=base, alpha=alpha), state)
