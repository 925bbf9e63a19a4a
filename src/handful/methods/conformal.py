"""Conformal novelty detection: a p-value for each item; a false-discovery rate decides. Inductive, open-set.

Gives each item a p-value: how often an item of a known class would be as far from its class mean. Distances are
calibrated by tasks with as many classes and shots, drawn from a sample of base items that the `base` keeps. Of the
items called unknown, the part `fdr` at most should belong to a class. That holds if the classes are like the base
classes, and as new to the backbone; few or other base classes break it. Use it where a wrong "unknown" is expensive.
With one example it finds few unknowns, because few are certain. Items are ranked as by the nearest class mean. New
items get the threshold of the pile, without a promise.

Bates, Candes, Lei, Romano, Sesia: "Testing for Outliers with Conformal p-values", 2023. The nonconformity score s says
how strange an item is. With n scores s_k of items that are known to be inliers, of which none made the score::

    p_i = (1 + #{k : s_k >= s_i}) / (n + 1)

If item i is an inlier too, exchangeable with these, then P(p_i <= t) <= t. A task calls the items unknown that the rule
of Benjamini and Hochberg finds at the level `fdr`, with Storey's estimate of the share of inliers::

    share = min(1, (1 + 1/N) (1 + #{i : p_i > 1/2}) / (Q / 2))
    unknown: p_i <= p_(k),    k = max{k : p_(k) <= min(1/2, fdr k / (Q share))}

Without the estimate, as if all items were inliers, the rule would find far fewer of many unknowns. The factor 1 + 1/N
is ours: if the N classes of a task happen to be wide, all p-values of inliers are small together, and the share is
underestimated just where most inliers are called unknown.

The examples of a task are too few to calibrate: 25 of them give no p below 1/26. So base classes calibrate. Tasks with
as many classes and shots are drawn from a sample of base items, with a fixed seed, and the s_k are the scores of their
held-out items. The assumption is that **the classes of the task are like the base classes (exchangeable classes)**, and
that the base items are as new to the backbone as those of the task. With c_j the mean of the n_j examples of class j,
and v_0 the mean variance within a base class::

    v   = (16 N v_0 + sum_j sum_{z in j} |z - c_j|^2) / (16 N + sum_j (n_j - 1))      the spread of the task's classes
    s_i = min_j |q_i - c_j|^2 / ((1 + 1 / n_j) v)

So the examples count by their own spread, shrunk towards that of the base: 1 + 1/n_j is what a mean of few examples
adds to a distance. With examples u of no class, s_i + w m_i takes the place of s_i, m_i = max_u cos(q_i, u) -
max_z cos(q_i, z), and the drawn tasks get as many examples of other base classes; w makes both vary equally over the
drawn tasks. Classes are those of SimpleShot, p_ij = softmax_j(tau cos(q_i, c_j)).

The outlier score is 1 - p_i, plus at most 0.9 / (n + 1) that grows with s_i, so that items of equal p are ranked too.

Simplified: the paper calibrates by held-out inliers of the same distribution, and gives an exact guarantee for them.
Here scores from one drawn task depend on each other, and drawn tasks share base classes: with few base classes the rate
can be off in either direction. The paper's p-values that hold for almost every calibration set are not used.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from array_api_compat import array_namespace

from handful.core.arrays import (
    FLOOR,
    Array,
    as_like,
    at_least,
    class_count,
    class_means,
    class_prototypes,
    cosine_to,
    one_hot,
    softmax,
    squared_distances,
    to_numpy,
    unit,
)
from handful.core.parameters import Number, Positive
from handful.methods.margin import margins
from handful.methods.registry import Info, Solution, register

SEED = 0
CALIBRATION_SCORES = 2000  # the smallest p-value is one over this and one more
QUERIES = 40  # held-out items of a drawn task, about: so that many tasks are drawn
PRIOR_EXAMPLES = 16  # of each class, which the spread of the base counts as
STOREY_LEVEL = 0.5  # p-values above it are of inliers, nearly all
ROUNDING = 1e-9  # a p-value may be above the rule by so much
TIE_BREAK = 0.9  # of a step between p-values
MAX_BLOCK_NUMBERS = 1 << 22  # features of the drawn tasks that are in memory at once
MAX_STORED = 256  # calibrations

INFO = Info(
    name="conformal",
    estimator="Conformal",
    title="Conformal novelty",
    authors="Bates, Candes, Lei, Romano, Sesia",
    year=2023,
    paper="Testing for Outliers with Conformal p-values (Annals of Statistics 2023)",
    summary=(
        "One minus a p-value: how many held-out items of base classes are as far from the nearest class mean. A "
        "false-discovery rate decides what is unknown."
    ),
    new_items="by the class means and the stored calibration scores",
    base_part="conformal",
    state={
        "support": "1 S D", "unknown": "1 U D", "means": "1 N D", "spreads": "1 N", "weight": "1", "calibration": "1 K",
    },
    decision=(
        "Items are called unknown by their p-values: of these items, about {fdr} at most should belong to a class, "
        "if the classes are like the base classes."
    ),
)  # fmt: skip

_stored: dict[tuple[Any, ...], tuple[Array, Array, Array]] = {}  # what `calibrate` gave


def nearest(items: Array, means: Array, spreads: Array) -> Array:
    """The squared distances [B, n] to the nearest class mean, each divided by the spread of its class [B, N]."""
    return array_namespace(items).min(squared_distances(items, means) / spreads[:, None], axis=-1)


def class_spreads(support: Array, labels: np.ndarray, means: Array, base_variance: Array) -> Array:
    """What an item's squared distance to the mean of its class should be [B, N]: (1 + 1 / n_j) v."""
    xp = array_namespace(support)
    onehot = one_hot(labels, like=support)
    counts = xp.sum(onehot, axis=1)  # [B, N]
    residuals = support - onehot @ means
    ways, total = means.shape[1], support.shape[1]
    squares = xp.sum(xp.vecdot(residuals, residuals), axis=-1)  # [B]
    prior = PRIOR_EXAMPLES * ways
    variance = (prior * base_variance + squares) / (prior + total - ways)
    return (1 + 1 / counts) * at_least(variance, FLOOR)[:, None]


def variance_within(items: Array, codes: np.ndarray) -> Array:
    """The mean over classes of the variance within a class: items [M, D] and codes 0 .. C-1 to a number."""
    xp = array_namespace(items)
    onehot = one_hot(codes[None], class_count(codes), like=items)
    residuals = items - (onehot @ class_means(items[None], onehot))[0]
    counts = np.bincount(codes)
    return xp.sum(xp.vecdot(residuals, residuals)) / max(1, int((counts - 1).sum()))


def drawn_rows(codes: np.ndarray, shots: tuple[int, ...], unknown: int, count: int) -> tuple[np.ndarray, ...]:
    """The rows of base items in drawn tasks: support [G, S], unknown [G, U] and queries [G, q], and labels [S].

    shots: from the most to the fewest. A base with fewer classes, or fewer items of a class, than the task gives tasks
    with fewer classes or examples.
    """
    rng = np.random.default_rng(SEED)
    members = [np.flatnonzero(codes == code) for code in np.flatnonzero(np.bincount(codes) > 1)]
    ways = min(len(shots), len(members) - (unknown > 0))
    if ways < 1:
        needed = "two, because there are examples of no class," if unknown else "one"
        raise ValueError(
            f"the base has {len(members)} classes with two or more items, and {needed} or more are needed to calibrate "
            "p-values: give the base file of more classes"
        )
    each = min(map(len, members))
    rows = np.stack([of_class[:each] for of_class in members])  # [C, each]
    own = np.minimum(shots[:ways], each - 1)
    queries = min(max(1, round(QUERIES / ways)), each - int(own.max()))
    tasks = -(-count // (ways * queries))
    order = rng.random((tasks, len(rows))).argsort(axis=1)
    rows = np.take_along_axis(rows[order], rng.random((tasks, *rows.shape)).argsort(axis=2), axis=2)  # [G, C, each]
    place = np.arange(each)
    is_support, is_query = place < own[:, None], (own[:, None] <= place) & (place < own[:, None] + queries)
    others = rows[:, ways:].reshape(tasks, -1)
    others = others[:, rng.permutation(np.resize(np.arange(others.shape[1]), unknown)) if unknown else slice(0, 0)]
    known = rows[:, :ways]
    return known[:, is_support], others, known[:, is_query], np.repeat(np.arange(ways), own)


def calibrate(items: Array, codes: np.ndarray, shots: tuple[int, ...], unknown: int) -> tuple[Array, Array, Array]:
    """Scores of inliers in tasks of base items [M, D]: sorted [K], with the variance v_0 and the weight w."""
    xp = array_namespace(items)
    base_variance = variance_within(items, codes)
    *rows, labels = drawn_rows(codes, shots, unknown, CALIBRATION_SCORES)
    per_task = sum(part.shape[1] for part in rows) * items.shape[1]
    size = max(1, MAX_BLOCK_NUMBERS // per_task)
    distances, nearer = [], []
    for i in range(0, len(rows[0]), size):
        support, others, queries = (items[part[i : i + size]] for part in rows)
        own = np.tile(labels, (len(queries), 1))
        means = class_means(support, one_hot(own, class_count(own), like=support))
        spreads = class_spreads(support, own, means, base_variance)
        distances.append(xp.reshape(nearest(queries, means, spreads), (-1,)))
        if unknown:
            nearer.append(xp.reshape(margins(queries, unit(support), unit(others)), (-1,)))
    scores, weight = xp.concat(distances), xp.zeros_like(base_variance)
    if unknown:
        margin = xp.concat(nearer)
        weight = xp.std(scores) / at_least(xp.std(margin), FLOOR**0.5)
        scores = scores + weight * margin
    return xp.sort(scores[:CALIBRATION_SCORES]), base_variance, weight


def calibrations(base: Any, labels: np.ndarray, unknown: int) -> list[Array]:
    """What `calibrate` gives each task, [B, K], [B] and [B]; stored unless the task prepares the base items."""
    mark = getattr(base, "mark", None)
    shots = [tuple(sorted(np.bincount(row).tolist(), reverse=True)) for row in labels]
    keys = [(mark or i, own, unknown) for i, own in enumerate(shots)]
    results = {key: _stored.get(key) if mark else None for key in keys}
    if None in results.values():
        items, codes = base["items"], np.unique(to_numpy(base["codes"]), return_inverse=True)[1]
        for i, (key, own) in enumerate(zip(keys, shots, strict=True)):
            if results[key] is None:  # items are [1, M, D], or [B, M, D] where tasks prepare them differently
                results[key] = calibrate(items[i if len(items) > 1 else 0], codes, own, unknown)
    if mark:
        if len(_stored) > MAX_STORED:
            _stored.clear()
        _stored.update({key: value for key, value in results.items() if value is not None})
    parts = zip(*(results[key] for key in keys), strict=True)
    return [array_namespace(part[0]).stack(part) for part in parts]


def p_values(calibration: Array, scores: Array) -> tuple[np.ndarray, np.ndarray]:
    """p-values [B, n] of scores by sorted calibration scores [B, K], and how far scores are in their gap, 0 to 1."""
    c, s = (to_numpy(x).astype(np.float64) for x in (calibration, scores))
    count, n = c.shape[1], s.shape[1]
    order = np.argsort(np.concatenate([s, c], axis=1), axis=1, kind="stable")  # an item comes before an equal score
    is_calibration = order >= n
    before = np.empty_like(order)
    np.put_along_axis(before, order, np.cumsum(is_calibration, axis=1), axis=1)
    below = before[:, :n]  # the number of calibration scores that are lower
    width = np.maximum(c[:, -1:] - c[:, :1], FLOOR)
    low = np.take_along_axis(c, np.maximum(below - 1, 0), axis=1)
    high = np.take_along_axis(c, np.minimum(below, count - 1), axis=1)
    inside = (s - low) / np.maximum(high - low, FLOOR * width)
    over, under = (s - low) / width, (high - s) / width
    place = np.where(below == 0, 1 / (1 + np.maximum(under, 0)), np.where(below == count, over / (1 + over), inside))
    return (1 + count - below) / (count + 1), np.clip(place, 0, 1)


def at_false_discovery(p: np.ndarray, rate: float, inlier_share: Any = 1.0, limit: float = 1.0) -> np.ndarray:
    """The largest of the p-values [B, n] that are called discoveries, 0 if none is: at most `rate` should be false.

    This is the rule of Benjamini and Hochberg, where inlier_share [B] of the items belong to classes; a p-value above
    the limit is never a discovery.

    >>> at_false_discovery(np.array([[0.01, 0.9, 0.04, 0.3]]), 0.1)  # 0.04 <= 0.1 * 2 / 4
    array([0.04])
    """
    ordered, rank = np.sort(p, axis=1), np.arange(1, p.shape[1] + 1)
    share = np.broadcast_to(inlier_share, len(p))[:, None]
    is_small = (ordered * (p.shape[1] * share) <= rate * rank + ROUNDING) & (ordered <= limit)
    count = np.max(is_small * rank, axis=1, initial=0)
    largest: np.ndarray = np.pad(ordered, ((0, 0), (1, 0)))[np.arange(len(p)), count]
    return largest


def storey_share(p: np.ndarray, level: float = STOREY_LEVEL) -> np.ndarray:
    """An estimate of the share of inliers [B] by Storey (2002): (1 + number of p-values above level) / (n (1 - level)).

    p-values of inliers are uniform, those of outliers are small. So the p-values above the level are of inliers, which
    are about 1 - level of all inliers. Never above 1.

    >>> storey_share(np.array([[0.01, 0.02, 0.01, 0.03, 0.02, 0.04, 0.7, 0.2]]))  # (1 + 1) / (8 * 0.5)
    array([0.5])
    """
    share: np.ndarray = np.minimum(1.0, (1 + np.sum(p > level, axis=-1)) / max(p.shape[-1] * (1 - level), FLOOR))
    return share


def decide(state: dict[str, Array], scores: Array, *, fdr: float = 0.1, **_: Any) -> Array:
    """The thresholds [B] from the outlier scores [B, Q] of all queries."""
    steps = state["calibration"].shape[1] + 1
    strangeness = (1 - to_numpy(scores).astype(np.float64)) * steps
    p = np.ceil(strangeness - (1 - TIE_BREAK) / 2) / steps  # without the tie-break, whatever was rounded
    share = np.minimum(1.0, (1 + 1 / state["means"].shape[1]) * storey_share(p))
    largest = at_false_discovery(p, fdr, share, STOREY_LEVEL)
    return as_like(1 - largest - (1 - TIE_BREAK) / 2 / steps, scores)  # between two steps


def score_new(
    state: dict[str, Array], items: Array, *, base: Any = None, fdr: float = 0.1, temperature: float = 10.0
) -> tuple[Array, Array]:
    """Score new items by the class means and the calibration scores."""
    probabilities = softmax(temperature * cosine_to(items, state["means"]))
    s = nearest(items, state["means"], state["spreads"])
    if state["unknown"].shape[1]:
        s = s + state["weight"][:, None] * margins(items, unit(state["support"]), unit(state["unknown"]))
    p, place = p_values(state["calibration"], s)
    return probabilities, as_like(1 - p + TIE_BREAK * place / (state["calibration"].shape[1] + 1), items)


@register(INFO, score_new=score_new)
def conformal(
    support: Array,
    labels: Array,
    query: Array,
    unknown: Array | None = None,
    *,
    base: Any = None,
    fdr: Annotated[float, Number(0, 1)] = 0.1,
    temperature: Positive = 10.0,
) -> Solution:
    """Find unknown items by conformal p-values, at a false-discovery rate.

    Parameters
    ----------
    unknown : array [B, U, D], optional
        Prepared features of examples of no class.
    base : handful.methods.Base or path, optional
        What was learned on the base classes, or the path of its file. It must be given. Its classes should be as new to
        the backbone as those of the task.
    fdr : float, default 0.1
        The false-discovery rate: of the items that are called unknown, the part that may belong to a class.
    temperature : float, default 10.0
        The temperature tau: cosines are multiplied by it before the softmax.
    """
    unknown = support[:, :0] if unknown is None else unknown
    calibration, base_variance, weight = calibrations(base, labels, unknown.shape[1])
    means = class_prototypes(support, labels)
    spreads = class_spreads(support, labels, means, base_variance)
    state = {
        "support": support, "unknown": unknown, "means": means, "spreads": spreads, "weight": weight,
        "calibration": calibration,
    }  # fmt: skip
    probabilities, scores = score_new(state, query, temperature=temperature)
    return Solution(probabilities, scores, state, threshold=decide(state, scores, fdr=fdr))
