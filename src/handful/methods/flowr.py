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
    needs="base",
    state={"counts": "1 K", "sums": "1 K E", "joined": "1 Q", "answers": "1 Q M"},
    base_part="flowr",
)

MIN_CAPACITY = 16  # classes that can be opened before the arrays of classes are enlarged


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
    return log_p / xp.exp(base["log_temperature"]) + log_prior(counts, log_alpha)[:, None, :]


def log_prior(counts: Array, log_alpha: Array) -> Array:
    """Return log n_k [B, K + 1], log alpha in the last place, and a very low number where a class has no items."""
    xp = array_namespace(counts)
    return xp.concat([xp.log(at_least(counts[:, :-1], FLOOR**3)), log_alpha + 0 * counts[:, -1:]], axis=1)


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


class Arrivals:
    """The classes of B tasks while items arrive.

    Class arrays have room for more classes than there are. The first place after the existing classes is the new
    class, which has no items; the places after it have a prior of 0. So an arrival is the same few operations for all
    tasks, and only the class that the item joins is computed again.

    Parameters
    ----------
    counts, sums : array [B, K], array [B, K, E]
        Statistics of the existing classes; places without items at the end are free.
    base : mapping of str to array
        The head.
    log_alpha : array [1]
        The logarithm of alpha.
    """

    def __init__(self, counts: Array, sums: Array, base: Mapping[str, Array], log_alpha: Array) -> None:
        self.base, self.log_alpha = dict(base), log_alpha
        self.temperature = array_namespace(sums).exp(base["log_temperature"])
        self.counts, self.sums = counts, sums
        self.used = to_numpy(counts > 0).sum(axis=1)  # [B], the place of the new class
        self.task = np.arange(len(self.used))
        self._enlarge()

    def _enlarge(self) -> None:
        """Make room for at least as many new classes as there are classes."""
        xp, most = array_namespace(self.sums), int(self.used.max())
        self.counts, self.sums = self.padded(most + max(MIN_CAPACITY, most))
        self.mean, variance = predictive(self.counts, self.sums, self.base)
        self.precision = 1 / (self.temperature * variance)
        log_scale = self._log_scale(variance)
        self.offset = xp.where(self.counts > 0, xp.log(at_least(self.counts, 1.0)), -xp.inf) + log_scale
        self.new_offset = (self.log_alpha + log_scale[:, -1])[0]
        self.offset[self.task, self.used] = self.new_offset

    def _log_scale(self, variance: Array) -> Array:
        """Return the part of log p / T that does not depend on the item."""
        xp = array_namespace(variance)
        return -xp.sum(xp.log(variance), axis=-1) / (2 * self.temperature)

    def padded(self, size: int) -> tuple[Array, Array]:
        """Return counts and sums with this many places: those after the last class are 0."""
        xp = array_namespace(self.sums)
        most = int(self.used.max())
        counts, sums = self.counts[:, :most], self.sums[:, :most]
        shape = sums.shape[0], size - most, sums.shape[2]
        rest = as_like(np.zeros(shape), sums)
        return xp.concat([counts, rest[..., 0]], axis=1), xp.concat([sums, rest], axis=1)

    def arrive(self, e: Array) -> tuple[Array, np.ndarray]:
        """Let one item [B, E] of each task arrive; return the probabilities [B, K + room] and the class it joined."""
        xp = array_namespace(e)
        difference = e[:, None, :] - self.mean
        p = softmax(self.offset - xp.sum(difference * difference * self.precision, axis=-1) / 2)
        joined = to_numpy(xp.argmax(p, axis=-1))
        place = self.task, joined
        self.counts[place] += 1
        self.sums[place] += e
        count = self.counts[place]
        mean, variance = predictive(count, self.sums[place], self.base)
        self.mean[place], self.precision[place] = mean, 1 / (self.temperature * variance)
        self.offset[place] = xp.log(count) + self._log_scale(variance)
        is_opened = joined == self.used
        if is_opened.any():
            self.used = self.used + is_opened
            if self.used.max() == self.counts.shape[1]:
                self._enlarge()
            else:
                self.offset[self.task[is_opened], self.used[is_opened]] = self.new_offset
        return p, joined


def arrive_all(
    state: Mapping[str, Array], query: Array, base: Mapping[str, Array], alpha: float | None = None
) -> dict[str, Array]:
    """Let the queries [B, Q, D] arrive one after another, and return the state after the last of them."""
    xp = array_namespace(query)
    ways, embedded = state["answers"].shape[-1] - 1, query @ base["embedding"]
    classes = Arrivals(state["counts"], state["sums"], base, log_alpha_of(base, alpha))
    answers, joined = [state["answers"]], [to_numpy(state["joined"])]
    for i in range(query.shape[1]):
        p, place = classes.arrive(embedded[:, i])
        known, other = known_and_new(p, ways)
        answers.append(xp.concat([known, other[:, None]], axis=1)[:, None])
        joined.append(place[:, None])
    counts, sums = classes.padded(state["counts"].shape[1] + query.shape[1])
    return {
        "counts": counts, "sums": sums,
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


def _arrived(state: dict[str, Array]) -> Solution:
    answers = state["answers"]
    return Solution(answers[..., :-1], answers[..., -1], state)


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
        return _arrived(arrive_all(state, query, base, alpha))
    return Solution(*score_new(state, query, base=base, alpha=alpha), state)
